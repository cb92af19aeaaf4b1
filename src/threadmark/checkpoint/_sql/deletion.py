"""Deletes threads: every row, in one transaction."""

from __future__ import annotations

from threadmark._db.effects import Execute, Operation, Transaction
from threadmark.checkpoint._sql.statements import Statements

__all__ = ["delete_rows", "delete_thread"]


def delete_thread(sql: Statements, thread_id: str) -> Operation[None]:
    """Delete everything of a thread. A thread of the same id that comes later is another one."""
    yield Transaction(_delete_thread(sql, thread_id))


def _delete_thread(sql: Statements, thread_id: str) -> Operation[None]:
    for (thread,) in (yield Execute(sql.find_thread, (thread_id,))):
        yield from delete_rows(sql, thread)


def delete_rows(sql: Statements, thread: int) -> Operation[None]:
    """Delete every row of a thread."""
    for statement in sql.delete_thread:
        yield Execute(statement, (thread,))
