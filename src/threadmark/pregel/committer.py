"""How a run's commits reach its saver: in order, prepared in the run's own thread, never lost silently.

With durability "async" one commit may be under way while the next superstep runs; the one after it waits.
So the queue is bounded, order is kept, and an error surfaces before another node starts. Values are encoded
before a commit leaves the run's thread, so what a later node changes in place cannot leak into it.

With durability "exit" a sub-graph's commits wait for those of the graph around it.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.base import Commit, Head, Loaded, TaskCommit
from threadmark.pregel.scope import Session

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Committer", "SyncCommitter"]


class Committer:
    """What both kinds share: the head that this run last saw, and the commits of sub-graphs that wait.

    Args:
        session: The run that saves.
        loaded: What was loaded at its start.
        outer: The committer of the graph around it.
    """

    def __init__(self, session: Session, loaded: Loaded, outer: Any = None) -> None:
        assert session.saver is not None
        self.saver = session.saver
        self.head: Head | None = loaded.head
        self.memo = loaded.memo
        self.durability = session.durability
        self.lease = session.lease
        same_place = outer is not None and outer.durability == "exit"
        self.outer = outer if self.durability == "exit" and same_place else None
        self.waiting: list[Any] = []

    def prepare(self, work: Commit | TaskCommit) -> Any:
        """Encode a commit; from here on later changes to live values cannot reach it."""
        # What waits for the graph around it follows that graph's commit, which is the one that is compared.
        work.head = self.head if self.outer is None else None
        work.lease = self.lease.token if self.lease is not None else None
        if isinstance(work, Commit):
            work.memo = self.memo
        return self.saver.prepare(work)

    def hold(self, prepared: Any) -> None:
        """Keep a commit of this sub-graph until the graph around it has saved."""
        outermost: Any = self.outer
        while outermost.outer is not None:
            outermost = outermost.outer
        outermost.waiting.append(prepared)


class SyncCommitter(Committer):
    """Saves from threads that may block: the run's own, and those of tasks that its nodes call."""

    pool: ThreadPoolExecutor | None = None
    under_way: Future[None] | None = None

    def __init__(self, session: Session, loaded: Loaded, outer: Any = None) -> None:
        super().__init__(session, loaded, outer)
        self.lock = RLock()

    def take(self, work: Commit | TaskCommit) -> None:
        """Save a commit, or have it saved while the run goes on."""
        with self.lock:
            self.drain()
            prepared = self.prepare(work)
            if self.outer is not None:
                self.hold(prepared)
            elif self.durability == "async" and not self.saver.commit_inline:
                if self.pool is None:
                    from concurrent.futures import ThreadPoolExecutor

                    self.pool = ThreadPoolExecutor(1, "threadmark-commit")
                self.under_way = self.pool.submit(self.write, prepared)
            else:
                self.write(prepared)

    def write(self, prepared: Any) -> None:
        """Save a prepared commit, and then what sub-graphs have waiting."""
        self.head = self.saver.commit(prepared) or self.head
        while self.waiting:
            self.saver.commit(self.waiting.pop(0))

    def drain(self) -> None:
        """Wait for what is being saved; raise what went wrong."""
        with self.lock:
            under_way, self.under_way = self.under_way, None
            if under_way is not None:
                under_way.result()

    def check(self) -> None:
        """Raise what went wrong with a commit that has ended meanwhile."""
        if self.under_way is not None and self.under_way.done():
            self.drain()

    def close(self) -> None:
        """Wait for what is being saved, and let go of the thread."""
        try:
            self.drain()
        finally:
            if self.pool is not None:
                self.pool.shutdown()
