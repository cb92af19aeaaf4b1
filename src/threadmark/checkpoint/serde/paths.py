"""Where inside a value the part is that cannot be kept.

Encoding does not keep track of where it is: that would cost every value for the sake of the few that
fail. When one fails, this module walks down to the smallest part that fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from threadmark.checkpoint.serde.layout import attribute_slots
from threadmark.errors import SerializationError

__all__ = ["locate"]

_MAX_STEPS = 50
_MAX_KEY = 40


def locate(value: Any, error: SerializationError, pack: Callable[[Any], object]) -> SerializationError:
    """Return the error of the smallest part of `value` that `pack` refuses, with its path.

    Args:
        value: What could not be packed.
        error: How `pack` refused it.
        pack: Encodes a value, or raises.
    """
    path, found = "", error
    for _ in range(_MAX_STEPS):
        for step, part in _parts(value):
            refused = _refusal(part, pack)
            if refused is not None:
                path, value, found = path + step, part, refused
                break
        else:
            return found.at(path=path) if path else found
    # Nested too deep, or without end: no part is to blame more than another.
    return error


def _refusal(part: Any, pack: Callable[[Any], object]) -> SerializationError | None:
    try:
        pack(part)
    except SerializationError as error:
        return error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value, each with the step that leads to it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            shown = _shown(key)
            yield f"[{shown}]", item
            yield f".keys()[{shown}]", key
    elif isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        for place, item in enumerate(value):
            yield f"[{place}]", item
    elif isinstance(value, (set, frozenset)):
        for item in value:
            yield f"[{_shown(item)}]", item
    elif isinstance(value, BaseException):
        for place, item in enumerate(value.args):
            yield f".args[{place}]", item
    yield from _attributes(value)


def _shown(key: Any) -> str:
    try:
        shown = repr(key)
    except Exception:  # noqa: BLE001 - a key may be of any class, and an integer too long to be printed
        shown = f"<{type(key).__name__}>"
    return shown if len(shown) <= _MAX_KEY else shown[: _MAX_KEY - 3] + "..."


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    names = [*getattr(value, "__dict__", ()), *attribute_slots(type(value))]
    for name in ("default_factory", "tzinfo"):
        if name not in names and hasattr(value, name):
            names.append(name)
    for name in names:
        if name == "__pydantic_private__" or name == "__pydantic_extra__":
            for inner, item in (getattr(value, name) or {}).items():
                yield f".{inner}", item
        elif not name.startswith("__") and hasattr(value, name):
            yield f".{name}", getattr(value, name)
