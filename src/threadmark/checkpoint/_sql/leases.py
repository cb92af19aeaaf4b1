"""Leases: who may work on a thread, and until when."""

from __future__ import annotations

from datetime import timedelta

from threadmark._db.effects import Execute, Operation, Transaction
from threadmark.checkpoint._sql.shapes import LEASE
from threadmark.checkpoint._sql.statements import Statements
from threadmark.errors import LeaseLostError

__all__ = ["check_lease", "drop_lease", "take_lease"]


def take_lease(sql: Statements, thread_id: str, token: str, ttl: timedelta, now: int) -> Operation[bool]:
    """Take or renew a lease, if it is free, has ended, or has this token."""
    taken: bool = yield Transaction(_take_lease(sql, thread_id, token, ttl, now))
    return taken


def _take_lease(sql: Statements, thread_id: str, token: str, ttl: timedelta, now: int) -> Operation[bool]:
    for holder, expires in LEASE.of((yield Execute(sql.find_lease, (thread_id,))), thread_id):
        if holder != token and expires > now:
            return False
    until = now + max(round(ttl.total_seconds() * 1000), 1)
    yield Execute(sql.set_lease, (thread_id, token, until))
    return True


def drop_lease(sql: Statements, thread_id: str, token: str) -> Operation[None]:
    """Give a lease back, if it still has this token."""

    def body() -> Operation[None]:
        yield Execute(sql.drop_lease, (thread_id, token))

    yield Transaction(body())


def check_lease(sql: Statements, thread_id: str, token: str) -> Operation[None]:
    """Make sure that nobody else has taken the lease with this token.

    Raises:
        LeaseLostError: Somebody has, or it was given back.
    """
    rows = yield Execute(sql.find_lease, (thread_id,))
    if not rows or rows[0][0] != token:
        raise LeaseLostError(thread_id)
