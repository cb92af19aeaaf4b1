"""What plain Python values hold that plain MessagePack has no place for.

`ormsgpack` refuses text with lone surrogates and some keys, and turns buffers into `bytes` without a
word. `holds_buffers` notices the latter; `replace` puts extensions in the place of all three. Values that
have none of it never pass by here, unless a byte of theirs happens to look like the head of binary data.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.errors import SerializationError

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.codec import Level

__all__ = ["flat", "holds_buffers", "needs_only_keys", "replace"]

_SCALARS = frozenset((str, int, float, bool, type(None), bytes))
_SMALL = 400


def flat(mapping: dict[Any, Any]) -> list[Any]:
    """Return `[key, value, key, value, ...]`."""
    return list(chain.from_iterable(mapping.items()))


def holds_buffers(value: Any, size: int) -> bool:
    """Tell whether a buffer that is not `bytes` sits in lists and dicts.

    Args:
        value: The value.
        size: How many bytes its encoding has.
    """
    if size > _SMALL and _pickles_without_buffers(value):
        return False
    return any(map(_is_buffer, _containers(value)))


def needs_only_keys(value: Any) -> bool:
    """Tell whether all that is special is that keys are not strings, but of types that MessagePack has."""
    return all(
        _SCALARS.issuperset(map(type, item)) if type(item) is dict else not _is_buffer(item)
        for item in _containers(value)
    )


def _is_buffer(item: Any) -> bool:
    return type(item) is bytearray or type(item) is memoryview


def _containers(value: Any) -> list[Any]:
    """Return a value, and all values inside its lists and dicts that are no scalars, each once."""
    found = {id(value): value}
    todo = [value]
    while todo:
        item = todo.pop()
        parts = item if type(item) is list else item.values() if type(item) is dict else ()
        if _SCALARS.issuperset(map(type, parts)):
            continue
        for part in parts:
            if type(part) not in _SCALARS and id(part) not in found:
                found[id(part)] = part
                todo.append(part)
    return list(found.values())


class _Stop(Exception):
    """Something that is not plain."""


class _NothingElse:
    """Stands for how objects are pickled: not at all."""

    def __getitem__(self, cls: type) -> NoReturn:
        raise _Stop


def _pickles_without_buffers(value: Any) -> bool:
    """Tell whether a value is made of plain values, with no buffer among them. `False` says nothing.

    No walk in Python is as quick as the one that pickle does in C, and this version of its format spells
    out the name of `bytearray`. The result is thrown away.
    """
    written = io.BytesIO()
    pickler = pickle.Pickler(written, 4)
    pickler.fast = True
    pickler.dispatch_table = _NothingElse()  # type: ignore[assignment]
    try:
        pickler.dump(value)
    except (_Stop, pickle.PicklingError, TypeError, ValueError, AttributeError, RecursionError):
        return False
    return b"bytearray" not in written.getvalue()


def replace(value: Any, deeper: Callable[[], Level]) -> Any:
    """Return a copy of lists and dicts in which extensions stand for what MessagePack cannot hold.

    Args:
        value: The value.
        deeper: Returns the level that packs what is inside an extension.
    """
    cls = type(value)
    if cls is str:
        return value if _is_unicode(value) else _surrogates(value)
    if cls is list:
        return [replace(item, deeper) for item in value]
    if cls is dict:
        if all(map(_is_plain_key, value)):
            return {key: replace(item, deeper) for key, item in value.items()}
        return Ext(wire.MAP, deeper().pack(flat(value)))
    if cls is bytearray:
        return Ext(wire.BYTEARRAY, bytes(value))
    if cls is memoryview:
        raise SerializationError(
            "A memoryview is a window on other data and cannot be kept. Store bytes(view)"
        )
    return value


def _is_plain_key(key: Any) -> bool:
    cls = type(key)
    if cls is str:
        return _is_unicode(key)
    if cls is int:
        return bool(-(1 << 63) <= key < 1 << 64)
    return cls in _SCALARS


def _is_unicode(text: str) -> bool:
    """Tell whether text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _surrogates(text: str) -> Ext:
    return Ext(wire.TEXT, text.encode("utf-8", "surrogatepass"))
