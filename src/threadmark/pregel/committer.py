"""How a run's commits reach its saver: in order, prepared in the run's own thread, never lost silently.

With durability "async" a commit may be under way while the next superstep runs, and the one after it waits;
where saving is quick it is waited for. When supersteps come faster than they can be saved, and the saver can
save several in one go, a short line forms and is saved as one. The run's first commit is waited for in any
case, so that a run that was overtaken before it began runs nothing. Order is kept, and an error surfaces
before another node starts. Values are encoded before a commit gets in line, so what a later node changes
in place cannot leak into it.

With durability "exit" a sub-graph's commits wait for those of the graph around it.
"""

from __future__ import annotations

import time
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.base import Commit, Head, Loaded, TaskCommit
from threadmark.pregel.scope import Session

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Committer", "SyncCommitter"]

QUICK = 0.0005
"""Seconds. A superstep that takes less is over sooner than it is saved."""

ENOUGH = 3
"""So many quick supersteps one after the other are worth a thread that saves them."""


class Committer:
    """What both kinds share: the head that this run last saw, and the commits of sub-graphs that wait.

    Args:
        session: The run that saves.
        loaded: What was loaded at its start.
        outer: The committer of the graph around it.

    Attributes:
        started: When the superstep began that runs now; `None` before the first commit.
        quick: How many supersteps one after the other were quick.
    """

    def __init__(self, session: Session, loaded: Loaded, outer: Any = None) -> None:
        assert session.saver is not None
        self.saver = session.saver
        self.head: Head | None = loaded.head
        self.started: float | None = None
        self.quick = 0
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

    def may_wait(self, work: Commit | TaskCommit) -> bool:
        """Tell whether the commit that comes now may be saved beside the next superstep."""
        if self.durability != "async":
            return False
        beside = not self.saver.commit_inline
        if self.started is None:
            return beside and self.head is None
        quick = self.saver.commits_waiting > 0 and time.perf_counter() - self.started < QUICK
        self.quick = self.quick + 1 if quick else 0
        # What is saved ahead of its superstep gets in no line: somebody may go by it at once.
        return beside or (self.in_burst and isinstance(work, Commit))

    @property
    def in_burst(self) -> bool:
        """Whether supersteps come faster than they can be saved, so that it pays to save several together."""
        return self.quick > ENOUGH

    @property
    def foresees(self) -> bool:
        """Whether it is known which head a commit leaves behind, so that the next one need not wait for it.
        Only the saver can tell the birth mark of a new thread.
        """
        head = self.head
        return self.saver.commits_waiting > 0 and head is not None and head.incarnation is not None

    def foresee(self, work: Commit | TaskCommit) -> None:
        """Take note of the head that a commit in line will leave behind, if that is known."""
        if self.foresees and isinstance(work, Commit):
            assert self.head is not None
            self.head = Head(self.head.incarnation, work.checkpoint["id"], self.head.branch)

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
        self.gate = Lock()
        self.line: list[Any] = []
        self.writing = False

    def take(self, work: Commit | TaskCommit) -> None:
        """Save a commit, or have it saved while the run goes on."""
        with self.lock:
            if self.may_wait(work):
                self.get_in_line(work)
            else:
                self.drain()
                prepared = self.prepare(work)
                if self.outer is not None:
                    self.hold(prepared)
                else:
                    self.write(prepared)
            self.started = time.perf_counter()

    def write(self, prepared: Any) -> None:
        """Save a prepared commit, and then what sub-graphs have waiting."""
        self.head = self.saver.commit(prepared) or self.head
        while self.waiting:
            self.saver.commit(self.waiting.pop(0))

    def get_in_line(self, work: Commit | TaskCommit) -> None:
        """Put a commit in line, behind those that are under way."""
        if not (self.foresees and self.in_burst) or len(self.line) >= self.saver.commits_waiting:
            self.drain()
        else:
            self.check()
        prepared = self.prepare(work)
        self.foresee(work)
        with self.gate:
            if self.writing:
                self.line.append(prepared)
                return
        self.drain()
        self.line, self.writing = [prepared], True
        self.under_way = self.writer().submit(self.write_line)

    def writer(self) -> ThreadPoolExecutor:
        """Return the thread that saves."""
        if self.pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self.pool = ThreadPoolExecutor(1, "threadmark-commit")
        return self.pool

    def write_line(self) -> None:
        """Save what is in line, until nothing is."""
        while True:
            with self.gate:
                line, self.line = self.line, []
                if not line:
                    self.writing = False
                    return
            try:
                moved = self.saver.commit_many(line)
            except BaseException:
                with self.gate:
                    self.line, self.writing = [], False
                raise
            if not self.foresees:
                self.head = moved or self.head

    def drain(self) -> None:
        """Wait for what is being saved; raise what went wrong."""
        with self.lock:
            under_way, self.under_way = self.under_way, None
            if under_way is not None:
                under_way.result()

    def check(self) -> None:
        """Raise what went wrong with commits that have ended meanwhile."""
        if self.under_way is not None and self.under_way.done():
            self.drain()

    def before_showing(self) -> None:
        """Wait for the line: what is shown of a run is saved, or in the one commit that is under way."""
        if self.under_way is not None and (self.saver.commit_inline or self.in_burst):
            self.drain()

    def close(self) -> None:
        """Wait for what is being saved, and let go of the thread."""
        try:
            self.drain()
        finally:
            if self.pool is not None:
                self.pool.shutdown()
