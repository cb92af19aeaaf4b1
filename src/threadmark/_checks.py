"""Refuses arguments of the wrong kind, in the same words everywhere: name, what is expected, what was given.

Checks are made once for each call or object, not for each superstep. Knows nothing but errors.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from threadmark.errors import InvalidArgumentError

__all__ = [
    "amount",
    "duration",
    "flag",
    "function",
    "instance",
    "one_of",
    "serializer",
    "shown",
    "text",
    "whole",
    "wrong",
]

_SHOWN = 80


def shown(value: object) -> str:
    """Return a value for a message: not too long, and whatever its `repr` does."""
    try:
        found = repr(value)
    except Exception:  # noqa: BLE001 - it is the caller's value, and an error is on its way already
        return f"a {type(value).__name__}"
    return found if len(found) <= _SHOWN else found[: _SHOWN - 3] + "..."


def wrong(name: str, value: object, expected: str) -> InvalidArgumentError:
    """Return the error for an argument."""
    return InvalidArgumentError(f"{name} is {expected}, not {shown(value)}.")


def flag(name: str, value: object) -> None:
    """Refuse what is not a bool.

    Raises:
        InvalidArgumentError: It is something else.
    """
    if not isinstance(value, bool):
        raise wrong(name, value, "True or False")


def whole(name: str, value: object, least: int = 0, most: int | None = None, optional: bool = False) -> None:
    """Refuse what is not a whole number of at least `least`.

    Raises:
        InvalidArgumentError: It is something else.
    """
    if optional and value is None:
        return
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or value < least or (most is not None and value > most):  # type: ignore[operator]
        limits = f"from {least} on" if most is None else f"from {least} to {most}"
        raise wrong(name, value, f"a whole number {limits}{', or None' if optional else ''}")


def amount(name: str, value: object, zero: bool = False, optional: bool = False, most: float = 1e9) -> None:
    """Refuse what is not a number above 0 that is small enough to count with, such as a number of seconds.

    Args:
        name: The argument.
        value: What was given.
        zero: 0 is fine too.
        optional: `None` is fine too.
        most: The largest that is.

    Raises:
        InvalidArgumentError: It is something else.
    """
    if optional and value is None:
        return
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
    if not fits or (value == 0 and not zero):
        limits = f"{'of at least' if zero else 'above'} 0 and up to {most:,.0f}"
        raise wrong(name, value, f"a number {limits}{', or None' if optional else ''}")


def duration(name: str, value: object, optional: bool = False) -> None:
    """Refuse what is not a positive `timedelta`.

    Raises:
        InvalidArgumentError: It is something else.
    """
    if optional and value is None:
        return
    if not isinstance(value, timedelta) or value <= timedelta():
        raise wrong(name, value, f"a positive timedelta{', or None' if optional else ''}")


def one_of(name: str, value: object, options: Collection[Any]) -> None:
    """Refuse what is none of some texts (or `None`, where it is among them).

    Raises:
        InvalidArgumentError: It is something else.
    """
    if not (value is None or isinstance(value, str)) or value not in options:
        *first, last = map(repr, options)
        raise wrong(name, value, f"{', '.join(first)} or {last}" if first else last)


def text(name: str, value: object, optional: bool = False) -> None:
    """Refuse what is not a text, or is empty.

    Raises:
        InvalidArgumentError: It is something else.
    """
    if optional and value is None:
        return
    if not isinstance(value, str) or not value:
        raise wrong(name, value, f"a text that is not empty{', or None' if optional else ''}")


def instance(name: str, value: object, kinds: Any, expected: str) -> None:
    """Refuse what is not of a type.

    Raises:
        InvalidArgumentError: It is of another.
    """
    if not isinstance(value, kinds):
        raise wrong(name, value, expected)


def function(name: str, value: object, optional: bool = False) -> None:
    """Refuse what cannot be called.

    Raises:
        InvalidArgumentError: It cannot.
    """
    if not (callable(value) or (optional and value is None)):
        raise wrong(name, value, f"a function{', or None' if optional else ''}")


def serializer(name: str, value: object) -> None:
    """Refuse what is no serializer, nor `None` for the default one.

    Raises:
        InvalidArgumentError: It is something else.
    """
    methods = (getattr(value, method, None) for method in ("dumps_typed", "loads_typed"))
    if value is not None and (isinstance(value, type) or not all(map(callable, methods))):
        raise wrong(name, value, "an object with dumps_typed and loads_typed, such as JsonPlusSerializer()")
