"""The async driver: performs a run's commands on the event loop of the caller.

It decides nothing about the run. It differs from `drive.py` only in how it waits. Code that is not async runs
in a thread, so that it cannot block the loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Generator
from contextvars import copy_context
from threading import Lock
from typing import Any

from threadmark.checkpoint.base import TaskCommit
from threadmark.errors import NodeCancelledError, NodeTimeoutError
from threadmark.pregel.acalled import AsyncCalls
from threadmark.pregel.acommitter import AsyncCommitter, until_done
from threadmark.pregel.body import CacheGet, CachePut, Call, Join, Sleep, execute
from threadmark.pregel.drive import COMMITS, Abandoned, deliver, moment, time_left
from threadmark.pregel.messages import returned_messages
from threadmark.pregel.rules import Task
from threadmark.pregel.run import Run
from threadmark.pregel.scope import Session, TaskScope
from threadmark.pregel.spec import Execute, Finished, Mark, Stop, Wait
from threadmark.pregel.stream import Chunk

__all__ = ["adrive"]

WORK = (Execute, Wait)


async def adrive(run: Run, session: Session) -> AsyncIterator[Chunk]:
    """Perform a run to its end, and yield the chunks that its own caller listens to."""
    committer: AsyncCommitter | None = session.committer
    runner = AsyncRunner(session)
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
                if isinstance(command, WORK):
                    if isinstance(command, Execute):
                        if committer is not None:
                            await committer.check()
                        answer = await runner.start(command.tasks)
                    while not answer:
                        item = await runner.inbox.get()
                        if isinstance(item, Finished):
                            answer = [item, *runner.ready()]
                        else:
                            yield item
                elif isinstance(command, COMMITS):
                    assert committer is not None
                    await committer.take(command)
                elif isinstance(command, Mark):
                    answer = moment(session, command.version)
                elif isinstance(command, Stop):
                    answer = await runner.stop(command.patient)
                elif not abandoned:
                    if committer is not None:
                        await committer.before_showing()
                    for chunk in deliver(command.chunks, session):
                        yield chunk
            except GeneratorExit:
                error, abandoned = Abandoned(), True
            except BaseException as failure:  # noqa: BLE001 - whatever it is, the run decides what follows
                error = failure
    except Abandoned:
        return
    finally:
        runner.calls.close()
        if committer is not None:
            await committer.close()


class AsyncRunner:
    """Runs the tasks of a superstep.

    Args:
        session: The run.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.loop = asyncio.get_running_loop()
        self.inbox: asyncio.Queue[Finished | Chunk] = asyncio.Queue()
        self.running: dict[Task, asyncio.Task[None] | None] = {}
        limit = session.max_concurrency
        self.slots = asyncio.Semaphore(limit) if limit else None
        self.calls = AsyncCalls(self)
        session.runner = self.calls

    async def start(self, tasks: list[Task]) -> list[Finished]:
        """Start tasks. A single one that nobody listens to is run to its end."""
        session = self.session
        if len(tasks) == 1 and not session.listens_inside:
            self.running[tasks[0]] = None
            finished = await self.perform(tasks[0])
            del self.running[tasks[0]]
            return [finished]
        session.listen(self.send)
        for task in tasks:
            work = self.perform_and_tell(task)
            self.running[task] = asyncio.create_task(work, context=copy_context())
        return []

    def send(self, chunk: Chunk) -> None:
        """Take a chunk from inside a task, on the loop or from a thread."""
        self.loop.call_soon_threadsafe(self.inbox.put_nowait, chunk)

    def ready(self) -> list[Finished]:
        """Return the tasks that have finished, up to the first chunk that waits to be shown."""
        finished = []
        waiting: Any = self.inbox._queue  # type: ignore[attr-defined]
        while waiting and isinstance(waiting[0], Finished):
            finished.append(self.inbox.get_nowait())
        return finished  # type: ignore[return-value]

    async def stop(self, patient: bool) -> list[Finished]:
        """Cancel the tasks that still run, and wait for them. One that has ended meanwhile has ended."""
        self.session.stopping = patient
        working = [work for work in self.running.values() if work is not None]
        for work in working:
            work.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        ends: list[Finished] = []
        while not self.inbox.empty():
            item = self.inbox.get_nowait()
            if isinstance(item, Finished):
                ends.append(item)
        for task in self.running:
            error = NodeCancelledError(f"The run was cancelled while {task.name!r} was running.")
            ends.append(Finished(task, error))
        self.running.clear()
        return ends

    async def perform_and_tell(self, task: Task) -> None:
        """Run a task in an asyncio task of its own."""
        if self.slots is None:
            finished = await self.perform(task)
        else:
            async with self.slots:
                finished = await self.perform(task)
        # Chunks that threads sent are still on their way through the loop; the end must come after them.
        self.loop.call_soon(self.tell, finished)

    def tell(self, finished: Finished) -> None:
        """Report a finished task."""
        if self.running.pop(finished.task, None) is not None:
            self.inbox.put_nowait(finished)

    async def perform(self, task: Task) -> Finished:
        """Run a task."""
        scope = TaskScope(self.session, task)
        return await self.carry_out(task, scope, execute(task, scope))

    async def carry_out(self, task: Task, scope: TaskScope, body: Generator[Any, Any, Any]) -> Finished:
        """Do what a task needs until it ends."""
        leave = scope.enter()
        answer: Any = None
        try:
            need = next(body)
            while True:
                try:
                    answer = await self.meet(need, scope)
                except BaseException as error:  # noqa: BLE001 - thrown into the task's own code
                    need = body.throw(error)
                else:
                    need = body.send(answer)
        except StopIteration as end:
            task.writes = end.value
            if self.session.handlers and not task.node.hidden:
                returned_messages(task, scope)
            return Finished(task)
        except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001 - the run decides what a task's error means
            return Finished(task, error)
        finally:
            leave()

    async def meet(self, need: Any, scope: TaskScope) -> Any:
        """Do what a task waits for."""
        if type(need) is Call:
            if need.timeout is None and need.idle_timeout is None:
                return await self.call(need, scope)
            return await self.call_in_time(need, scope)
        if type(need) is Sleep:
            return await asyncio.sleep(need.seconds + (random.random() if need.jitter else 0))
        if type(need) is Join:
            return await self.calls.join(need)
        if type(need) is TaskCommit:
            # What a call has done is saved even if it is cancelled meanwhile.
            return await until_done(asyncio.ensure_future(self.session.committer.take(need)))
        cache = self.session.cache
        assert cache is not None
        if type(need) is CacheGet:
            return (await cache.aget([need.key])).get(need.key)
        assert type(need) is CachePut
        return await cache.aset({need.key: (need.writes, need.ttl)})

    async def call(self, call: Call, scope: TaskScope) -> Any:
        """Call user code: on the loop if it is async, in a thread if it is not."""
        func = call.func
        if func.run_async is not None:
            return await func.acall(scope, call.value)
        if func.cheap:
            return func.call(scope, call.value)
        begun = Lock()
        work = self.loop.run_in_executor(
            self.calls.executor(scope.depth), copy_context().run, call_once, call, scope, begun
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if scope.is_stopping() and not begun.acquire(blocking=False):
                return await work
            work.cancel()
            raise

    async def call_in_time(self, call: Call, scope: TaskScope) -> Any:
        """Call user code and give up on it after its timeout."""
        last_beat = [time.monotonic()]
        scope.beat = lambda: last_beat.__setitem__(0, time.monotonic())
        started = time.monotonic()
        own = scope.twin()
        work = asyncio.ensure_future(self.call_as(own, call))
        try:
            while True:
                left, limit = time_left(call, started, last_beat[0])
                done, _ = await asyncio.wait({work}, timeout=max(left, 0))
                if done:
                    return work.result()
                if time_left(call, started, last_beat[0])[0] <= 0:
                    own.over = True
                    raise NodeTimeoutError(scope.task.name, limit)
        finally:
            work.cancel()

    async def call_as(self, scope: TaskScope, call: Call) -> Any:
        """Call user code under a scope of its own."""
        leave = scope.enter()
        try:
            return await self.call(call, scope)
        finally:
            leave()


def call_once(call: Call, scope: TaskScope, begun: Lock) -> Any:
    """Call sync code in a thread, unless it was cancelled before. A future cannot carry `StopIteration`, so
    that becomes another error.
    """
    if not begun.acquire(blocking=False):
        return None
    try:
        return call.func.call(scope, call.value)
    except StopIteration as error:
        raise RuntimeError(f"{call.func.name!r} raised StopIteration.") from error
