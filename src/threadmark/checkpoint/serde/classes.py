"""Which kind of class a value's class is, and so how its instances are encoded and rebuilt."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Any

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Builder, Decoder, Encoder, FindBuilder, Level, building
from threadmark.checkpoint.serde.exceptions import built_in_base, exception_builder, exception_encoder
from threadmark.checkpoint.serde.known import KnownTypes, type_name
from threadmark.checkpoint.serde.layout import hides_state, layout_of, pickles_itself
from threadmark.checkpoint.serde.members import (
    decode_class,
    encode_class,
    enum_builder,
    enum_encoder,
    named_tuple_builder,
    named_tuple_encoder,
)
from threadmark.checkpoint.serde.messages import message_encoder
from threadmark.checkpoint.serde.models import base_model, model_builder, model_encoder
from threadmark.checkpoint.serde.records import record_builder, record_encoder
from threadmark.checkpoint.serde.subclasses import base_of, subclass_builder, subclass_encoder
from threadmark.errors import SerializationError, StoredError, UnknownTypeError

__all__ = ["DECODERS", "FIND_BUILDERS", "find_encoder", "kind_of"]

_BUILDERS: dict[int, Callable[[Any], Builder]] = {
    wire.ENUM: enum_builder,
    wire.EXCEPTION: exception_builder,
    wire.MODEL: model_builder,
    wire.NAMED_TUPLE: named_tuple_builder,
    wire.SUBCLASS: subclass_builder,
    wire.RECORD: record_builder,
}
_ENCODERS: dict[int, Callable[[Any], Encoder]] = {
    wire.ENUM: enum_encoder,
    wire.EXCEPTION: exception_encoder,
    wire.MODEL: model_encoder,
    wire.NAMED_TUPLE: named_tuple_encoder,
    wire.SUBCLASS: lambda cls: subclass_encoder(cls, base_of(cls)),  # type: ignore[arg-type]
    wire.RECORD: record_encoder,
}


def kind_of(cls: type) -> int:
    """Return the extension code of a class's instances."""
    model = base_model()
    if issubclass(cls, enum.Enum):
        return wire.ENUM
    if issubclass(cls, BaseException):
        return wire.EXCEPTION
    if model is not None and issubclass(cls, model):
        return wire.MODEL
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return wire.NAMED_TUPLE
    return wire.RECORD if base_of(cls) is None else wire.SUBCLASS


def find_encoder(cls: type, known: KnownTypes) -> Encoder:
    """Return the encoder of a class's instances.

    Raises:
        UnknownTypeError: They could not be rebuilt, because the class is not known.
        SerializationError: They cannot be kept at all.
    """
    if issubclass(cls, type):
        return encode_class
    if cls is object:
        raise SerializationError(
            "A bare object() is equal to nothing but itself, and would come back as another one. Mark "
            "things with a text or a member of an enum"
        )
    kind = kind_of(cls)
    if not _can_keep(cls, kind):
        raise SerializationError(
            f"A {type_name(cls)} cannot be kept: its state is not in its attributes. Leave it out of "
            f"the state, or use JsonPlusSerializer(pickle_fallback=True)"
        )
    if cls not in known:
        raise UnknownTypeError(type_name(cls))
    return (kind == wire.MODEL and message_encoder(cls)) or _ENCODERS[kind](cls)


def _can_keep(cls: type, kind: int) -> bool:
    if kind == wire.SUBCLASS:
        return not hides_state(cls, base_of(cls) or object)
    if kind == wire.EXCEPTION:
        return not hides_state(cls, built_in_base(cls))
    if kind != wire.RECORD:
        return True
    return not hides_state(cls) and (layout_of(cls).fields is not None or not pickles_itself(cls))


def _find_builder(code: int, known: KnownTypes, name: Any) -> Builder:
    """Return what rebuilds instances of the class that data names.

    Raises:
        UnknownTypeError: The class is not known.
        SerializationError: It is not of the kind that the data says.
    """
    cls = known.find(name)
    if kind_of(cls) != code:
        raise SerializationError(f"{name} is another kind of class than when the data was written")
    return _BUILDERS[code](cls)


def _decode_exception(data: bytes, level: Level) -> Any:
    parts = level.unpack(data)
    if parts[1] is None:
        return StoredError(parts[0], parts[2])
    return _find_builder(wire.EXCEPTION, level.codec.known, parts[0])(parts)


FIND_BUILDERS: dict[int, FindBuilder] = {
    code: partial(_find_builder, code) for code in _BUILDERS if code != wire.EXCEPTION
}
DECODERS: dict[int, Decoder] = {
    wire.CLASS: decode_class,
    wire.EXCEPTION: _decode_exception,
    **{code: building(code) for code in FIND_BUILDERS},
}
