"""The sync driver: performs a run's commands with the caller's thread and, where tasks run side by side or
somebody listens to them, with a few threads more.

It decides nothing about the run. It differs from `adrive.py` only in how it waits.
"""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Generator, Iterator, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.base import Commit, TaskCommit
from threadmark.errors import NodeCancelledError, NodeTimeoutError
from threadmark.pregel.body import CacheGet, CachePut, Call, Sleep, execute
from threadmark.pregel.committer import SyncCommitter
from threadmark.pregel.ids import EPOCH_TICKS, Moment
from threadmark.pregel.messages import returned_messages
from threadmark.pregel.rules import Task
from threadmark.pregel.run import Run
from threadmark.pregel.scope import Session, TaskScope
from threadmark.pregel.spec import Execute, Finished, Mark, Stop, Wait
from threadmark.pregel.stream import Chunk

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["Abandoned", "drive", "moment"]


class Abandoned(BaseException):
    """The caller of a stream does not want the rest of it."""


def moment(session: Session, version: Any) -> Moment:
    """Return what a run is told when it asks for the time."""
    assert session.saver is not None
    now = time.time_ns() // 100 + EPOCH_TICKS
    return Moment(now, random.getrandbits(48), session.saver.get_next_version(version, None))


def drive(run: Run, session: Session) -> Iterator[Chunk]:
    """Perform a run to its end, and yield the chunks that its own caller listens to."""
    committer: SyncCommitter | None = session.committer
    runner = Runner(session)
    steps = run.go()
    answer: Any = None
    error: BaseException | None = None
    abandoned = False
    try:
        while True:
            try:
                command = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration:
                break
            answer = error = None
            try:
                if isinstance(command, Execute):
                    if committer is not None:
                        committer.check()
                    if len(command.tasks) == 1 and not session.listens_inside:
                        answer = runner.run_here(command.tasks[0])
                    else:
                        answer = yield from runner.start(command.tasks)
                elif isinstance(command, Commit | TaskCommit):
                    assert committer is not None
                    committer.take(command)
                elif isinstance(command, Mark):
                    answer = moment(session, command.version)
                elif isinstance(command, Wait):
                    answer = yield from runner.wait()
                elif isinstance(command, Stop):
                    answer = runner.stop()
                elif not abandoned:
                    yield from deliver(command.chunks, session)
            except GeneratorExit:
                error, abandoned = Abandoned(), True
            except BaseException as failure:  # noqa: BLE001 - whatever it is, the run decides what follows
                error = failure
    except Abandoned:
        return
    finally:
        runner.close()
        if committer is not None:
            committer.close()


def deliver(chunks: Sequence[Chunk], session: Session) -> Iterator[Chunk]:
    """Give chunks to the run's own caller and to the root's, each those that it listens to."""
    for chunk in chunks:
        if session.outer_modes and chunk.mode in session.outer_modes and session.ns and session.send:
            session.send(chunk)
        if chunk.mode in session.own_modes:
            yield chunk


