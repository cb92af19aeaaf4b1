"""Calls a saver's sync methods from async code and the other way round, where only one kind exists.

A sync method runs in a thread of its own, so that no event loop is blocked, and is waited for even
when the caller is cancelled. An async method runs in an event loop of its own, which needs a thread
that has none. This module knows the saver only by its method names. It imports asyncio only where it is
needed, since every program imports this module.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from threadmark.errors import InvalidArgumentError, NotOfferedError

__all__ = ["Bridged"]


class Bridged:
    """A class whose methods come in pairs, `name` and `aname`, either of which may be missing.

    A method counts as missing when it is the one of `_unbridged`, the class that defines the pairs.
    """

    _unbridged: type

    def _has(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(self._unbridged, name)

    def _sync(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Do what the missing sync method `name` should do, with its async twin."""
        if not self._has(f"a{name}"):
            raise NotOfferedError(type(self).__name__, name)
        self._need_no_loop(name)
        import asyncio

        return asyncio.run(getattr(self, f"a{name}")(*args, **kwargs))

    async def _async(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Do what the missing async twin of `name` should do, with the sync method."""
        if not self._has(name):
            raise NotOfferedError(type(self).__name__, name)
        from threadmark._db.worker import run_apart

        return await run_apart(lambda: getattr(self, name)(*args, **kwargs))

    def _iterate(self, name: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Do what the missing sync iterator `name` should do, with its async twin."""

        async def collect() -> list[Any]:
            return [item async for item in getattr(self, f"a{name}")(*args, **kwargs)]

        if not self._has(f"a{name}"):
            raise NotOfferedError(type(self).__name__, name)
        self._need_no_loop(name)
        import asyncio

        yield from asyncio.run(collect())

    async def _aiterate(self, name: str, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Do what the missing async twin of the iterator `name` should do.

        All items are fetched at once: the iterator may hold a lock or a cursor until its end.
        """
        if not self._has(name):
            raise NotOfferedError(type(self).__name__, name)
        from threadmark._db.worker import run_apart

        for item in await run_apart(lambda: list(getattr(self, name)(*args, **kwargs))):
            yield item

    def _need_no_loop(self, name: str) -> None:
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise InvalidArgumentError(
            f"{type(self).__name__} has only async methods, and an event loop is running here: "
            f"await a{name}(...) instead of calling {name}(...)."
        )
