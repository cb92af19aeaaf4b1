"""Numbers, text, paths, addresses and other single values of the standard library, as extensions."""

from __future__ import annotations

import decimal
import fractions
import ipaddress
import pathlib
import re
import struct
import uuid
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Decoder, Encoder, Level
from threadmark.errors import SerializationError

__all__ = ["DECODERS", "ENCODERS"]

_COMPLEX = struct.Struct(">dd")

_PATHS: dict[str, type[pathlib.PurePath]] = {
    cls.__name__: cls
    for cls in (
        pathlib.PosixPath,
        pathlib.WindowsPath,
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
    )
}
_ADDRESSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        ipaddress.IPv4Address,
        ipaddress.IPv6Address,
        ipaddress.IPv4Network,
        ipaddress.IPv6Network,
        ipaddress.IPv4Interface,
        ipaddress.IPv6Interface,
    )
}
_CONSTANTS = {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}


def _decode_text(data: bytes, level: Level) -> str:
    return data.decode("utf-8", "surrogatepass")


def _encode_integer(value: int, level: Level) -> Ext:
    return Ext(wire.INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _decode_integer(data: bytes, level: Level) -> int:
    return int.from_bytes(data, "big", signed=True)


def _decode_bytearray(data: bytes, level: Level) -> bytearray:
    return bytearray(data)


def _encode_decimal(value: decimal.Decimal, level: Level) -> Ext:
    return Ext(wire.DECIMAL, str(value).encode())


def _decode_decimal(data: bytes, level: Level) -> decimal.Decimal:
    # The program's own context must neither round nor trap here.
    return decimal.Decimal(data.decode("ascii"), _CONTEXT)


_CONTEXT = decimal.Context(traps=[decimal.InvalidOperation])


def _encode_fraction(value: fractions.Fraction, level: Level) -> Ext:
    return Ext(wire.FRACTION, level.pack([value.numerator, value.denominator]))


def _decode_fraction(data: bytes, level: Level) -> fractions.Fraction:
    numerator, denominator = level.unpack(data)
    if type(numerator) is not int or type(denominator) is not int or denominator < 1:
        raise SerializationError("A stored fraction is not made of two integers")
    # It is in lowest terms; the constructor would look for common factors, which takes for ever on
    # numbers that somebody made for that purpose.
    value = object.__new__(fractions.Fraction)
    value._numerator = numerator  # type: ignore[attr-defined]
    value._denominator = denominator  # type: ignore[attr-defined]
    return value


def _encode_complex(value: complex, level: Level) -> Ext:
    return Ext(wire.COMPLEX, _COMPLEX.pack(value.real, value.imag))


def _decode_complex(data: bytes, level: Level) -> complex:
    return complex(*_COMPLEX.unpack(data))


def _encode_range(value: range, level: Level) -> Ext:
    return Ext(wire.RANGE, level.pack([value.start, value.stop, value.step]))


def _decode_range(data: bytes, level: Level) -> range:
    start, stop, step = level.unpack(data)
    return range(start, stop, step)


def _encode_slice(value: slice, level: Level) -> Ext:
    return Ext(wire.SLICE, level.pack([value.start, value.stop, value.step]))


def _decode_slice(data: bytes, level: Level) -> slice:
    start, stop, step = level.unpack(data)
    return slice(start, stop, step)


def _encode_uuid(value: uuid.UUID, level: Level) -> Ext:
    return Ext(wire.UUID, value.bytes)


def _decode_uuid(data: bytes, level: Level) -> uuid.UUID:
    return uuid.UUID(bytes=data)


def _encode_path(value: pathlib.PurePath, level: Level) -> Ext:
    return Ext(wire.PATH, level.pack([type(value).__name__, str(value)]))


def _decode_path(data: bytes, level: Level) -> pathlib.PurePath:
    name, path = level.unpack(data)
    try:
        return _PATHS[name](path)
    except NotImplementedError:
        raise SerializationError(
            f"A {name} exists only on the system it was made on. Store pure paths, such as Pure{name}"
        ) from None


def _encode_address(value: Any, level: Level) -> Ext:
    return Ext(wire.IP, level.pack([type(value).__name__, str(value)]))


def _decode_address(data: bytes, level: Level) -> Any:
    name, address = level.unpack(data)
    if type(address) is not str:
        raise SerializationError("A stored IP address is not text")
    return _ADDRESSES[name](address)


def _encode_pattern(value: re.Pattern[Any], level: Level) -> Ext:
    return Ext(wire.PATTERN, level.pack([value.pattern, value.flags]))


def _decode_pattern(data: bytes, level: Level) -> re.Pattern[Any]:
    pattern, flags = level.unpack(data)
    return re.compile(pattern, flags)


def _encode_constant(value: Any, level: Level) -> Ext:
    return Ext(wire.CONSTANT, repr(value).encode())


def _decode_constant(data: bytes, level: Level) -> Any:
    return _CONSTANTS[data.decode()]


ENCODERS: dict[type, Encoder] = {
    int: _encode_integer,
    decimal.Decimal: _encode_decimal,
    fractions.Fraction: _encode_fraction,
    complex: _encode_complex,
    range: _encode_range,
    slice: _encode_slice,
    uuid.UUID: _encode_uuid,
    **dict.fromkeys(_PATHS.values(), _encode_path),
    **dict.fromkeys(_ADDRESSES.values(), _encode_address),
    re.Pattern: _encode_pattern,
    **{type(value): _encode_constant for value in _CONSTANTS.values()},
}

DECODERS: dict[int, Decoder] = {
    wire.TEXT: _decode_text,
    wire.INTEGER: _decode_integer,
    wire.BYTEARRAY: _decode_bytearray,
    wire.DECIMAL: _decode_decimal,
    wire.FRACTION: _decode_fraction,
    wire.COMPLEX: _decode_complex,
    wire.RANGE: _decode_range,
    wire.SLICE: _decode_slice,
    wire.UUID: _decode_uuid,
    wire.PATH: _decode_path,
    wire.IP: _decode_address,
    wire.PATTERN: _decode_pattern,
    wire.CONSTANT: _decode_constant,
}
