"""Dates, times, durations and time zones of the standard library, as extensions."""

from __future__ import annotations

import datetime as dt
import re
import struct
import zoneinfo
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Decoder, Encoder, Level
from threadmark.errors import SerializationError

__all__ = ["DECODERS", "ENCODERS", "datetime_parts", "time_parts"]

_ZONE = re.compile(r"[\w+-]+(/[\w+-]+)*", re.ASCII)
_DATETIME = struct.Struct(">HBBBBBBI")
_DATE = struct.Struct(">HBB")
_TIME = struct.Struct(">BBBBI")


def datetime_parts(value: dt.datetime) -> tuple[int, ...]:
    """Return year, month, day, hour, minute, second, fold, microsecond."""
    return (
        value.year, value.month, value.day,
        value.hour, value.minute, value.second, value.fold, value.microsecond,
    )  # fmt: skip


def time_parts(value: dt.time) -> tuple[int, ...]:
    """Return hour, minute, second, fold, microsecond."""
    return value.hour, value.minute, value.second, value.fold, value.microsecond


def _encode_datetime(value: dt.datetime, level: Level) -> Ext:
    fixed = _DATETIME.pack(*datetime_parts(value))
    zone = value.tzinfo
    return Ext(wire.DATETIME, fixed if zone is None else fixed + level.pack(zone))


def _decode_datetime(data: bytes, level: Level) -> dt.datetime:
    year, month, day, hour, minute, second, fold, micro = _DATETIME.unpack_from(data)
    zone = _zone(data[_DATETIME.size :], level)
    return dt.datetime(year, month, day, hour, minute, second, micro, zone, fold=fold)


def _zone(data: bytes, level: Level) -> Any:
    return level.unpack(data) if data else None


def _encode_date(value: dt.date, level: Level) -> Ext:
    return Ext(wire.DATE, _DATE.pack(value.year, value.month, value.day))


def _decode_date(data: bytes, level: Level) -> dt.date:
    return dt.date(*_DATE.unpack(data))


def _encode_time(value: dt.time, level: Level) -> Ext:
    fixed = _TIME.pack(*time_parts(value))
    zone = value.tzinfo
    return Ext(wire.TIME, fixed if zone is None else fixed + level.pack(zone))


def _decode_time(data: bytes, level: Level) -> dt.time:
    hour, minute, second, fold, micro = _TIME.unpack_from(data)
    return dt.time(hour, minute, second, micro, _zone(data[_TIME.size :], level), fold=fold)


def _encode_timedelta(value: dt.timedelta, level: Level) -> Ext:
    return Ext(wire.TIMEDELTA, level.pack([value.days, value.seconds, value.microseconds]))


def _decode_timedelta(data: bytes, level: Level) -> dt.timedelta:
    days, seconds, micros = level.unpack(data)
    return dt.timedelta(days, seconds, micros)


def _encode_timezone(value: dt.timezone, level: Level) -> Ext:
    # A name that was given is part of the value, one that was derived from the offset is not; only
    # the pickle protocol tells them apart.
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
    parts = [offset.days, offset.seconds, offset.microseconds, *name]
    return Ext(wire.TIMEZONE, level.pack(parts))


def _decode_timezone(data: bytes, level: Level) -> dt.timezone:
    days, seconds, micros, *name = level.unpack(data)
    return dt.timezone(dt.timedelta(days, seconds, micros), *name)


def _encode_zone(value: zoneinfo.ZoneInfo, level: Level) -> Ext:
    if value.key is None:
        raise SerializationError(
            "A ZoneInfo that was read from a file has no name to store. Use ZoneInfo(key)"
        )
    return Ext(wire.ZONE, value.key.encode())


def _decode_zone(data: bytes, level: Level) -> zoneinfo.ZoneInfo:
    key = data.decode()
    if not _ZONE.fullmatch(key):
        raise SerializationError(f"{key[:40]!r} is not the name of a time zone")
    try:
        # Where the system has no time zones, this reads a data file of the package tzdata.
        return zoneinfo.ZoneInfo(key)
    except zoneinfo.ZoneInfoNotFoundError:
        raise SerializationError(
            f"The time zone {key!r} is not known on this machine. Install the package tzdata"
        ) from None


ENCODERS: dict[type, Encoder] = {
    dt.datetime: _encode_datetime,
    dt.date: _encode_date,
    dt.time: _encode_time,
    dt.timedelta: _encode_timedelta,
    dt.timezone: _encode_timezone,
    zoneinfo.ZoneInfo: _encode_zone,
}

DECODERS: dict[int, Decoder] = {
    wire.DATETIME: _decode_datetime,
    wire.DATE: _decode_date,
    wire.TIME: _decode_time,
    wire.TIMEDELTA: _decode_timedelta,
    wire.TIMEZONE: _decode_timezone,
    wire.ZONE: _decode_zone,
}
