"""What can be read off user code and its options before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from types import CodeType, FunctionType
from typing import Any

from threadmark.pregel.main import Pregel
from threadmark.types import RetryPolicy, TimeoutPolicy

__all__ = ["all_names", "has_contents", "held_graphs", "policies", "seconds"]


def policies(given: RetryPolicy | Sequence[RetryPolicy] | None) -> tuple[RetryPolicy, ...] | None:
    """Return retry policies as a tuple; a single policy is a tuple itself, so it is told apart by type."""
    if given is None:
        return None
    return (given,) if isinstance(given, RetryPolicy) else tuple(given)


def seconds(timeout: float | timedelta | TimeoutPolicy | None) -> tuple[float | None, float | None]:
    """Return a timeout as seconds for the whole attempt and for silence."""

    def plain(value: float | timedelta | None) -> float | None:
        return value.total_seconds() if isinstance(value, timedelta) else value

    if isinstance(timeout, TimeoutPolicy):
        return plain(timeout.run_timeout), plain(timeout.idle_timeout)
    return plain(timeout), None


def held_graphs(code: Any) -> tuple[Pregel, ...]:
    """Return the compiled graphs that some code is or refers to."""
    if isinstance(code, Pregel):
        return (code,)
    code = getattr(code, "__func__", code)
    if not isinstance(code, FunctionType):
        return ()
    cells = [cell.cell_contents for cell in code.__closure__ or () if has_contents(cell)]
    found = [code.__globals__.get(name) for name in all_names(code.__code__)]
    unique = {id(g): g for g in [*cells, *found] if isinstance(g, Pregel)}
    return tuple(unique.values())


def has_contents(cell: Any) -> bool:
    """Tell whether a closure's cell is filled."""
    try:
        cell.cell_contents  # noqa: B018 - reading it is the test
    except ValueError:
        return False
    return True


def all_names(code: CodeType) -> Iterable[str]:
    """Yield the names that some code uses, those of inner functions too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from all_names(constant)
