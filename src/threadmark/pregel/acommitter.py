"""How a run's commits reach its saver from an event loop. See `committer.py`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from threadmark.checkpoint.base import Commit, Loaded, TaskCommit
from threadmark.pregel.committer import Committer
from threadmark.pregel.scope import Session

__all__ = ["AsyncCommitter", "until_done"]


class AsyncCommitter(Committer):
    """Saves from an event loop, for the run and for tasks that its nodes call."""

    under_way: asyncio.Task[None] | None = None

    def __init__(self, session: Session, loaded: Loaded, outer: Any = None) -> None:
        super().__init__(session, loaded, outer)
        self.lock = asyncio.Lock()
        self.line: list[Any] = []

    async def take(self, work: Commit | TaskCommit) -> None:
        """Save a commit, or have it saved while the run goes on."""
        async with self.lock:
            if self.may_wait(work):
                await self.get_in_line(work)
            else:
                await self.settle()
                prepared = self.prepare(work)
                if self.outer is not None:
                    self.hold(prepared)
                elif self.saver.commit_inline and not self.saver.commits_waiting:
                    await self.write(prepared)  # It waits for nothing, so that nothing can cancel it.
                else:
                    await until_done(asyncio.ensure_future(self.write(prepared)))
            self.started = time.perf_counter()

    async def write(self, prepared: Any) -> None:
        """Save a prepared commit, and then what sub-graphs have waiting."""
        self.head = await self.saver.acommit(prepared) or self.head
        waiting, self.waiting = self.waiting, []
        for held in waiting:
            await self.saver.acommit(held)

    async def get_in_line(self, work: Commit | TaskCommit) -> None:
        """Put a commit in line, behind those that are under way."""
        waits = not (self.foresees and self.in_burst) or len(self.line) >= self.saver.commits_waiting
        if waits or self.ended:
            await self.settle()
        self.line.append(self.prepare(work))
        self.foresee(work)
        if self.under_way is None:
            self.under_way = asyncio.ensure_future(self.write_line())

    @property
    def ended(self) -> bool:
        """Whether what was under way has come to its end."""
        return self.under_way is not None and self.under_way.done()

    async def write_line(self) -> None:
        """Save what is in line, until nothing is."""
        while self.line:
            line, self.line = self.line, []
            try:
                moved = await self.saver.acommit_many(line)
            except BaseException:
                self.line = []
                raise
            if not self.foresees:
                self.head = moved or self.head

    async def drain(self) -> None:
        """Wait for what is being saved; raise what went wrong."""
        async with self.lock:
            await self.settle()

    async def settle(self) -> None:
        """Do what `drain` does, for one who holds the lock."""
        under_way, self.under_way = self.under_way, None
        if under_way is not None:
            await until_done(under_way)

    async def check(self) -> None:
        """Raise what went wrong with commits that have ended meanwhile."""
        if self.ended:
            await self.drain()

    async def before_showing(self) -> None:
        """Wait for the line: what is shown of a run is saved, or in the one commit that is under way."""
        if self.under_way is not None and (self.saver.commit_inline or self.in_burst):
            await self.drain()

    async def close(self) -> None:
        """Wait for what is being saved."""
        await self.drain()


async def until_done(task: asyncio.Task[None]) -> None:
    """Wait for a task to end; a cancellation of the waiter is passed on only after that."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except BaseException:  # noqa: BLE001 - raised again below, by task.result()
            break
    if cancelled is not None:
        raise cancelled
    task.result()
