"""What can be read off user code and its options before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from types import CodeType, FunctionType
from typing import Any

from threadmark._checks import amount, flag, function, instance, whole, wrong
from threadmark.pregel.call import is_runnable
from threadmark.pregel.main import Pregel
from threadmark.types import CachePolicy, RetryPolicy, TimeoutPolicy

__all__ = ["all_names", "check_node_options", "has_contents", "held_graphs", "policies", "seconds"]


def policies(given: RetryPolicy | Sequence[RetryPolicy] | None) -> tuple[RetryPolicy, ...] | None:
    """Return retry policies as a tuple; a single policy is a tuple itself, so it is told apart by type."""
    if given is None:
        return None
    found = (given,) if isinstance(given, RetryPolicy) else given
    listed = isinstance(found, list | tuple) and all(isinstance(policy, RetryPolicy) for policy in found)
    if not listed:
        raise wrong("retry_policy", given, "a RetryPolicy, or a list of them")
    for policy in found:
        check_policy(policy)
    return tuple(found)


def check_policy(policy: RetryPolicy) -> None:
    """Refuse a retry policy that cannot be followed.

    Raises:
        InvalidArgumentError: One of its fields has no meaning.
    """
    amount("RetryPolicy.initial_interval", policy.initial_interval, zero=True)
    amount("RetryPolicy.backoff_factor", policy.backoff_factor, zero=True)
    amount("RetryPolicy.max_interval", policy.max_interval, zero=True)
    whole("RetryPolicy.max_attempts", policy.max_attempts, 1)
    flag("RetryPolicy.jitter", policy.jitter)
    kinds = policy.retry_on if isinstance(policy.retry_on, list | tuple) else [policy.retry_on]
    classes = all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds)
    if not classes and (isinstance(policy.retry_on, type | Sequence) or not callable(policy.retry_on)):
        raise wrong(
            "RetryPolicy.retry_on", policy.retry_on, "exception classes, or a function of an exception"
        )


def check_node_options(cache_policy: Any, timeout: Any, error_handler: Any = None) -> None:
    """Refuse options of a node or task that are of the wrong kind.

    Raises:
        InvalidArgumentError: One of them is.
    """
    instance("cache_policy", cache_policy, CachePolicy | None, "a CachePolicy, or None")
    if not isinstance(timeout, TimeoutPolicy | None):
        amount("timeout", timeout.total_seconds() if isinstance(timeout, timedelta) else timeout)
    if not is_runnable(error_handler):
        function("error_handler", error_handler, optional=True)


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
