"""Encoders and decoders of the standard library's value types, by exact type.

Each type has a function to encode and one to decode; the table at the end is the list of what is
built in. Nothing here looks at classes that a program defines.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import fractions
import ipaddress
import pathlib
import re
import struct
import uuid
import zoneinfo
from itertools import chain
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Decoder, Encoder, Level
from threadmark.errors import SerializationError

__all__ = ["DECODERS", "ENCODERS"]

_DATETIME = struct.Struct(">HBBBBBBI")
_DATE = struct.Struct(">HBB")
_TIME = struct.Struct(">BBBBI")
_COMPLEX = struct.Struct(">dd")


def _text(data: bytes, level: Level) -> str:
    return data.decode("utf-8", "surrogatepass")


def _integer(value: int, level: Level) -> Ext:
    return Ext(wire.INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _to_integer(data: bytes, level: Level) -> int:
    return int.from_bytes(data, "big", signed=True)


def _tuple(value: tuple[Any, ...], level: Level) -> Ext:
    return Ext(wire.TUPLE, level.pack(list(value)))


def _to_tuple(data: bytes, level: Level) -> tuple[Any, ...]:
    return tuple(level.unpack(data))


def _array(parts: list[bytes]) -> bytes:
    """Join encoded items to an encoded list."""
    return array_header(len(parts)) + b"".join(parts)


def array_header(length: int) -> bytes:
    """Return the MessagePack header of an array."""
    if length < 16:
        return bytes((0x90 | length,))
    if length < 0x10000:
        return b"\xdc" + length.to_bytes(2, "big")
    return b"\xdd" + length.to_bytes(4, "big")


def _set(value: set[Any], level: Level) -> Ext:
    return Ext(wire.SET, _array(sorted(map(level.pack, value))))


def _frozenset(value: frozenset[Any], level: Level) -> Ext:
    return Ext(wire.FROZENSET, _array(sorted(map(level.pack, value))))


def _to_set(data: bytes, level: Level) -> set[Any]:
    return set(level.unpack(data))


def _to_frozenset(data: bytes, level: Level) -> frozenset[Any]:
    return frozenset(level.unpack(data))


def _pairs(flat: list[Any]) -> zip[tuple[Any, Any]]:
    half = iter(flat)
    return zip(half, half, strict=True)


def _flat(value: dict[Any, Any]) -> list[Any]:
    return list(chain.from_iterable(value.items()))


def _to_map(data: bytes, level: Level) -> dict[Any, Any]:
    return dict(_pairs(level.unpack(data)))


def _to_bytearray(data: bytes, level: Level) -> bytearray:
    return bytearray(data)


def _datetime(value: dt.datetime, level: Level) -> Ext:
    fixed = _DATETIME.pack(
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.fold,
        value.microsecond,
    )
    zone = value.tzinfo
    return Ext(wire.DATETIME, fixed if zone is None else fixed + level.pack(zone))


def _zone(data: bytes, level: Level) -> dt.tzinfo | None:
    return level.unpack(data) if data else None


def _to_datetime(data: bytes, level: Level) -> dt.datetime:
    year, month, day, hour, minute, second, fold, micro = _DATETIME.unpack_from(data)
    zone = _zone(data[_DATETIME.size :], level)
    return dt.datetime(year, month, day, hour, minute, second, micro, zone, fold=fold)


def _date(value: dt.date, level: Level) -> Ext:
    return Ext(wire.DATE, _DATE.pack(value.year, value.month, value.day))


def _to_date(data: bytes, level: Level) -> dt.date:
    return dt.date(*_DATE.unpack(data))


def _time(value: dt.time, level: Level) -> Ext:
    fixed = _TIME.pack(value.hour, value.minute, value.second, value.fold, value.microsecond)
    zone = value.tzinfo
    return Ext(wire.TIME, fixed if zone is None else fixed + level.pack(zone))


def _to_time(data: bytes, level: Level) -> dt.time:
    hour, minute, second, fold, micro = _TIME.unpack_from(data)
    return dt.time(hour, minute, second, micro, _zone(data[_TIME.size :], level), fold=fold)


def _timedelta(value: dt.timedelta, level: Level) -> Ext:
    return Ext(wire.TIMEDELTA, level.pack([value.days, value.seconds, value.microseconds]))


def _to_timedelta(data: bytes, level: Level) -> dt.timedelta:
    return dt.timedelta(*level.unpack(data))


def _timezone(value: dt.timezone, level: Level) -> Ext:
    return Ext(wire.TIMEZONE, level.pack(list(value.__getinitargs__())))  # type: ignore[attr-defined]


def _to_timezone(data: bytes, level: Level) -> dt.timezone:
    return dt.timezone(*level.unpack(data))


def _zoneinfo(value: zoneinfo.ZoneInfo, level: Level) -> Ext:
    if value.key is None:
        raise SerializationError("A ZoneInfo that was read from a file has no name to store")
    return Ext(wire.ZONE, value.key.encode())


def _to_zoneinfo(data: bytes, level: Level) -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(data.decode())


def _decimal(value: decimal.Decimal, level: Level) -> Ext:
    return Ext(wire.DECIMAL, str(value).encode())


def _to_decimal(data: bytes, level: Level) -> decimal.Decimal:
    return decimal.Decimal(data.decode())


def _fraction(value: fractions.Fraction, level: Level) -> Ext:
    return Ext(wire.FRACTION, level.pack([value.numerator, value.denominator]))


def _to_fraction(data: bytes, level: Level) -> fractions.Fraction:
    return fractions.Fraction(*level.unpack(data))


def _complex(value: complex, level: Level) -> Ext:
    return Ext(wire.COMPLEX, _COMPLEX.pack(value.real, value.imag))


def _to_complex(data: bytes, level: Level) -> complex:
    return complex(*_COMPLEX.unpack(data))


def _range(value: range, level: Level) -> Ext:
    return Ext(wire.RANGE, level.pack([value.start, value.stop, value.step]))


def _to_range(data: bytes, level: Level) -> range:
    return range(*level.unpack(data))


def _uuid(value: uuid.UUID, level: Level) -> Ext:
    return Ext(wire.UUID, value.bytes)


def _to_uuid(data: bytes, level: Level) -> uuid.UUID:
    return uuid.UUID(bytes=data)


_PATHS = {
    cls.__name__: cls
    for cls in (
        pathlib.PosixPath,
        pathlib.WindowsPath,
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
    )
}
_IPS = {
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


def _path(value: pathlib.PurePath, level: Level) -> Ext:
    return Ext(wire.PATH, level.pack([type(value).__name__, str(value)]))


def _to_path(data: bytes, level: Level) -> pathlib.PurePath:
    name, path = level.unpack(data)
    return _PATHS[name](path)


def _ip(value: Any, level: Level) -> Ext:
    return Ext(wire.IP, level.pack([type(value).__name__, str(value)]))


def _to_ip(data: bytes, level: Level) -> Any:
    name, address = level.unpack(data)
    return _IPS[name](address)


def _pattern(value: re.Pattern[Any], level: Level) -> Ext:
    return Ext(wire.PATTERN, level.pack([value.pattern, value.flags]))


def _to_pattern(data: bytes, level: Level) -> re.Pattern[Any]:
    pattern, flags = level.unpack(data)
    return re.compile(pattern, flags)


def _ordered_dict(value: collections.OrderedDict[Any, Any], level: Level) -> Ext:
    return Ext(wire.ORDERED_DICT, level.pack(_flat(value)))


def _to_ordered_dict(data: bytes, level: Level) -> collections.OrderedDict[Any, Any]:
    return collections.OrderedDict(_pairs(level.unpack(data)))


def _counter(value: collections.Counter[Any], level: Level) -> Ext:
    return Ext(wire.COUNTER, level.pack(_flat(value)))


def _to_counter(data: bytes, level: Level) -> collections.Counter[Any]:
    return collections.Counter(dict(_pairs(level.unpack(data))))


def _default_dict(value: collections.defaultdict[Any, Any], level: Level) -> Ext:
    return Ext(wire.DEFAULT_DICT, level.pack([value.default_factory, *_flat(value)]))


def _to_default_dict(data: bytes, level: Level) -> collections.defaultdict[Any, Any]:
    factory, *flat = level.unpack(data)
    return collections.defaultdict(factory, _pairs(flat))


def _deque(value: collections.deque[Any], level: Level) -> Ext:
    return Ext(wire.DEQUE, level.pack([value.maxlen, *value]))


def _to_deque(data: bytes, level: Level) -> collections.deque[Any]:
    maxlen, *items = level.unpack(data)
    return collections.deque(items, maxlen)


ENCODERS: dict[type, Encoder] = {
    int: _integer,
    tuple: _tuple,
    set: _set,
    frozenset: _frozenset,
    dt.datetime: _datetime,
    dt.date: _date,
    dt.time: _time,
    dt.timedelta: _timedelta,
    dt.timezone: _timezone,
    zoneinfo.ZoneInfo: _zoneinfo,
    decimal.Decimal: _decimal,
    fractions.Fraction: _fraction,
    complex: _complex,
    range: _range,
    uuid.UUID: _uuid,
    **dict.fromkeys(_PATHS.values(), _path),
    **dict.fromkeys(_IPS.values(), _ip),
    re.Pattern: _pattern,
    collections.OrderedDict: _ordered_dict,
    collections.Counter: _counter,
    collections.defaultdict: _default_dict,
    collections.deque: _deque,
}

DECODERS: dict[int, Decoder] = {
    wire.TEXT: _text,
    wire.INTEGER: _to_integer,
    wire.TUPLE: _to_tuple,
    wire.SET: _to_set,
    wire.FROZENSET: _to_frozenset,
    wire.MAP: _to_map,
    wire.BYTEARRAY: _to_bytearray,
    wire.DATETIME: _to_datetime,
    wire.DATE: _to_date,
    wire.TIME: _to_time,
    wire.TIMEDELTA: _to_timedelta,
    wire.TIMEZONE: _to_timezone,
    wire.ZONE: _to_zoneinfo,
    wire.DECIMAL: _to_decimal,
    wire.FRACTION: _to_fraction,
    wire.COMPLEX: _to_complex,
    wire.RANGE: _to_range,
    wire.UUID: _to_uuid,
    wire.PATH: _to_path,
    wire.IP: _to_ip,
    wire.PATTERN: _to_pattern,
    wire.ORDERED_DICT: _to_ordered_dict,
    wire.COUNTER: _to_counter,
    wire.DEFAULT_DICT: _to_default_dict,
    wire.DEQUE: _to_deque,
}
