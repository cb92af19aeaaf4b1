"""How called tasks run on an event loop: as asyncio tasks, whatever thread they are called from.

Code on the loop gets the asyncio task itself. Code that is not async runs in a thread and gets a future that
it can wait for there. The threads for called tasks are the run's own: those of the loop may all be taken by
nodes that wait for such tasks.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from threadmark.errors import NodeCancelledError
from threadmark.pregel.body import Join
from threadmark.pregel.called import Called, perform
from threadmark.pregel.future import TaskFuture, settled

if TYPE_CHECKING:
    from threadmark.pregel.adrive import AsyncRunner

__all__ = ["AsyncCalls"]


class AsyncCalls:
    """Runs the tasks that a run's nodes call.

    Args:
        runner: Runs the nodes.
    """

    def __init__(self, runner: AsyncRunner) -> None:
        self.runner = runner
        self.works: dict[Called, asyncio.Task[Any]] = {}
        self.pools: dict[int, ThreadPoolExecutor] = {}
        self.slots: dict[int, asyncio.Semaphore] = {}

    def call(self, called: Called) -> asyncio.Future[Any] | TaskFuture[Any]:
        """Have a call carried out; return a future for its result."""
        if not self.on_loop():
            return self.call_from_thread(called)
        if called.settled:
            called.handle = settled(self.runner.loop.create_future(), called)
        else:
            called.handle = self.begin(called)
        return called.handle  # type: ignore[no-any-return]

    def on_loop(self) -> bool:
        """Tell whether the code that calls runs on the run's own event loop."""
        try:
            return asyncio.get_running_loop() is self.runner.loop
        except RuntimeError:
            return False

    def begin(self, called: Called) -> asyncio.Task[Any]:
        """Start a call on the loop."""
        work = self.runner.loop.create_task(self.perform(called), context=copy_context())
        self.works[called] = work
        return work

    def call_from_thread(self, called: Called) -> TaskFuture[Any]:
        """Have a call carried out for code in another thread."""
        future: TaskFuture[Any] = TaskFuture()
        called.handle = future
        if called.settled:
            return settled(future, called)  # type: ignore[no-any-return]

        def begin() -> None:
            if not future.set_running_or_notify_cancel():
                return
            if called.parent.over:
                future.set_exception(NodeCancelledError(f"The task {called.task.name!r} was not started."))
                return
            self.begin(called).add_done_callback(lambda work: pass_on(work, future))

        self.runner.loop.call_soon_threadsafe(begin, context=copy_context())
        return future

    async def perform(self, called: Called) -> Any:
        """Carry out a call."""
        async with self.slot(called.scope.depth):
            finished = await self.runner.carry_out(called.task, called.scope, perform(called))
        if finished.error is not None:
            raise finished.error
        return called.result()

    def slot(self, depth: int) -> AbstractAsyncContextManager[Any]:
        """Return what limits how many calls of a depth run at once. Those of one depth wait only for those of
        the next, so that the limit cannot bring them to a halt.
        """
        limit = self.runner.session.max_concurrency
        if not limit:
            return nullcontext()
        return self.slots.setdefault(depth, asyncio.Semaphore(limit))

    def executor(self, depth: int) -> ThreadPoolExecutor | None:
        """Return the threads for code of a depth that is not async: for nodes, those of the loop."""
        if depth == 0:
            return None
        if depth not in self.pools:
            workers = self.runner.session.max_concurrency or 32
            self.pools[depth] = ThreadPoolExecutor(workers, "threadmark-call")
        return self.pools[depth]

    async def join(self, need: Join) -> None:
        """Wait for calls to end."""
        works = [work for called in need.calls if (work := self.works.get(called)) is not None]
        if need.cancel:
            for called in need.calls:
                called.scope.stopping |= need.patient
            for work in works:
                work.cancel()
        if works:
            await asyncio.wait(works)
        for called in need.calls:
            self.works.pop(called, None)
            handle = called.handle
            known = need.cancel or called.task.interrupts
            if known and isinstance(handle, asyncio.Future) and not handle.cancelled():
                # The caller fails or pauses for it, whether it has waited for this call or not.
                handle.exception()

    def close(self) -> None:
        """Let go of the threads."""
        for pool in self.pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


def pass_on(work: asyncio.Task[Any], future: TaskFuture[Any]) -> None:
    """Hand the end of a call to the thread that waits for it."""
    if work.cancelled():
        future.set_exception(NodeCancelledError("The task was cancelled while it was running."))
    elif (error := work.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(work.result())
