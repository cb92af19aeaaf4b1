"""Which values a store takes, and copying and writing them.

Values are JSON-like: dictionaries with texts as keys, lists, texts, booleans, `None`, integers and
finite floats, all of exactly these types. What is taken comes back equal and of the same types;
everything else is refused when it is put. This module knows no store.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from threadmark.errors import SerializationError
from threadmark.store.namespaces import decode_text, encode_text

__all__ = ["check_value", "clone", "copy_value", "read_value", "write_value"]

_PLAIN = (str, bool, type(None))
_NESTING = (dict, list)
_DEEPEST = 100
_LARGEST = 10**4000  # Python refuses to write longer integers as text.

_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False
).encode


def check_value(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a value to be stored.

    Raises:
        SerializationError: It is not a mapping, or not JSON-like; says where.
    """
    if not isinstance(value, Mapping):
        raise SerializationError(
            f"A store keeps dictionaries, not {_kind(value)}; wrap it, as {{'value': ...}}"
        )
    copied: dict[str, Any] = copy_value(dict(value))
    return copied


def copy_value(value: Any) -> Any:
    """Return a deep copy of a JSON-like value.

    Raises:
        SerializationError: It is not JSON-like; says where.
    """
    return value if type(value) in _PLAIN else _copy(value, ())


def clone(value: Any) -> Any:
    """Return a deep copy of a value that has been checked before."""
    if type(value) is dict:
        return {name: clone(inner) if type(inner) in _NESTING else inner for name, inner in value.items()}
    if type(value) is list:
        return [clone(inner) if type(inner) in _NESTING else inner for inner in value]
    return value


def write_value(value: Any) -> bytes:
    """Return a JSON-like value as JSON. Its texts may hold anything, lone surrogates included."""
    return encode_text(_encode(value))


def read_value(data: bytes) -> Any:
    """Undo `write_value`.

    Raises:
        ValueError: The bytes are not JSON.
    """
    return json.loads(decode_text(data))


def _copy(value: Any, path: tuple[str | int, ...]) -> Any:
    kind = type(value)
    if kind is int and -_LARGEST < value < _LARGEST:
        return value
    if kind is float and math.isfinite(value):
        return value
    if len(path) > _DEEPEST:
        raise SerializationError(f"A value may be nested {_DEEPEST} deep; store it flatter")
    if kind is dict:
        for name in value:
            if type(name) is not str:
                raise _refused(name, path, " as a key; keys are texts")
        return {
            name: inner if type(inner) in _PLAIN else _copy(inner, (*path, name))
            for name, inner in value.items()
        }
    if kind is list:
        return [
            inner if type(inner) in _PLAIN else _copy(inner, (*path, index))
            for index, inner in enumerate(value)
        ]
    if kind in _PLAIN:
        return value
    raise _refused(value, path, _ADVICE.get(kind, "; turn it into texts, numbers, lists and dictionaries"))


_ADVICE: dict[type, str] = {
    int: " of more than 4,000 digits; store it as a text",
    float: f" {math.nan} or infinite; JSON has no such number, store None or a text",
    tuple: "; use a list",
    set: "; use a list",
}


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _refused(value: object, path: tuple[str | int, ...], advice: str) -> SerializationError:
    where = "".join(f"[{step!r}]" for step in path)
    return SerializationError(f"A store cannot keep {_kind(value)}{advice}", path=where)
