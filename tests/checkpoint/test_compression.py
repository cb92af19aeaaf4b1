"""Compressed data takes no more memory than a saver's largest value, whatever it says of itself."""

from __future__ import annotations

import tracemalloc

import pytest
import zstandard

from threadmark.checkpoint.rows import MAX_VALUE_BYTES, RowCodec
from threadmark.checkpoint.serde.base import Row
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.errors import SerializationError

ROW = Row("value", "t", "", "", "c", "1")


def bomb(size: int) -> tuple[str, bytes]:
    return "bytes+zstd", zstandard.ZstdCompressor().compress(bytes(size))


def codec(max_value_bytes: int = MAX_VALUE_BYTES) -> RowCodec:
    return RowCodec(JsonPlusSerializer(), max_value_bytes, compress=True)


def test_a_bomb_is_refused_before_it_takes_memory() -> None:
    stored = bomb(200_000_000)
    assert len(stored[1]) < 50_000
    tracemalloc.start()
    try:
        with pytest.raises(SerializationError, match="max_value_bytes"):
            codec().loads(ROW, stored)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_saver_that_takes_larger_values_unpacks_larger_ones() -> None:
    stored = bomb(MAX_VALUE_BYTES + 1)
    assert len(codec(MAX_VALUE_BYTES + 1).loads(ROW, stored)) == MAX_VALUE_BYTES + 1
    with pytest.raises(SerializationError):
        codec().loads(ROW, stored)


def test_a_frame_that_lies_about_its_size_is_refused() -> None:
    honest = zstandard.ZstdCompressor().compress(bytes(100_000))
    nameless = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(100_000))
    assert zstandard.frame_content_size(honest) == 100_000
    at = honest.index((100_000).to_bytes(4, "little"))
    for size in (1, 99_999, 100_001, 2**31):
        lying = honest[:at] + size.to_bytes(4, "little") + honest[at + 4 :]
        with pytest.raises(SerializationError):
            codec().loads(ROW, ("bytes+zstd", lying))
    for damaged in (nameless, b"", honest[:-1]):
        with pytest.raises(SerializationError):
            codec().loads(ROW, ("bytes+zstd", damaged))


def test_what_could_not_be_unpacked_is_not_packed() -> None:
    items = ("msgpack", bytes(MAX_VALUE_BYTES + 1))
    assert codec().packed(items) == items
    tag, data = codec().packed(("msgpack", bytes(MAX_VALUE_BYTES)))
    assert tag == "msgpack+zstd"
    assert codec().plain((tag, data)) == ("msgpack", bytes(MAX_VALUE_BYTES))
