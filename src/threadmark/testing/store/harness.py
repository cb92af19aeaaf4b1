"""How a check is written once and runs through sync methods and async ones.

A check is a coroutine function over a `Subject`, whose methods are awaited. For the sync face they
answer at once, so the coroutine runs to its end without an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from threadmark.errors import ThreadmarkError
from threadmark.store.base import BaseStore, IndexConfig, TTLConfig

__all__ = [
    "Check",
    "Clock",
    "Face",
    "Feature",
    "Opener",
    "StoreOptions",
    "Subject",
    "check",
    "embed",
    "refuses",
]

Face: TypeAlias = Literal["sync", "async"]
Feature: TypeAlias = Literal["ttl", "keyword", "semantic"]


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_minutes(self, minutes: float) -> None:
        """Move the clock."""
        self.now += minutes * 60


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How a check wants its store.

    Attributes:
        index: The index configuration, when the check needs one.
        ttl: How long items live, when the check needs it.
        clock: What time it is. A store that has no clock to set cannot pass the checks of expiry.
    """

    index: IndexConfig | None = None
    ttl: TTLConfig | None = None
    clock: Clock = field(default_factory=Clock)


Opener: TypeAlias = Callable[
    [StoreOptions],
    "BaseStore | AbstractContextManager[BaseStore] | AbstractAsyncContextManager[BaseStore]",
]
"""Opens an empty store. What it returns is entered as a context manager, if it is one."""


class Subject:
    """The store under test, behind awaitable methods.

    Attributes:
        store: The store.
        face: Which of its methods are used.
        clock: The store's clock.
    """

    def __init__(self, store: BaseStore, face: Face, clock: Clock) -> None:
        self.store = store
        self.face = face
        self.clock = clock

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if self.face == "async":
            method: Callable[..., Awaitable[Any]] = getattr(self.store, f"a{name}")
            return method

        async def answered(*args: Any, **kwargs: Any) -> Any:
            return getattr(self.store, name)(*args, **kwargs)

        return answered

    async def keys(self, *prefix: str, **search: Any) -> list[str]:
        """Return the keys that a search finds, in its order."""
        return [item.key for item in await self.search(prefix, **{"limit": 100, **search})]


Body: TypeAlias = Callable[[Subject], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that every store must do.

    Attributes:
        name: Its name.
        promise: What is promised, in a sentence.
        body: The check itself.
        options: How it wants its store.
        feature: What the store must offer for it.
    """

    name: str
    promise: str
    body: Body
    options: Callable[[], StoreOptions]
    feature: Feature | None

    def __str__(self) -> str:
        return self.name

    def run(self, open_store: Opener, face: Face) -> None:
        """Run the check on a store of its own.

        Args:
            open_store: Opens an empty store.
            face: Which methods to use. `"async"` starts an event loop.

        Raises:
            AssertionError: The store does not keep the promise.
        """
        checking = self._on(open_store, face)
        if face == "async":
            asyncio.run(checking)
        else:
            _finish(checking)

    async def _on(self, open_store: Opener, face: Face) -> None:
        options = self.options()
        async with _entered(open_store(options)) as store:
            await self.body(Subject(store, face, options.clock))


def check(
    *,
    feature: Feature | None = None,
    index: Callable[[], IndexConfig] | None = None,
    ttl: TTLConfig | None = None,
) -> Callable[[Body], Check]:
    """Make a check of a coroutine function; its docstring is the promise."""

    def made(body: Body) -> Check:
        def options() -> StoreOptions:
            return StoreOptions(index=index() if index else None, ttl=ttl)

        return Check(body.__name__, (body.__doc__ or "").strip(), body, options, feature)

    return made


async def refuses(error: type[ThreadmarkError], call: Awaitable[Any]) -> ThreadmarkError:
    """Assert that a call raises an error, and return it."""
    try:
        result = await call
    except error as raised:
        return raised
    raise AssertionError(f"expected {error.__name__}, got the result {result!r}")


_AXES = ("cat", "dog", "fish", "bird", "car", "bike", "tea", "tree")


def embed(texts: list[str]) -> list[list[float]]:
    """A model for tests: how often each of eight words occurs, and a little of everything."""
    return [[text.lower().count(word) + 0.01 for word in _AXES] for text in texts]


@asynccontextmanager
async def _entered(opened: Any) -> AsyncIterator[BaseStore]:
    if isinstance(opened, AbstractContextManager):
        with opened as store:
            yield store
    elif isinstance(opened, AbstractAsyncContextManager):
        async with opened as store:
            yield store
    else:
        yield opened


def _finish(checking: Coroutine[Any, Any, None]) -> None:
    with suppress(StopIteration):
        checking.send(None)
        checking.close()
        raise RuntimeError("A sync store made the check wait; open it with a sync context manager.")
