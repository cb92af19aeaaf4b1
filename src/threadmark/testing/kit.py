"""What a conformance kit is made of: checks, and a report on how something did.

A check is an async function that is given the thing under test and raises `AssertionError` where that
breaks a promise. What it is given looks async in any case; behind it are the sync methods or the async
ones, so each check is written once and run for both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from threadmark.errors import NotOfferedError

__all__ = ["Check", "Report", "Result", "run_without_loop"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, and the function that tests it.

    Attributes:
        promise: The promise, as a sentence.
        group: Which part of the contract it belongs to.
        run: Tests it.
    """

    promise: str
    group: str
    run: Callable[[Any], Awaitable[None]]

    def __str__(self) -> str:
        return self.promise


@dataclass(frozen=True, slots=True)
class Result:
    """How one check went.

    Attributes:
        check: The check.
        face: `"sync"` or `"async"`.
        error: What went wrong; `None` when nothing did.
    """

    check: Check
    face: str
    error: BaseException | None = None

    @property
    def outcome(self) -> str:
        """`"kept"`, `"broken"` or `"not offered"`."""
        if self.error is None:
            return "kept"
        return "not offered" if isinstance(self.error, NotOfferedError) else "broken"


@dataclass(slots=True)
class Report:
    """How something did in a kit."""

    results: list[Result] = field(default_factory=list)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    @property
    def broken(self) -> list[Result]:
        """The promises that were broken."""
        return [result for result in self.results if result.outcome == "broken"]

    @property
    def complete(self) -> bool:
        """Whether every promise was kept."""
        return all(result.outcome == "kept" for result in self.results)

    def __str__(self) -> str:
        lines = [f"{r.outcome:12} {r.face:6} {r.check.group}: {r.check.promise}" for r in self.results]
        lines += [f"\n{r.check.promise} ({r.face})\n    {r.error!r}" for r in self.broken]
        return "\n".join(lines)


def run_without_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop.

    Raises:
        RuntimeError: It waited.
    """
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        work.close()
    raise RuntimeError("A check of sync methods waited for something.")
