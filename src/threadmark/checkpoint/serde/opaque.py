"""Values of types that are not known, for readers that only look.

An `Opaque` shows what a value holds, and encodes back to the bytes that it was read from. It comes from
a serializer that was asked for it; any other raises on a type that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Decoder, Level
from threadmark.checkpoint.serde.messages import message_fields
from threadmark.errors import SerializationError, UnknownTypeError

__all__ = ["Opaque", "OpaqueDecoders", "encode_opaque"]


class Opaque:
    """A value of a type that is not known here.

    Attributes:
        type_name: The type, as `package.module:QualifiedName`.
    """

    __slots__ = ("_code", "_data", "_fields", "_level", "type_name")

    def __init__(self, type_name: str, code: int, data: bytes, level: Level) -> None:
        self.type_name = type_name
        self._code = code
        self._data = data
        self._level = level
        self._fields: dict[str, Any] | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """What the value holds, by name.

        Raises:
            SerializationError: The stored bytes are damaged.
        """
        if self._fields is None:
            # Decoded only when somebody looks: nested ones would be decoded over and over.
            self._fields = _fields(self._code, self._data, self._level)
        return self._fields

    def __repr__(self) -> str:
        if self._code == wire.CLASS:
            return f"<class {self.type_name}>"
        try:
            fields = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        except SerializationError:
            fields = "damaged"
        return f"{self.type_name.rpartition(':')[2]}({fields})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Opaque):
            return NotImplemented
        return (self._code, self._data) == (other._code, other._data)

    def __hash__(self) -> int:
        return hash((self._code, self._data))


def encode_opaque(value: Opaque, level: Level) -> Ext:
    """Return the bytes that the value was read from."""
    return Ext(value._code, value._data)


def _fields(code: int, data: bytes, level: Level) -> dict[str, Any]:
    if code == wire.CLASS or not 0 <= code <= wire.MESSAGE:
        return {}
    try:
        parts = level.unpack_alone(data)
        return _named(code, parts)
    except Exception as error:
        raise SerializationError(f"The content of a value of an unknown type is damaged: {error}") from error


def _named(code: int, parts: list[Any]) -> dict[str, Any]:
    if code < wire.FIRST_OWN_CODE:
        return parts[2] if type(parts[2]) is dict else {"value": parts[2]}
    if code == wire.MESSAGE:
        return message_fields(parts)[1]
    if code in (wire.ARRAY, wire.SCALAR):
        names = ("dtype", "shape", "order", "items") if len(parts) > 1 else ("value",)
        return dict(zip(names, parts, strict=False))
    if code == wire.ENUM:
        return {"value": parts[2]} if parts[1] is None else {"name": parts[1]}
    content = parts[1]
    more = next((part for part in parts[2:] if type(part) is dict), {})
    fields = content if type(content) is dict and code != wire.SUBCLASS else {"value": content}
    return {**fields, **more}


class OpaqueDecoders(dict[int, Decoder]):
    """Decoders that return an `Opaque` where the given ones raise for an unknown type or extension."""

    def __init__(self, decoders: Mapping[int, Decoder]) -> None:
        super().__init__({code: _or_opaque(code, decode) for code, decode in decoders.items()})

    def __missing__(self, code: int) -> Decoder:
        return lambda data, level: Opaque(f"extension:{code}", code, data, level)


def _or_opaque(code: int, decode: Decoder) -> Decoder:
    def decode_or_keep(data: bytes, level: Level) -> Any:
        try:
            return decode(data, level)
        except UnknownTypeError as error:
            return Opaque(error.type_name, code, data, level)

    return decode_or_keep
