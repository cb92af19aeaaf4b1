"""The saver kit: what every saver promises, checked through its sync and its async methods.

A saver of your own should keep all of the group "classic"; the other groups are what our own savers
promise beyond that. What a saver does not offer is reported as such, not as broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Literal, TypeAlias

from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.testing.kit import Check, Report, Result, run_without_loop
from threadmark.testing.savers import branches, classic, engine, hostile, index, lists, retention
from threadmark.testing.savers.face import AsyncFace, SyncFace

__all__ = ["SAVER_CHECKS", "Face", "SaverFactory", "check_saver", "run_saver_check"]

Saver: TypeAlias = BaseCheckpointSaver[Any]
SaverFactory: TypeAlias = (
    "Callable[[], Saver | AbstractContextManager[Saver] | AbstractAsyncContextManager[Saver]]"
)
Face: TypeAlias = Literal["sync", "async"]

SAVER_CHECKS: tuple[Check, ...] = (
    *classic.CHECKS,
    *lists.CHECKS,
    *hostile.CHECKS,
    *engine.CHECKS,
    *branches.CHECKS,
    *retention.CHECKS,
    *index.CHECKS,
    *index.LEASE_CHECKS,
)
"""Every check of the kit."""


def check_saver(
    factory: SaverFactory,
    *,
    faces: Sequence[Face] = ("sync", "async"),
    groups: Sequence[str] | None = None,
) -> Report:
    """Run the kit.

    Args:
        factory: Returns an empty saver, or a context manager that does, each time it is called.
        faces: Whether to call the sync methods, the async ones, or both.
        groups: Which groups of checks to run; all of them if not given.

    Returns:
        What was kept, what was broken, and what is not offered.
    """
    report = Report()
    for face in faces:
        for check in SAVER_CHECKS:
            if groups is None or check.group in groups:
                report.results.append(Result(check, face, _error_of(check, factory, face)))
    return report


def run_saver_check(check: Check, factory: SaverFactory, face: Face) -> None:
    """Run one check on an empty saver, outside any event loop.

    Raises:
        AssertionError: The promise is broken.
        NotOfferedError: The saver does not offer what the promise is about.
    """
    made = factory()
    if face == "async":
        asyncio.run(_run_async(check, made))
    elif isinstance(made, BaseCheckpointSaver) and not hasattr(made, "__enter__"):
        run_without_loop(check.run(SyncFace(made)))  # type: ignore[arg-type]
    else:
        with made as saver:  # type: ignore[union-attr]
            run_without_loop(check.run(SyncFace(saver)))  # type: ignore[arg-type]


async def _run_async(check: Check, made: Any) -> None:
    if hasattr(made, "__aenter__"):
        async with made as saver:
            await check.run(AsyncFace(saver))
    elif hasattr(made, "__enter__"):
        with made as saver:
            await check.run(AsyncFace(saver))
    else:
        await check.run(AsyncFace(made))


def _error_of(check: Check, factory: SaverFactory, face: Face) -> BaseException | None:
    try:
        run_saver_check(check, factory, face)
    except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the report
        return error
    return None
