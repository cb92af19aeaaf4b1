"""The store kit: what every store promises, checked through its sync and its async methods.

A store that has no clock to set, no index or no time to live cannot pass the checks of these; let its
factory raise `NotOfferedError` for options that it does not take, and they are reported as not
offered, not as broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, TypeAlias

from threadmark.store.base import BaseStore
from threadmark.testing.kit import Report, Result, run_without_loop
from threadmark.testing.stores import expiry, filters, items, listing, naming, searching
from threadmark.testing.stores.harness import Clock, Face, StoreCheck, StoreOptions, Subject

__all__ = [
    "STORE_CHECKS",
    "Clock",
    "StoreCheck",
    "StoreFactory",
    "StoreOptions",
    "check_store",
    "run_store_check",
]

StoreFactory: TypeAlias = Callable[
    [StoreOptions],
    "BaseStore | AbstractContextManager[BaseStore] | AbstractAsyncContextManager[BaseStore]",
]
"""Returns an empty store, or a context manager that does, each time it is called."""

STORE_CHECKS: tuple[StoreCheck, ...] = (
    *items.CHECKS,
    *naming.CHECKS,
    *listing.CHECKS,
    *filters.CHECKS,
    *expiry.CHECKS,
    *searching.CHECKS,
)
"""Every check of the kit."""


def check_store(
    factory: StoreFactory,
    *,
    faces: Sequence[Face] = ("sync", "async"),
    groups: Sequence[str] | None = None,
) -> Report:
    """Run the kit.

    Args:
        factory: Returns a store with the options that it is given.
        faces: Whether to call the sync methods, the async ones, or both.
        groups: Which groups of checks to run; all of them if not given.

    Returns:
        What was kept, what was broken, and what is not offered.
    """
    report = Report()
    for face in faces:
        for check in STORE_CHECKS:
            if groups is None or check.group in groups:
                report.results.append(Result(check, face, _error_of(check, factory, face)))
    return report


def run_store_check(check: StoreCheck, factory: StoreFactory, face: Face) -> None:
    """Run one check on an empty store, outside any event loop.

    Raises:
        AssertionError: The promise is broken.
        NotOfferedError: The store does not offer what the promise is about.
    """
    options = check.options()
    running = _run(check, factory(options), face, options.clock)
    if face == "async":
        asyncio.run(running)
    else:
        run_without_loop(running)


async def _run(check: StoreCheck, made: Any, face: Face, clock: Clock) -> None:
    if face == "async" and hasattr(made, "__aenter__"):
        async with made as store:
            await check.run(Subject(store, face, clock))
    elif hasattr(made, "__enter__"):
        with made as store:
            await check.run(Subject(store, face, clock))
    else:
        await check.run(Subject(made, face, clock))


def _error_of(check: StoreCheck, factory: StoreFactory, face: Face) -> Exception | None:
    try:
        run_store_check(check, factory, face)
    except Exception as error:  # noqa: BLE001 - whatever went wrong belongs in the report
        return error
    return None
