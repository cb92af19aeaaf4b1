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
from threadmark.pregel.body import CacheGet, CachePut, Call, Join, Sleep, execute
from threadmark.pregel.called import Called, perform
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

    from threadmark.pregel.future import TaskFuture

__all__ = ["Abandoned", "drive", "moment"]


COMMITS = (Commit, TaskCommit)


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
                elif isinstance(command, COMMITS):
                    assert committer is not None
                    committer.take(command)
                elif isinstance(command, Mark):
                    answer = moment(session, command.version)
                elif isinstance(command, Wait):
                    answer = yield from runner.wait()
                elif isinstance(command, Stop):
                    answer = runner.stop()
                elif not abandoned:
                    if committer is not None:
                        committer.before_showing()
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
        if session.upward is not None and chunk.mode in session.outer_modes:
            session.upward(chunk)
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
        self.ended: list[Finished] = []
        self.inline: Task | None = None
        self.callers: dict[int, ThreadPoolExecutor] = {}
        session.runner = self

    def run_here(self, task: Task) -> list[Finished]:
        """Run the only task of a superstep, which nobody listens to, in the caller's own thread."""
        self.inline = task
        finished = self.perform(task)
        self.inline = None
        return [finished]

    def start(self, tasks: list[Task]) -> Generator[Chunk, None, list[Finished]]:
        """Start tasks; yield chunks from inside them; return the first that finish."""
        session = self.session
        session.listen(self.inbox.put)
        if self.pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self.pool = ThreadPoolExecutor(session.max_concurrency or 32, "threadmark-task")
        for task in tasks:
            context = copy_context()
            self.running[task] = self.pool.submit(context.run, self.perform_and_tell, task)
        return (yield from self.wait())

    def wait(self) -> Generator[Chunk, None, list[Finished]]:
        """Yield chunks until a task finishes; return all that have finished."""
        while not self.ended or not self.inbox.empty():
            item = self.inbox.get()
            if isinstance(item, Finished):
                self.running.pop(item.task, None)
                self.ended.append(item)
            else:
                yield item
        ended, self.ended = self.ended, []
        return ended

    def stop(self) -> list[Finished]:
        """Cancel the tasks that have not begun, and wait for the others."""
        if self.inline is not None:
            error = NodeCancelledError(f"{self.inline.name!r} was interrupted.")
            return [Finished(self.inline, error)]
        cancelled = [task for task, future in self.running.items() if future.cancel()]
        for task in cancelled:
            del self.running[task]
        ends, self.ended = self.ended, []
        ends += [Finished(task, NodeCancelledError(f"{task.name!r} was not started.")) for task in cancelled]
        while self.running:
            item = self.inbox.get()
            if isinstance(item, Finished):
                self.running.pop(item.task, None)
                ends.append(item)
        return ends

    def close(self) -> None:
        """Let go of the threads."""
        for pool in [self.pool, *self.callers.values()]:
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    def perform_and_tell(self, task: Task) -> None:
        """Run a task in a thread of its own."""
        self.inbox.put(self.perform(task))

    def perform(self, task: Task) -> Finished:
        """Run a task in this thread."""
        scope = TaskScope(self.session, task)
        return self.carry_out(task, scope, execute(task, scope))

    def call(self, called: Called) -> TaskFuture[Any]:
        """Have a call carried out in a thread of its own; return a future for its result.

        The threads of one depth wait only for those of the next, so that a limit cannot bring them to a halt.
        """
        from threadmark.pregel.future import TaskFuture, settled

        future: TaskFuture[Any] = TaskFuture()
        called.handle = future
        if called.settled:
            settled(future, called)
        else:
            self.pool_for(called.scope.depth).submit(copy_context().run, self.perform_call, called)
        return future

    def pool_for(self, depth: int) -> ThreadPoolExecutor:
        """Return the threads for calls of a depth."""
        with self.session.calls.lock:
            if depth not in self.callers:
                from concurrent.futures import ThreadPoolExecutor

                workers = self.session.max_concurrency or 32
                self.callers[depth] = ThreadPoolExecutor(workers, "threadmark-call")
            return self.callers[depth]

    def perform_call(self, called: Called) -> None:
        """Carry out a call in this thread, unless it was cancelled meanwhile."""
        from threadmark.pregel.future import settled

        future = called.handle
        if not future.set_running_or_notify_cancel():
            return
        try:
            finished = self.carry_out(called.task, called.scope, perform(called))
        except BaseException as error:
            future.set_exception(error)
            raise
        if finished.error is not None:
            future.set_exception(finished.error)
        else:
            settled(future, called)

    def carry_out(self, task: Task, scope: TaskScope, body: Generator[Any, Any, Any]) -> Finished:
        """Do what a task needs until it ends."""
        leave = scope.enter()
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
        if type(need) is Join:
            return self.join(need)
        if type(need) is TaskCommit:
            return self.session.committer.take(need)
        cache = self.session.cache
        assert cache is not None
        if type(need) is CacheGet:
            return cache.get([need.key]).get(need.key)
        assert type(need) is CachePut
        return cache.set({need.key: (need.writes, need.ttl)})

    def join(self, need: Join) -> None:
        """Wait for calls to end. Those that have begun cannot be stopped."""
        from concurrent.futures import wait

        futures = [called.handle for called in need.calls if called.handle is not None]
        wait([future for future in futures if not (need.cancel and future.cancel())])

    def call_in_time(self, call: Call, scope: TaskScope) -> Any:
        """Call user code and give up on it after its timeout.

        Python cannot stop a thread: code that is given up on runs on, and its result is dropped.
        """
        from concurrent.futures import ThreadPoolExecutor

        last_beat = [time.monotonic()]
        scope.beat = lambda: last_beat.__setitem__(0, time.monotonic())
        watcher = ThreadPoolExecutor(1, "threadmark-timeout")
        started = time.monotonic()
        own = scope.twin()
        future = watcher.submit(copy_context().run, call_as, own, call)
        try:
            while True:
                left, limit = time_left(call, started, last_beat[0])
                try:
                    return future.result(max(left, 0))
                except TimeoutError:
                    if future.done():
                        raise
                    if time_left(call, started, last_beat[0])[0] <= 0:
                        own.over = True
                        raise NodeTimeoutError(scope.task.name, limit) from None
        finally:
            watcher.shutdown(wait=False)


def call_as(scope: TaskScope, call: Call) -> Any:
    """Call user code under a scope of its own."""
    leave = scope.enter()
    try:
        return call.func.call(scope, call.value)
    finally:
        leave()


def time_left(call: Call, started: float, beat: float) -> tuple[float, float]:
    """Return the seconds until the first of a call's timeouts, and that timeout."""
    now = time.monotonic()
    limits = []
    if call.timeout is not None:
        limits.append((started + call.timeout - now, call.timeout))
    if call.idle_timeout is not None:
        limits.append((beat + call.idle_timeout - now, call.idle_timeout))
    return min(limits)
