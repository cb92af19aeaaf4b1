"""Runs blocking work beside an event loop, without leaving work behind that nobody waits for.

A `Worker` is a lazily started pool of threads. Awaiting its work can be cancelled: work that has
not begun is dropped, work that has begun is waited for, so that a caller who was told "cancelled"
knows that nothing more will be written. This module knows no database.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["Worker", "run_apart"]

T = TypeVar("T")


class Worker:
    """A pool of threads that starts with its first job and ends with `close`.

    Args:
        name: A prefix for the names of the threads.
        threads: How many jobs may run at once. One thread keeps jobs in order.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name = name
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    async def run(self, job: Callable[[], T]) -> T:
        """Run `job` in a thread and return its result."""
        return await _settled(self._started().submit(job))

    def close(self) -> None:
        """Finish the jobs that were given, and end the threads."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            return self._pool


async def run_apart(job: Callable[[], T], name: str = "threadmark") -> T:
    """Run one job in a thread of its own, which is gone when this returns."""
    future: Future[T] = Future()

    def body() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(job())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            future.set_exception(error)

    thread = threading.Thread(target=body, name=name, daemon=True)
    thread.start()
    try:
        return await _settled(future)
    finally:
        thread.join()


async def _settled(job: Future[T]) -> T:
    waiter = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(waiter)
    except asyncio.CancelledError as cancelled:
        if job.cancel():
            raise
        # The cancellation is what the caller must see; a failure of the work stays visible as its
        # cause.
        raise cancelled from await _outcome(waiter)


async def _outcome(waiter: asyncio.Future[Any]) -> BaseException | None:
    while not waiter.done():
        try:
            await asyncio.wait([waiter])
        except asyncio.CancelledError:
            continue
    return None if waiter.cancelled() else waiter.exception()
