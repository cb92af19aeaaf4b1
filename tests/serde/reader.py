"""A reader of the format, written from docs/format.md alone. It shares no code with the serializer."""

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
from typing import Any, NamedTuple


class Class(NamedTuple):
    name: str


class Instance(NamedTuple):
    """An instance of a class, or a value of a library: code, class, and what follows it."""

    code: int
    name: str
    parts: list[Any]

    def __hash__(self) -> int:
        return hash((self.code, self.name))


class Raw(NamedTuple):
    """A NumPy array or scalar: its header, and the bytes behind it."""

    code: int
    header: list[Any]
    raw: bytes


MESSAGES = [
    "human:HumanMessage", "human:HumanMessageChunk", "ai:AIMessage", "ai:AIMessageChunk",
    "system:SystemMessage", "system:SystemMessageChunk", "tool:ToolMessage", "tool:ToolMessageChunk",
    "function:FunctionMessage", "function:FunctionMessageChunk", "chat:ChatMessage", "chat:ChatMessageChunk",
    "modifier:RemoveMessage",
]  # fmt: skip
BASE = ["content", "additional_kwargs", "response_metadata", "type", "name", "id"]
AI = ["tool_calls", "invalid_tool_calls", "usage_metadata"]
MORE = {
    2: AI, 3: [*AI, "tool_call_chunks", "chunk_position"], 6: ["tool_call_id", "artifact", "status"],
    7: ["tool_call_id", "artifact", "status"], 10: ["role"], 11: ["role"],
}  # fmt: skip


def read(tag: str, data: bytes) -> Any:
    if tag == "null":
        return None
    if tag in ("bytes", "bytearray"):
        return bytes(data) if tag == "bytes" else bytearray(data)
    assert tag == "msgpack"
    value, rest = message_pack(data)
    assert rest == b""
    return value


def message_pack(data: bytes) -> tuple[Any, bytes]:
    """Read one MessagePack value; return it, and the bytes behind it."""
    first, rest = data[0], data[1:]
    if first < 0x80:
        return first, rest
    if first >= 0xE0:
        return first - 0x100, rest
    if first < 0x90:
        return pairs(first & 15, rest)
    if first < 0xA0:
        return items(first & 15, rest)
    if first < 0xC0:
        return rest[: first & 31].decode(), rest[first & 31 :]
    if first in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[first], rest
    for heads, form in ((range(0xCC, 0xD0), "BHIQ"), (range(0xD0, 0xD4), "bhiq"), (range(0xCA, 0xCC), "fd")):
        if first in heads:
            shape = struct.Struct(">" + form[first - heads[0]])
            return shape.unpack(rest[: shape.size])[0], rest[shape.size :]
    if 0xD4 <= first <= 0xD8:
        return extension(1 << (first - 0xD4), rest)
    heads, width = next(
        (heads, 1 << heads.index(first) if len(heads) == 3 else 2 << heads.index(first))
        for heads in ((0xC4, 0xC5, 0xC6), (0xC7, 0xC8, 0xC9), (0xD9, 0xDA, 0xDB), (0xDC, 0xDD), (0xDE, 0xDF))
        if first in heads
    )
    length, rest = int.from_bytes(rest[:width], "big"), rest[width:]
    if heads[0] == 0xC4:
        return rest[:length], rest[length:]
    if heads[0] == 0xD9:
        return rest[:length].decode(), rest[length:]
    return {0xC7: extension, 0xDC: items, 0xDE: pairs}[heads[0]](length, rest)


def items(count: int, data: bytes) -> tuple[list[Any], bytes]:
    found = []
    for _ in range(count):
        item, data = message_pack(data)
        found.append(item)
    return found, data


def pairs(count: int, data: bytes) -> tuple[dict[Any, Any], bytes]:
    flat, data = items(2 * count, data)
    return unflat(flat), data


def unflat(flat: list[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def extension(length: int, data: bytes) -> tuple[Any, bytes]:
    code, content, rest = data[0], data[1 : 1 + length], data[1 + length :]
    return READERS[code](content), rest


def one(content: bytes) -> Any:
    value, rest = message_pack(content)
    assert rest == b""
    return value


def zone(content: bytes) -> Any:
    return one(content) if content else None


def read_datetime(content: bytes) -> dt.datetime:
    year, month, day, hour, minute, second, fold, micro = struct.unpack(">H6BI", content[:12])
    return dt.datetime(year, month, day, hour, minute, second, micro, zone(content[12:]), fold=fold)


def read_time(content: bytes) -> dt.time:
    hour, minute, second, fold, micro = struct.unpack(">4BI", content[:8])
    return dt.time(hour, minute, second, micro, zone(content[8:]), fold=fold)


def read_timezone(content: bytes) -> dt.timezone:
    parts = one(content)
    return dt.timezone(dt.timedelta(*parts[:3]), *parts[3:])


def read_message(content: bytes) -> Instance:
    kind, given, text, identity, *others = one(content)
    names = BASE + MORE.get(kind, [])
    fields = {"content": text, "id": identity}
    fields.update((names[place], value) for place, value in unflat(others).items())
    bits = {name for place, name in enumerate(names) if given >> place & 1}
    return Instance(52, f"langchain_core.messages.{MESSAGES[kind]}", [fields, bits])


def instance(code: int) -> Any:
    def read_instance(content: bytes) -> Instance:
        name, *parts = one(content)
        return Instance(code, name, parts)

    return read_instance


def array(code: int) -> Any:
    def read_array(content: bytes) -> Raw:
        header, raw = message_pack(content)
        return Raw(code, header, raw)

    return read_array


def factory(content: bytes) -> Instance:
    made_by, flat = one(content)
    return Instance(41, "collections:defaultdict", [made_by, unflat(flat)])


READERS: dict[int, Any] = {
    16: lambda content: content.decode("utf-8", "surrogatepass"),
    17: lambda content: int.from_bytes(content, "big", signed=True),
    18: lambda content: tuple(one(content)),
    19: lambda content: set(one(content)),
    20: lambda content: frozenset(one(content)),
    21: lambda content: unflat(one(content)),
    22: bytearray,
    23: read_datetime,
    24: lambda content: dt.date(*struct.unpack(">HBB", content)),
    25: read_time,
    26: lambda content: dt.timedelta(*one(content)),
    27: read_timezone,
    28: lambda content: zoneinfo.ZoneInfo(content.decode()),
    29: lambda content: decimal.Decimal(content.decode()),
    30: lambda content: fractions.Fraction(*one(content)),
    31: lambda content: complex(*struct.unpack(">dd", content)),
    32: lambda content: range(*one(content)),
    33: lambda content: uuid.UUID(bytes=content),
    34: lambda content: getattr(pathlib, one(content)[0])(one(content)[1]),
    35: lambda content: getattr(ipaddress, one(content)[0])(one(content)[1]),
    36: lambda content: re.compile(*one(content)),
    37: lambda content: slice(*one(content)),
    38: lambda content: {b"Ellipsis": ..., b"NotImplemented": NotImplemented}[content],
    39: lambda content: collections.OrderedDict(unflat(one(content))),
    40: lambda content: collections.Counter(unflat(one(content))),
    41: factory,
    42: lambda content: collections.deque(one(content)[1], one(content)[0]),
    43: lambda content: Class(content.decode()),
    **{code: instance(code) for code in range(44, 50)},
    50: array(50),
    51: array(51),
    52: read_message,
}
