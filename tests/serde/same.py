"""What "comes back as it was" means: equal, of the same type all the way down, in the same order."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import re
import struct
from typing import Any

import pydantic

from . import sample_types

_UNORDERED = (set, frozenset)
_SIMPLE = (str, bytes, bytearray, int, dt.date, dt.time, dt.timedelta)


def same(a: Any, b: Any) -> bool:
    """Tell whether two values cannot be told apart by a program."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b) and _attributes(a, b)
    if isinstance(a, complex):
        return same([a.real, a.imag], [b.real, b.imag])
    if isinstance(a, dict):
        return _dicts(a, b) and _attributes(a, b)
    if isinstance(a, _UNORDERED):
        return _sets(a, b) and _attributes(a, b)
    if isinstance(a, (list, tuple, collections.deque)):
        return _sequences(a, b) and _attributes(a, b)
    if isinstance(a, BaseException):
        return same(list(a.args), list(b.args)) and _attributes(a, b)
    if isinstance(a, re.Pattern):
        return (a.pattern, a.flags) == (b.pattern, b.flags)
    if isinstance(a, decimal.Decimal):
        return a.as_tuple() == b.as_tuple() and _attributes(a, b)
    if isinstance(a, _SIMPLE):
        return repr(a) == repr(b) and a == b and _attributes(a, b)
    if type(a).__module__ == sample_types.__name__:
        return _attributes(a, b)
    return repr(a) == repr(b) and bool(a == b)


def _dicts(a: Any, b: Any) -> bool:
    if getattr(a, "default_factory", None) is not getattr(b, "default_factory", None):
        return False
    return same(*([part for item in dict.items(each) for part in item] for each in (a, b)))


def _sets(a: Any, b: Any) -> bool:
    partner = {item: item for item in b}
    return len(a) == len(b) and all(
        item in partner and same(item, partner[item]) for item in a if item == item
    )


def _sequences(a: Any, b: Any) -> bool:
    if getattr(a, "maxlen", None) != getattr(b, "maxlen", None) or len(a) != len(b):
        return False
    return all(same(x, y) for x, y in zip(a, b, strict=True))


def _attributes(a: Any, b: Any) -> bool:
    mine, others = _state(a), _state(b)
    return mine.keys() == others.keys() and all(same(mine[name], others[name]) for name in mine)


def _state(value: Any) -> dict[str, Any]:
    state = dict(getattr(value, "__dict__", {}))
    if dataclasses.is_dataclass(value):
        # A default that sits on the class is part of the state as well.
        state.update((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, pydantic.BaseModel):
        state |= {name: getattr(value, name) for name in pydantic.BaseModel.__slots__ if name != "__dict__"}
    slots = getattr(type(value), "__slots__", ()) if not state else ()
    names = [name for name in slots if not name.startswith("__") and hasattr(value, name)]
    return state | {name: getattr(value, name) for name in names}
