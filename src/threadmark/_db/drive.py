"""Runs an operation by performing its effects one after the other.

What performing means is the caller's business: a database driver, or a test that stops at the k-th
effect. This module does no I/O of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from threadmark._db.effects import Effect, Operation

__all__ = ["drive", "resume"]

T = TypeVar("T")


def drive(operation: Operation[T], perform: Callable[[Effect], Any]) -> T:
    """Run `operation` to its end, sending it the result of each effect.

    Args:
        operation: The operation, not started yet.
        perform: Performs one effect. Its errors are thrown into the operation.

    Returns:
        What the operation returns.
    """
    try:
        first = next(operation)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    return resume(operation, first, perform)


def resume(operation: Operation[T], effect: Effect, perform: Callable[[Effect], Any]) -> T:
    """Run an operation that has been started and waits for the result of `effect`."""
    try:
        while True:
            try:
                result = perform(effect)
            except Exception as error:  # noqa: BLE001 - the operation decides what becomes of it
                effect = operation.throw(error)
            else:
                effect = operation.send(result)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        operation.close()
