"""What the checks of stores are written with.

A check is a coroutine function over a `Subject`, whose methods are awaited. Through the sync face they
answer at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from threadmark.errors import ThreadmarkError
from threadmark.store.base import BaseStore, IndexConfig, TTLConfig
from threadmark.testing.kit import Check

__all__ = ["Clock", "Face", "StoreCheck", "StoreOptions", "Subject", "check", "embed", "refuses"]

Face: TypeAlias = Literal["sync", "async"]


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
class StoreCheck(Check):
    """A check of stores.

    Attributes:
        options: How it wants its store.
    """

    options: Callable[[], StoreOptions]


def check(
    group: str, *, index: Callable[[], IndexConfig] | None = None, ttl: TTLConfig | None = None
) -> Callable[[Body], StoreCheck]:
    """Make a check of a coroutine function; its docstring is the promise.

    Args:
        group: Which part of the contract it belongs to.
        index: Returns the index configuration of its store.
        ttl: How long the items of its store live.
    """

    def made(body: Body) -> StoreCheck:
        def options() -> StoreOptions:
            return StoreOptions(index=index() if index else None, ttl=ttl)

        promise = " ".join((body.__doc__ or "").split())
        return StoreCheck(promise, group, body, options)

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