class Runner:
    """Runs the tasks of a superstep.

    Args:
        session: The run.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.inbox: queue.SimpleQueue[Finished | Chunk] = queue.SimpleQueue()
        self.pool: ThreadPoolExecutor | None = None
        self.running: dict[Task, Any] = {}
        self.inline: Task | None = None

    def run_here(self, task: Task) -> list[Finished]:
        """Run the only task of a superstep, which nobody listens to, in the caller's own thread."""
        self.inline = task
        finished = self.perform(task)
        self.inline = None
        return [finished]

    def start(self, tasks: list[Task]) -> Generator[Chunk, None, list[Finished]]:
        """Start tasks; yield chunks from inside them; return the first that finish."""
        session = self.session
        if session.parent is None or session.own_modes & {"custom", "messages"}:
            session.send = self.inbox.put
        if self.pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self.pool = ThreadPoolExecutor(session.max_concurrency or 32, "threadmark-task")
        for task in tasks:
            context = copy_context()
            self.running[task] = self.pool.submit(context.run, self.perform_and_tell, task)
        return (yield from self.wait())

    def wait(self) -> Generator[Chunk, None, list[Finished]]:
        """Yield chunks until a task finishes; return all that have finished."""
        finished: list[Finished] = []
        while not finished or not self.inbox.empty():
            item = self.inbox.get()
            if isinstance(item, Finished):
                self.running.pop(item.task, None)
                finished.append(item)
            elif item.mode in self.session.own_modes or item.mode in self.session.outer_modes:
                yield item
        return finished

    def stop(self) -> list[Finished]:
        """Cancel the tasks that have not begun, and wait for the others."""
        if self.inline is not None:
            error = NodeCancelledError(f"{self.inline.name!r} was interrupted.")
            return [Finished(self.inline, error)]
        cancelled = [task for task, future in self.running.items() if future.cancel()]
        for task in cancelled:
            del self.running[task]
        ends = [Finished(task, NodeCancelledError(f"{task.name!r} was not started.")) for task in cancelled]
        while self.running:
            item = self.inbox.get()
            if isinstance(item, Finished):
                self.running.pop(item.task, None)
                ends.append(item)
        return ends

    def close(self) -> None:
        """Let go of the threads."""
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)

    def perform_and_tell(self, task: Task) -> None:
        """Run a task in a thread of its own."""
        self.inbox.put(self.perform(task))

    def perform(self, task: Task) -> Finished:
        """Run a task in this thread."""
        scope = TaskScope(self.session, task)
        leave = scope.enter()
        body = execute(task, scope)
        answer: Any = None
        try:
            need = next(body)
            while True:
                try:
                    answer = self.meet(need, scope)
                except BaseException as error:  # noqa: BLE001 - thrown into the task's own code
                    need = body.throw(error)
                else:
                    need = body.send(answer)
        except StopIteration as end:
            task.writes = end.value
            if self.session.handlers and not task.node.hidden:
                returned_messages(task, scope)
            return Finished(task)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - the run decides what a task's error means
            return Finished(task, error)
        finally:
            leave()

    def meet(self, need: Any, scope: TaskScope) -> Any:
        """Do what a task waits for."""
        if type(need) is Call:
            if need.timeout is None and need.idle_timeout is None:
                return need.func.call(scope, need.value)
            return self.call_in_time(need, scope)
        if type(need) is Sleep:
            return time.sleep(need.seconds + (random.random() if need.jitter else 0))
        cache = self.session.cache
        assert cache is not None
        if type(need) is CacheGet:
            return cache.get([need.key]).get(need.key)
        assert type(need) is CachePut
        return cache.set({need.key: (need.writes, need.ttl)})

    def call_in_time(self, call: Call, scope: TaskScope) -> Any:
        """Call user code and give up on it after its timeout.

        Python cannot stop a thread: code that is given up on runs on, and its result is dropped.
        """
        from concurrent.futures import ThreadPoolExecutor

        last_beat = [time.monotonic()]
        scope.beat = lambda: last_beat.__setitem__(0, time.monotonic())
        watcher = ThreadPoolExecutor(1, "threadmark-timeout")
        started = time.monotonic()
        future = watcher.submit(copy_context().run, call.func.call, scope, call.value)
        try:
            while True:
                left, limit = time_left(call, started, last_beat[0])
                try:
                    return future.result(max(left, 0))
                except TimeoutError:
                    if future.done():
                        raise
                    if time_left(call, started, last_beat[0])[0] <= 0:
                        raise NodeTimeoutError(scope.task.name, limit) from None
        finally:
            watcher.shutdown(wait=False)


def time_left(call: Call, started: float, beat: float) -> tuple[float, float]:
    """Return the seconds until the first of a call's timeouts, and that timeout."""
    now = time.monotonic()
    limits = []
    if call.timeout is not None:
        limits.append((started + call.timeout - now, call.timeout))
    if call.idle_timeout is not None:
        limits.append((beat + call.idle_timeout - now, call.idle_timeout))
    return min(limits)
