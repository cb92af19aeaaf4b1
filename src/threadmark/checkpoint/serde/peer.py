"""Reads what LangGraph's serializer wrote, under the same rule: known types only.

Its extensions name a module, a class and arguments. Here the names are looked up in a fixed table of the
standard library, and among the known classes; nothing is imported, and of known classes only Pydantic's
validators run, because nested models were written as plain dicts. What its format flattened when it was
written (tuples, subclasses, nested enums) stays flat.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import ipaddress
import json
import pathlib
import re
import sys
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, NamedTuple

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.arrays import array_of
from threadmark.checkpoint.serde.classes import kind_of
from threadmark.checkpoint.serde.codec import Decoder, Level
from threadmark.checkpoint.serde.containers import check_hashes
from threadmark.checkpoint.serde.known import KnownTypes
from threadmark.checkpoint.serde.members import named_tuple_from_fields
from threadmark.checkpoint.serde.models import model_from_fields
from threadmark.checkpoint.serde.records import record_from_fields
from threadmark.errors import SerializationError, UnknownTypeError

__all__ = ["DECODERS", "DeltaSnapshot", "plain_json"]


class DeltaSnapshot(NamedTuple):
    """A whole value that the peer stored among the changes of a delta channel."""

    value: Any


def _set(items: list[Any]) -> set[Any]:
    # Members that were tuples were written as lists.
    members = [tuple(item) if type(item) is list else item for item in items]
    check_hashes(members)
    return set(members)


_OF_ONE: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("builtins", "set"): _set,
    ("builtins", "frozenset"): lambda items: frozenset(_set(items)),
    ("collections", "deque"): collections.deque,
    ("datetime", "datetime"): dt.datetime.fromisoformat,
    ("decimal", "Decimal"): decimal.Decimal,
    ("uuid", "UUID"): uuid.UUID,
    ("zoneinfo", "ZoneInfo"): zoneinfo.ZoneInfo,
    **{
        ("ipaddress", cls.__name__): cls
        for cls in (
            ipaddress.IPv4Address,
            ipaddress.IPv6Address,
            ipaddress.IPv4Network,
            ipaddress.IPv6Network,
            ipaddress.IPv4Interface,
            ipaddress.IPv6Interface,
        )
    },
}
_OF_SOME: dict[tuple[str, str], Callable[..., Any]] = {
    ("datetime", "date"): dt.date,
    ("datetime", "timedelta"): dt.timedelta,
    ("datetime", "timezone"): dt.timezone,
    ("re", "compile"): re.compile,
    **{
        ("pathlib", cls.__name__): cls
        for cls in (
            pathlib.Path,
            pathlib.PosixPath,
            pathlib.WindowsPath,
            pathlib.PurePath,
            pathlib.PurePosixPath,
            pathlib.PureWindowsPath,
        )
    },
}
_OURS = {"langgraph.store.base": "threadmark.store.items"}
"""Where a class of the peer has another module here than its namesake."""


def _find(known: KnownTypes, module: str, name: str) -> Any:
    """Return the known class that the peer wrote as a module and a class's bare name."""
    if module.startswith("langgraph."):
        module = _OURS.get(module, "threadmark." + module.removeprefix("langgraph."))
    exact = known.get(f"{module}:{name}")
    if exact is not None:
        return exact
    found = {cls for cls in known.named(module) if cls.__name__ == name}
    if len(found) == 1:
        return found.pop()
    if found:
        raise SerializationError(f"{module} has several classes named {name}; the data does not say which")
    raise UnknownTypeError(f"{module}:{name}")


def _decode_one(data: bytes, level: Level) -> Any:
    module, name, arg, *_ = level.unpack(data)
    build = _OF_ONE.get((module, name))
    if build is not None:
        return build(arg)
    cls = _find(level.codec.known, module, name)
    if issubclass(cls, enum.Enum):
        return cls(arg)
    if cls.__module__ == "pydantic.types":
        return record_from_fields(cls, {"_secret_value": arg})
    raise SerializationError(f"{module}:{name} is not a class that the peer writes by one argument")


def _decode_some(data: bytes, level: Level) -> Any:
    module, name, args, *_ = level.unpack(data)
    build = _OF_SOME.get((module, name))
    if build is not None:
        return build(*args)
    cls = _find(level.codec.known, module, name)
    if cls.__module__ == "threadmark.types":
        return cls(*args)
    raise SerializationError(f"{module}:{name} is not a class that the peer writes by its arguments")


def _decode_fields(data: bytes, level: Level) -> Any:
    module, name, fields, *_ = level.unpack(data)
    if (module, name) == ("datetime", "time"):
        return dt.time(**fields)
    cls = _find(level.codec.known, module, name)
    if type(fields) is not dict:
        raise SerializationError(f"The fields of {module}:{name} are not a dict")
    if cls.__module__ == "threadmark.store.items":
        return cls(**fields)
    kind = kind_of(cls)
    if kind == wire.MODEL:
        return model_from_fields(cls, fields)
    if kind == wire.NAMED_TUPLE:
        return named_tuple_from_fields(cls, fields)
    if hasattr(cls, "__fields_set__"):
        # A model of Pydantic's first version, which was not validated when it was written either.
        return cls.construct(**fields)
    if kind == wire.RECORD:
        return record_from_fields(cls, fields)
    raise SerializationError(f"{module}:{name} is not a class that the peer writes by its fields")


def _decode_array(data: bytes, level: Level) -> Any:
    np = sys.modules.get("numpy")
    if np is None:
        raise UnknownTypeError("numpy:ndarray")
    dtype, shape, order, raw = level.unpack(data)
    return array_of(np, dtype, shape, order, raw)


def _decode_snapshot(data: bytes, level: Level) -> DeltaSnapshot:
    return DeltaSnapshot(level.unpack(data))


def plain_json(data: bytes) -> Any:
    """Return the plain data of the peer's old JSON form; what it says about classes stays data.

    Raises:
        SerializationError: It is not JSON.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SerializationError(f"The bytes are not JSON: {error}") from None


DECODERS: dict[int, Decoder] = {
    0: _decode_one,
    1: _decode_some,
    2: _decode_fields,
    3: _decode_one,
    4: _decode_fields,
    5: _decode_fields,
    6: _decode_array,
    7: _decode_snapshot,
}
