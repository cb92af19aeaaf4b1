"""What plain Python values hold that plain MessagePack has no place for.

`ormsgpack` refuses text with lone surrogates and some keys, and turns buffers into `bytes` without a
word. `holds_buffers` notices the latter; `replace` puts extensions in the place of all three. Values that
have none of it never pass by here, unless a byte of theirs happens to look like the head of binary data:
then all of the value is looked through, as `ormsgpack` cannot be told to leave buffers to us.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Collection
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.errors import SerializationError

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.codec import Level

__all__ = ["flat", "holds_buffers", "may_hold_binary", "needs_only_keys", "replace"]

_SCALARS = frozenset((str, int, float, bool, type(None), bytes))
_BUFFERS = frozenset((bytearray, memoryview))
_INSIDE = _BUFFERS | {list, dict}
_FEW = 8
"""So many containers are looked through here; what has more, pickle looks through faster."""
_SEVERAL = 8


def flat(mapping: dict[Any, Any]) -> list[Any]:
    """Return `[key, value, key, value, ...]`."""
    return list(chain.from_iterable(mapping.items()))


def may_hold_binary(data: bytes) -> bool:
    """Tell whether some byte could be the head of binary: it is one of its heads, and what it would say
    of its length fits. Others are inside numbers, texts and lengths.
    """
    size = len(data)
    return (
        _fits(data, size, b"\xc4", 1)
        or (size > 1 << 8 and _fits(data, size, b"\xc5", 2))
        or (size > 1 << 16 and _fits(data, size, b"\xc6", 4))
    )


def _fits(data: bytes, size: int, head: bytes, width: int) -> bool:
    at = data.find(head)
    for _ in range(_SEVERAL):
        if at < 0:
            return False
        begin = at + 1 + width
        if begin + int.from_bytes(data[at + 1 : begin], "big") <= size:
            return True
        at = data.find(head, at + 1)
    return True


def holds_buffers(value: Any) -> bool:
    """Tell whether a buffer that is not `bytes` sits in lists and dicts."""
    found = _containers(value, _FEW)
    if found is None:
        if _pickles_without_buffers(value):
            return False
        found = _containers(value)
    return any(map(_is_buffer, found or ()))


def needs_only_keys(value: Any) -> bool:
    """Tell whether all that is special is that keys are not strings, but of types that MessagePack has."""
    return all(
        _SCALARS.issuperset(map(type, item)) if type(item) is dict else not _is_buffer(item)
        for item in _containers(value) or ()
    )


def _is_buffer(item: Any) -> bool:
    return type(item) in _BUFFERS


def _containers(value: Any, most: float = math.inf) -> list[Any] | None:
    """Return a value, and all lists, dicts and buffers inside it, each once.

    Args:
        value: The value.
        most: Return `None` when there are more, or seem to be.
    """
    found = {id(value): value}
    todo = [value]
    while todo:
        item = todo.pop()
        parts: Collection[Any] = item if type(item) is list else item.values() if type(item) is dict else ()
        if len(parts) > most and type(next(iter(parts))) in _INSIDE:
            return None
        if _are_numbers(parts) or _SCALARS.issuperset(map(type, parts)):
            continue
        for part in parts:
            if type(part) in _INSIDE and id(part) not in found:
                found[id(part)] = part
                todo.append(part)
                if len(found) > most:
                    return None
    return list(found.values())


def _are_numbers(parts: Collection[Any]) -> bool:
    """Tell whether there are only numbers, and rather many. `False` says nothing."""
    if len(parts) <= _SEVERAL or type(next(iter(parts))) not in (float, int):
        return False
    try:
        # Takes numbers only, and is by far the fastest of what does.
        math.hypot(*parts)
    except Exception:  # noqa: BLE001 - an object may say in its own way that it is no number
        return False
    return True


class _Stop(Exception):
    """Something that is not plain."""


class _NothingElse:
    """Stands for how objects are pickled: not at all."""

    def __getitem__(self, cls: type) -> NoReturn:
        raise _Stop


class _Written:
    """Stands for a file: what is written to it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.write = self.parts.append


def _pickles_without_buffers(value: Any) -> bool:
    """Tell whether a value is made of plain values, with no buffer among them. `False` says nothing.

    No walk in Python is as quick as the one that pickle does in C, and this version of its format spells
    out the name of `bytearray`. The result is thrown away.
    """
    written = _Written()
    pickler = pickle.Pickler(written, 3)
    pickler.fast = True
    pickler.dispatch_table = _NothingElse()  # type: ignore[assignment]
    try:
        pickler.dump(value)
    except (_Stop, pickle.PicklingError, TypeError, ValueError, AttributeError, RecursionError):
        return False
    return not any(b"bytearray" in part for part in written.parts)


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
