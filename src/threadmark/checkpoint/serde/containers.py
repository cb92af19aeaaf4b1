"""Containers that MessagePack would flatten to lists and maps, as extensions."""

from __future__ import annotations

import collections
from collections.abc import Collection, Hashable
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Decoder, Encoder, Level
from threadmark.checkpoint.serde.plain import flat
from threadmark.errors import SerializationError

__all__ = ["DECODERS", "ENCODERS", "check_hashes", "pairs"]

_MANY = 64
_PER_HASH = 8


def check_hashes(items: Collection[Hashable]) -> None:
    """Refuse keys or members of which very many share a hash: building the container would take for ever.

    Raises:
        SerializationError: More than eight share a hash on average.
    """
    if len(items) > _MANY and len(set(map(hash, items))) * _PER_HASH < len(items):
        raise SerializationError(
            f"{len(items)} keys or members of a set share a few hashes. Store them in a list"
        )


def pairs(items: list[Any]) -> zip[tuple[Any, Any]]:
    """Return the pairs of `[key, value, key, value, ...]`.

    Raises:
        SerializationError: See `check_hashes`.
    """
    if len(items) > _MANY:
        check_hashes(items[::2])
    half = iter(items)
    return zip(half, half, strict=True)


def _encode_tuple(value: tuple[Any, ...], level: Level) -> Ext:
    return Ext(wire.TUPLE, level.pack(list(value)))


def _decode_tuple(data: bytes, level: Level) -> tuple[Any, ...]:
    return tuple(level.unpack(data))


def _sorted(value: Collection[Any], level: Level) -> bytes:
    """Encode members in the order of their encodings, so that equal sets have equal bytes."""
    check_hashes(value)
    return wire.array(sorted(map(level.pack, value)))


def _encode_set(value: set[Any], level: Level) -> Ext:
    return Ext(wire.SET, _sorted(value, level))


def _encode_frozenset(value: frozenset[Any], level: Level) -> Ext:
    return Ext(wire.FROZENSET, _sorted(value, level))


def _decode_set(data: bytes, level: Level) -> set[Any]:
    items = level.unpack(data)
    check_hashes(items)
    return set(items)


def _decode_frozenset(data: bytes, level: Level) -> frozenset[Any]:
    items = level.unpack(data)
    check_hashes(items)
    return frozenset(items)


def _decode_map(data: bytes, level: Level) -> dict[Any, Any]:
    return dict(pairs(level.unpack(data)))


def _encode_ordered_dict(value: collections.OrderedDict[Any, Any], level: Level) -> Ext:
    return Ext(wire.ORDERED_DICT, level.pack(flat(value)))


def _decode_ordered_dict(data: bytes, level: Level) -> collections.OrderedDict[Any, Any]:
    return collections.OrderedDict(pairs(level.unpack(data)))


def _encode_counter(value: collections.Counter[Any], level: Level) -> Ext:
    return Ext(wire.COUNTER, level.pack(flat(value)))


def _decode_counter(data: bytes, level: Level) -> collections.Counter[Any]:
    return collections.Counter(dict(pairs(level.unpack(data))))


def _encode_default_dict(value: collections.defaultdict[Any, Any], level: Level) -> Ext:
    return Ext(wire.DEFAULT_DICT, level.pack([value.default_factory, flat(value)]))


def _decode_default_dict(data: bytes, level: Level) -> collections.defaultdict[Any, Any]:
    factory, items = level.unpack(data)
    return collections.defaultdict(factory, pairs(items))


def _encode_deque(value: collections.deque[Any], level: Level) -> Ext:
    return Ext(wire.DEQUE, level.pack([value.maxlen, list(value)]))


def _decode_deque(data: bytes, level: Level) -> collections.deque[Any]:
    maxlen, items = level.unpack(data)
    return collections.deque(items, maxlen)


ENCODERS: dict[type, Encoder] = {
    tuple: _encode_tuple,
    set: _encode_set,
    frozenset: _encode_frozenset,
    collections.OrderedDict: _encode_ordered_dict,
    collections.Counter: _encode_counter,
    collections.defaultdict: _encode_default_dict,
    collections.deque: _encode_deque,
}

DECODERS: dict[int, Decoder] = {
    wire.TUPLE: _decode_tuple,
    wire.SET: _decode_set,
    wire.FROZENSET: _decode_frozenset,
    wire.MAP: _decode_map,
    wire.ORDERED_DICT: _decode_ordered_dict,
    wire.COUNTER: _decode_counter,
    wire.DEFAULT_DICT: _decode_default_dict,
    wire.DEQUE: _decode_deque,
}
