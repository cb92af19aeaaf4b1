"""What plain Python values hold that plain MessagePack has no place for.

`ormsgpack` refuses text with lone surrogates and some keys, and turns buffers into `bytes` without a
word. `may_hold_buffers` notices the latter, as cheaply as it can; `replace` puts extensions in the
place of all three. Values that need neither pass by here in well under a microsecond.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.errors import SerializationError

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.codec import Level

__all__ = ["flat", "holds_buffers", "no_binary", "replace"]


def flat(mapping: dict[Any, Any]) -> list[Any]:
    """Return `[key, value, key, value, ...]`."""
    return list(chain.from_iterable(mapping.items()))


def _tokens() -> bytes:
    """Return a pattern that runs over MessagePack as long as it holds neither binary nor extensions.

    Text is not skipped by its length but read as more tokens: ASCII, continuation bytes and most lead
    bytes look like tokens of one byte. Where a lead byte looks like the head of a longer token, a
    continuation byte follows, and the pattern goes on only if the rest reads the same either way.
    """
    single = rb"[\x00-\xc3\xe0-\xff]"
    longer = [
        (0xCB, 8), (0xCD, 2), (0xCE, 4), (0xCF, 8), (0xD1, 2), (0xD2, 4), (0xD3, 8),
        (0xDA, 2), (0xDB, 4), (0xDC, 2), (0xDD, 4), (0xDE, 2), (0xDF, 4),
    ]  # fmt: skip
    branches = [single + rb"++", rb"[\xcc\xd0\xd9]."]
    for head, size in longer:
        sure = rb"[^\x80-\xbf].{%d}" % (size - 1)
        either = rb"[\x80-\xbf]%s{%d}" % (single, size - 1)
        branches.append(re.escape(bytes((head,))) + rb"(?:%s|%s)" % (sure, either))
    return rb"(?s:%s)*+" % rb"|".join(branches)


no_binary = re.compile(_tokens()).fullmatch
"""Matches MessagePack that holds no binary and no extension. No match: it may."""


def holds_buffers(value: Any) -> bool:
    """Tell whether a buffer that is not `bytes` sits in lists and dicts."""
    todo = [value]
    for item in todo:
        cls = type(item)
        if cls is dict or cls is list:
            for part in item.values() if cls is dict else item:
                kind = type(part)
                if kind not in _SCALARS:
                    todo.append(part)
        elif cls is bytearray or cls is memoryview:
            return True
    return False


_SCALARS = frozenset((str, int, float, bool, type(None), bytes))


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
