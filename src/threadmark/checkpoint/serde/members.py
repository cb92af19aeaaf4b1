"""Enum members, named tuples, and classes themselves."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Encoder, Level
from threadmark.checkpoint.serde.known import type_name
from threadmark.checkpoint.serde.records import missing_field, set_attributes
from threadmark.errors import SerializationError, UnknownTypeError

__all__ = [
    "decode_class",
    "encode_class",
    "enum_builder",
    "enum_encoder",
    "named_tuple_builder",
    "named_tuple_encoder",
    "named_tuple_from_fields",
]


def encode_class(value: type, level: Level) -> Ext:
    """Encode a class as a value."""
    if value not in level.codec.known:
        raise UnknownTypeError(type_name(value))
    return Ext(wire.CLASS, type_name(value).encode())


def decode_class(data: bytes, level: Level) -> type:
    """Return a known class."""
    return level.codec.known.find(data.decode())


def enum_encoder(cls: type) -> Encoder:
    """Return the encoder of an enum's members: by name, or for flags, which combine, by value."""
    name = type_name(cls)
    if issubclass(cls, enum.Flag):
        return lambda value, level: Ext(wire.ENUM, level.pack([name, None, value.value]))
    return lambda value, level: Ext(wire.ENUM, level.pack([name, value.name]))


def enum_builder(cls: Any) -> Callable[[list[Any]], Any]:
    """Return what finds the member of `[name, member]` or `[name, None, value]`."""

    def build(parts: list[Any]) -> Any:
        if parts[1] is None:
            return cls(parts[2])
        member = cls.__members__.get(parts[1])
        if member is None:
            raise SerializationError(f"{type_name(cls)} no longer has the member {parts[1]!r}")
        return member

    return build


def named_tuple_encoder(cls: Any) -> Encoder:
    """Return the encoder of a named tuple class, by field so that it may gain and lose fields."""
    name = type_name(cls)
    fields = cls._fields

    def encode(value: Any, level: Level) -> Ext:
        stored = dict(zip(fields, tuple.__iter__(value), strict=True))
        state = getattr(value, "__dict__", None)
        return Ext(wire.NAMED_TUPLE, level.pack([name, stored, state] if state else [name, stored]))

    return encode


def named_tuple_builder(cls: Any) -> Callable[[list[Any]], Any]:
    """Return what rebuilds a named tuple from `[name, fields]` or `[name, fields, attributes]`."""

    def build(parts: list[Any]) -> Any:
        value = named_tuple_from_fields(cls, parts[1])
        set_attributes(value, parts[2] if len(parts) > 2 else {})
        return value

    return build


def named_tuple_from_fields(cls: Any, fields: dict[str, Any]) -> Any:
    """Build a named tuple from its fields and the defaults of those it gained."""
    fields = {**cls._field_defaults, **fields}
    for name in cls._fields:
        if name not in fields:
            raise missing_field(cls, name)
    return tuple.__new__(cls, [fields[name] for name in cls._fields])
