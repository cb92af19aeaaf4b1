"""The future of a called task, for code that waits in a thread.

On an event loop the future is an asyncio task instead; this one can be awaited there too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from threadmark.pregel.called import Called

__all__ = ["TaskFuture"]

T = TypeVar("T")


class TaskFuture(Future[T]):
    """The result of a called task, now or later: `future.result()`, or `await future`.

    Attributes:
        seen: Whether somebody has looked at how the call ended.
    """

    seen = False

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it.

        Args:
            timeout: Wait no longer than these seconds.

        Raises:
            TimeoutError: The task is not done by then.
            Exception: Whatever the task raised.
        """
        self.seen = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end and return what the task raised, if it did.

        Args:
            timeout: Wait no longer than these seconds.

        Raises:
            TimeoutError: The task is not done by then.
        """
        self.seen = True
        return super().exception(timeout)

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self).__await__()


def settled(future: Any, called: Called) -> Any:
    """Bring a future to the end that its call has come to, and return it."""
    try:
        future.set_result(called.result())
    except Exception as error:  # noqa: BLE001 - raised again for whoever waits
        future.set_exception(error)
    return future
