"""Leases: one run at a time on a thread, across threads, processes and machines.

A lease ends by itself when its holder dies. A holder that lost its lease can no longer commit: every
commit that names a lease is refused once somebody else has it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Self

from threadmark._checks import amount, duration
from threadmark.checkpoint.address import thread_id_of
from threadmark.checkpoint.bridge import Bridged
from threadmark.errors import InvalidArgumentError, LeaseLostError

__all__ = ["Lease", "Leases"]

DEFAULT_TTL = timedelta(seconds=30)
_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.1


class Leases(Bridged):
    """What a saver offers for leases. A lease is known by a token that is never used twice."""

    def lease(self, thread_id: str, ttl: timedelta = DEFAULT_TTL) -> Lease:
        """Return a lease on a thread, which is not held yet.

        Args:
            thread_id: The thread. It need not exist.
            ttl: How long the lease lasts when it is not renewed.
        """
        duration("ttl", ttl)
        return Lease(self, thread_id_of(thread_id), ttl)

    def take_lease(self, thread_id: str, token: str, ttl: timedelta) -> bool:
        """Take or renew a lease: it succeeds if the lease is free, has ended, or has this token."""
        taken: bool = self._sync("take_lease", thread_id, token, ttl)
        return taken

    async def atake_lease(self, thread_id: str, token: str, ttl: timedelta) -> bool:
        """Async `take_lease`."""
        taken: bool = await self._async("take_lease", thread_id, token, ttl)
        return taken

    def drop_lease(self, thread_id: str, token: str) -> None:
        """Give a lease back, if it still has this token."""
        self._sync("drop_lease", thread_id, token)

    async def adrop_lease(self, thread_id: str, token: str) -> None:
        """Async `drop_lease`."""
        await self._async("drop_lease", thread_id, token)


class Lease:
    """The right to work on a thread, for a time. Also a context manager, sync and async.

    Attributes:
        thread_id: The thread.
        ttl: How long the lease lasts from when it was acquired or renewed.
        token: Names the lease in commits; `None` while it is not held.
    """

    def __init__(self, saver: Leases, thread_id: str, ttl: timedelta) -> None:
        self._saver = saver
        self.thread_id = thread_id
        self.ttl = ttl
        self.token: str | None = None

    def acquire(self, timeout: float | None = None) -> bool:
        """Wait for the lease.

        Args:
            timeout: How many seconds to wait at most; `None` for as long as it takes.

        Returns:
            Whether the lease is held now.
        """
        amount("timeout", timeout, zero=True, optional=True)
        token = os.urandom(16).hex()
        for pause in _pauses(timeout):
            if self._saver.take_lease(self.thread_id, token, self.ttl):
                self.token = token
                return True
            time.sleep(pause)
        return False

    async def aacquire(self, timeout: float | None = None) -> bool:
        """Async `acquire`."""
        import asyncio

        amount("timeout", timeout, zero=True, optional=True)
        token = os.urandom(16).hex()
        for pause in _pauses(timeout):
            if await self._saver.atake_lease(self.thread_id, token, self.ttl):
                self.token = token
                return True
            await asyncio.sleep(pause)
        return False

    def renew(self) -> None:
        """Make the lease last for its whole time again.

        Raises:
            LeaseLostError: It ended, and somebody else has it.
        """
        if not self._saver.take_lease(self.thread_id, self._held(), self.ttl):
            self._lose()

    async def arenew(self) -> None:
        """Async `renew`."""
        if not await self._saver.atake_lease(self.thread_id, self._held(), self.ttl):
            self._lose()

    def release(self) -> None:
        """Give the lease back. Giving back what is not held does nothing."""
        token, self.token = self.token, None
        if token is not None:
            self._saver.drop_lease(self.thread_id, token)

    async def arelease(self) -> None:
        """Async `release`."""
        token, self.token = self.token, None
        if token is not None:
            await self._saver.adrop_lease(self.thread_id, token)

    def _held(self) -> str:
        if self.token is None:
            raise InvalidArgumentError("The lease is not held; acquire it first.")
        return self.token

    def _lose(self) -> None:
        self.token = None
        raise LeaseLostError(self.thread_id)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def __aenter__(self) -> Self:
        await self.aacquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.arelease()


def _pauses(timeout: float | None) -> Iterator[float]:
    """Yield how long to wait before the next attempt, until the time is over."""
    end = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while True:
        left = pause if end is None else min(pause, end - time.monotonic())
        yield max(left, 0.0)
        if end is not None and time.monotonic() >= end:
            return
        pause = min(pause * 2, _LONGEST_PAUSE)
