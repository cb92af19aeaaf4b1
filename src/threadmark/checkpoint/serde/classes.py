"""Encoding and rebuilding instances of classes that a program defines.

One `Shape` per kind of class: dataclasses and plain objects, Pydantic models, named tuples, enums,
exceptions, and subclasses of the built-in containers and scalars. Rebuilding fills in an empty object
and calls none of the class's own code.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

import ormsgpack
from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Decoder, Encoder, Level
from threadmark.checkpoint.serde.known import KnownTypes, type_name
from threadmark.errors import SerializationError, UnknownTypeError

__all__ = ["class_decoders", "find_encoder"]

_set = object.__setattr__
_BASES = (dict, list, set, frozenset, tuple, str, bytes, bytearray, int, float, complex)


def _base_model() -> type | None:
    """Return Pydantic's base class if the program uses it."""
    return getattr(sys.modules.get("pydantic"), "BaseModel", None)


def find_encoder(cls: type, known: KnownTypes) -> Encoder:
    """Return the encoder for instances of a class.

    Raises:
        SerializationError: Instances cannot be kept, or could not be rebuilt.
    """
    if issubclass(cls, type):
        return _class_encoder(known)
    if cls not in known:
        raise UnknownTypeError(type_name(cls))
    name = ormsgpack.packb(type_name(cls))
    if issubclass(cls, enum.Enum):
        return lambda value, level: Ext(wire.ENUM, b"\x92" + name + level.pack(value.name))
    if issubclass(cls, BaseException):
        return lambda value, level: Ext(
            wire.EXCEPTION, b"\x93" + name + level.pack(value.args) + level.pack(value.__dict__)
        )
    model = _base_model()
    if model is not None and issubclass(cls, model):
        return _model_encoder(name)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        fields = cls._fields
        return lambda value, level: Ext(
            wire.NAMED_TUPLE, b"\x92" + name + level.pack(dict(zip(fields, value, strict=True)))
        )
    for base in _BASES:
        if issubclass(cls, base):
            return _subclass_encoder(name, base)
    return _record_encoder(cls, name)


def _class_encoder(known: KnownTypes) -> Encoder:
    def encode(value: type, level: Level) -> Ext:
        if value not in known:
            raise UnknownTypeError(type_name(value))
        return Ext(wire.CLASS, type_name(value).encode())

    return encode


def _model_encoder(name: bytes) -> Encoder:
    def encode(value: Any, level: Level) -> Ext:
        pack = level.pack
        state = [
            sorted(value.__pydantic_fields_set__),
            value.__pydantic_extra__,
            value.__pydantic_private__,
        ]
        return Ext(wire.MODEL, b"\x93" + name + pack(value.__dict__) + pack(state))

    return encode


def _subclass_encoder(name: bytes, base: type) -> Encoder:
    def encode(value: Any, level: Level) -> Ext:
        plain = base(value)
        return Ext(
            wire.SUBCLASS,
            b"\x93" + name + level.pack(plain) + level.pack(getattr(value, "__dict__", None)),
        )

    return encode


def _record_encoder(cls: type, name: bytes) -> Encoder:
    names = _attributes(cls)

    def encode(value: Any, level: Level) -> Ext:
        state = {n: getattr(value, n) for n in names if hasattr(value, n)}
        state.update(
            (n, v)
            for n, v in getattr(value, "__dict__", {}).items()
            if not isinstance(getattr(cls, n, None), cached_property)
        )
        return Ext(wire.RECORD, b"\x92" + name + level.pack(state))

    return encode


def _attributes(cls: type) -> list[str]:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    slots: list[str] = []
    for base in reversed(cls.__mro__):
        own = base.__dict__.get("__slots__", ())
        slots.extend([own] if isinstance(own, str) else own)
    return [slot for slot in slots if slot not in ("__dict__", "__weakref__")]


def class_decoders(known: KnownTypes) -> dict[int, Decoder]:
    """Return the decoders of instances of known classes."""

    def find(name: str) -> Any:
        cls = known.get(name)
        if cls is None:
            raise UnknownTypeError(name)
        return cls

    def to_class(data: bytes, level: Level) -> Any:
        return find(data.decode())

    def to_enum(data: bytes, level: Level) -> Any:
        name, member = level.unpack(data)
        return find(name)[member]

    def to_exception(data: bytes, level: Level) -> Any:
        name, args, state = level.unpack(data)
        cls = find(name)
        value = cls.__new__(cls, *args)
        value.__dict__.update(state)
        return value

    def to_model(data: bytes, level: Level) -> Any:
        name, fields, (given, extra, private) = level.unpack(data)
        cls = find(name)
        value = cls.__new__(cls)
        _set(value, "__dict__", fields)
        _set(value, "__pydantic_fields_set__", set(given))
        _set(value, "__pydantic_extra__", extra)
        _set(value, "__pydantic_private__", private)
        return value

    def to_named_tuple(data: bytes, level: Level) -> Any:
        name, fields = level.unpack(data)
        cls = find(name)
        return tuple.__new__(cls, fields.values())

    def to_subclass(data: bytes, level: Level) -> Any:
        name, plain, state = level.unpack(data)
        cls = find(name)
        value = _rebuild(cls, plain)
        if state:
            value.__dict__.update(state)
        return value

    def to_record(data: bytes, level: Level) -> Any:
        name, state = level.unpack(data)
        cls = find(name)
        value = object.__new__(cls)
        for attribute, content in state.items():
            _set(value, attribute, content)
        return value

    return {
        wire.CLASS: to_class,
        wire.ENUM: to_enum,
        wire.EXCEPTION: to_exception,
        wire.MODEL: to_model,
        wire.NAMED_TUPLE: to_named_tuple,
        wire.SUBCLASS: to_subclass,
        wire.RECORD: to_record,
    }


_FILL: dict[type, Callable[[Any, Any], object]] = {
    dict: dict.update,
    list: list.extend,
    set: set.update,
    bytearray: bytearray.extend,
}


def _rebuild(cls: type, plain: Any) -> Any:
    base: Any = type(plain)
    if not issubclass(cls, base):
        raise SerializationError(f"Stored data says that {type_name(cls)} is a {base.__name__}")
    if base in _FILL:
        value = base.__new__(cls)
        _FILL[base](value, plain)
        return value
    return base.__new__(cls, plain)
