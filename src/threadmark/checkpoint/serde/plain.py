"""What plain Python values hold that plain MessagePack has no place for.

`ormsgpack` refuses text with lone surrogates and keys other than strings, and turns buffers into
`bytes` without a word. `replace` puts extensions in their place. This runs only for values that need
it: everything else never passes through here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.errors import SerializationError

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.codec import Level

__all__ = ["flat", "holds_buffers", "replace"]


def flat(mapping: dict[Any, Any]) -> list[Any]:
    """Return `[key, value, key, value, ...]`."""
    return list(chain.from_iterable(mapping.items()))


def holds_buffers(value: Any) -> bool:
    """Tell whether a buffer that is not `bytes` sits in lists and dicts."""
    todo = [value]
    while todo:
        item = todo.pop()
        cls = type(item)
        if cls is dict:
            todo.extend(item.values())
        elif cls is list:
            todo.extend(item)
        elif cls is bytearray or cls is memoryview:
            return True
    return False


def replace(value: Any, deeper: Callable[[], Level]) -> Any:
    """Return a copy of lists and dicts in which extensions stand for what MessagePack cannot hold.

    Args:
        value: The value.
        deeper: Returns the level that packs what is inside an extension.
    """
    cls = type(value)
    if cls is str:
        return value if is_unicode(value) else surrogates(value)
    if cls is list:
        return [replace(item, deeper) for item in value]
    if cls is dict:
        if all(type(key) is str and is_unicode(key) for key in value):
            return {key: replace(item, deeper) for key, item in value.items()}
        return Ext(wire.MAP, deeper().pack(flat(value)))
    if cls is bytearray:
        return Ext(wire.BYTEARRAY, bytes(value))
    if cls is memoryview:
        raise SerializationError(
            "A memoryview is a window on other data and cannot be kept. Store bytes(view)"
        )
    return value


def is_unicode(text: str) -> bool:
    """Tell whether text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def surrogates(text: str) -> Ext:
    """Encode text that has lone surrogates."""
    return Ext(wire.TEXT, text.encode("utf-8", "surrogatepass"))
