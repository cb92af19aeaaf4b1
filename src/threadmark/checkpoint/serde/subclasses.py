"""Instances of classes that derive from a built-in container, text, number or time.

Stored as the class's name, the plain value inside, and the attributes. Both ways only the built-in
base's own methods are called, so what the class overrides does not matter and does not run.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any, NamedTuple

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Encoder, Level
from threadmark.checkpoint.serde.known import type_name
from threadmark.checkpoint.serde.layout import layout_of
from threadmark.checkpoint.serde.records import set_attributes, state_of
from threadmark.checkpoint.serde.times import datetime_parts, time_parts
from threadmark.errors import SerializationError

__all__ = ["base_of", "subclass_builder", "subclass_encoder"]


class _Base(NamedTuple):
    """What a built-in type does for its subclasses: give the plain value, and build from it."""

    plain: Callable[[Any], Any]
    build: Callable[[Any, Any], Any]


def _filled(base: Any, fill: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def build(cls: Any, plain: Any) -> Any:
        value = base.__new__(cls)
        fill(value, plain)
        return value

    return build


def _set_items(value: Any, plain: Any) -> None:
    for key, item in plain.items():
        collections.OrderedDict.__setitem__(value, key, item)


def _set_default_dict(value: Any, plain: Any) -> None:
    collections.defaultdict.__init__(value, plain.default_factory)
    dict.update(value, plain)


def _plain_default_dict(value: Any) -> Any:
    return collections.defaultdict(value.default_factory, dict.items(value))


def _build_datetime(cls: Any, plain: dt.datetime) -> Any:
    year, month, day, hour, minute, second, fold, micro = datetime_parts(plain)
    zone = plain.tzinfo
    return dt.datetime.__new__(cls, year, month, day, hour, minute, second, micro, zone, fold=fold)


def _build_time(cls: Any, plain: dt.time) -> Any:
    hour, minute, second, fold, micro = time_parts(plain)
    return dt.time.__new__(cls, hour, minute, second, micro, plain.tzinfo, fold=fold)


def _plain_datetime(value: dt.datetime) -> dt.datetime:
    return _build_datetime(dt.datetime, value)  # type: ignore[no-any-return]


_BASES: dict[Any, _Base] = {
    collections.OrderedDict: _Base(
        lambda v: collections.OrderedDict(collections.OrderedDict.items(v)),
        _filled(collections.OrderedDict, _set_items),
    ),
    collections.defaultdict: _Base(_plain_default_dict, _filled(collections.defaultdict, _set_default_dict)),
    collections.Counter: _Base(
        lambda v: collections.Counter(dict(dict.items(v))),
        _filled(dict, dict.update),
    ),
    dict: _Base(lambda v: dict(dict.items(v)), _filled(dict, dict.update)),
    collections.deque: _Base(
        lambda v: collections.deque(collections.deque.__iter__(v), v.maxlen),
        _filled(collections.deque, lambda v, p: collections.deque.__init__(v, p, p.maxlen)),
    ),
    list: _Base(lambda v: list(list.__iter__(v)), _filled(list, list.extend)),
    set: _Base(lambda v: set(set.__iter__(v)), _filled(set, set.update)),
    frozenset: _Base(lambda v: frozenset(frozenset.__iter__(v)), frozenset.__new__),
    tuple: _Base(lambda v: tuple(tuple.__iter__(v)), tuple.__new__),
    str: _Base(str.__str__, str.__new__),
    bytes: _Base(bytes.__bytes__, bytes.__new__),
    bytearray: _Base(lambda v: bytearray(memoryview(v)), _filled(bytearray, bytearray.extend)),
    int: _Base(int.__int__, int.__new__),
    float: _Base(float.__float__, float.__new__),
    complex: _Base(complex.__complex__, complex.__new__),
    decimal.Decimal: _Base(decimal.Decimal, decimal.Decimal.__new__),
    dt.datetime: _Base(_plain_datetime, _build_datetime),
    dt.date: _Base(
        lambda v: dt.date(v.year, v.month, v.day),
        lambda cls, p: dt.date.__new__(cls, p.year, p.month, p.day),
    ),
    dt.time: _Base(lambda v: _build_time(dt.time, v), _build_time),
    dt.timedelta: _Base(
        lambda v: dt.timedelta(v.days, v.seconds, v.microseconds),
        lambda cls, p: dt.timedelta.__new__(cls, p.days, p.seconds, p.microseconds),
    ),
}
"""A type stands before those that it derives from."""


def base_of(cls: type) -> type | None:
    """Return the built-in type that a class derives from, or `None`."""
    return next((base for base in _BASES if issubclass(cls, base)), None)


def subclass_encoder(cls: type, base: type) -> Encoder:
    """Return the encoder of instances of a class that derives from `base`."""
    name = type_name(cls)
    layout = layout_of(cls)
    plain = _BASES[base].plain

    def encode(value: Any, level: Level) -> Ext:
        fields, others = state_of(value, layout)
        state = {**others, **fields}
        parts = [name, plain(value), state] if state else [name, plain(value)]
        return Ext(wire.SUBCLASS, level.pack(parts))

    return encode


def subclass_builder(cls: type) -> Callable[[list[Any]], Any]:
    """Return what rebuilds an instance from `[name, plain value]` or `[name, plain value, state]`."""
    base = base_of(cls)
    if base is None:
        raise SerializationError(f"{type_name(cls)} no longer derives from a built-in type")
    build_value = _BASES[base].build

    def build(parts: list[Any]) -> Any:
        plain = parts[1]
        if type(plain) is not base:
            raise SerializationError(
                f"{type_name(cls)} derives from {base.__name__}, but was stored as something else"
            )
        value = build_value(cls, plain)
        set_attributes(value, parts[2] if len(parts) > 2 else {})
        return value

    return build
