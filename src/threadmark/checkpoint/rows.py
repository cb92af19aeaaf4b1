"""Turns values into the rows that a saver stores and back: encoded, compressed, measured, sealed.

A `RowCodec` puts a serializer together with a saver's options, in one order for every backend. It says
where a value belongs when it cannot be stored. It knows rows by their identity only, not where they go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ormsgpack

from threadmark.checkpoint.lists import joined
from threadmark.checkpoint.serde.base import Encoded, Row, SerializerProtocol
from threadmark.errors import MissingDependencyError, SerializationError, ValueTooLargeError

__all__ = ["MAX_VALUE_BYTES", "RowCodec", "parts", "value_row", "write_row"]

MAX_VALUE_BYTES = 16_000_000
"""The largest encoded value that a saver takes, unless it is told otherwise."""

_ZSTD = "+zstd"
_WORTH_COMPRESSING = 256
_REFUSALS = (TypeError, ValueError, OverflowError, RecursionError)


def value_row(thread_id: str, ns: str, channel: str, version: Any) -> Row:
    """Return the identity of a channel's value."""
    return Row("value", thread_id, ns, "", channel, str(version))


def write_row(address: tuple[str, str, str], channel: str, task_id: str, index: int) -> Row:
    """Return the identity of a write of a task that ran from the checkpoint at `address`."""
    return Row("write", *address, channel, f"{task_id}:{index}")


def parts(data: Encoded) -> Any:
    """Return what we packed ourselves, without the serializer; `None` if it is nothing of that kind."""
    tag, content = data
    if tag != "msgpack":
        return None
    try:
        return ormsgpack.unpackb(content)
    except ValueError:
        return None


class RowCodec:
    """How one saver stores values.

    Args:
        serde: The serializer.
        max_value_bytes: The largest encoded value.
        compress: Whether values that become smaller by it are compressed with zstd.

    Attributes:
        seals: Whether rows are sealed. What `dumps` returns is not sealed yet.
        searchable: The keys of metadata that may stand in clear where rows are sealed.
        largest_packed: How large compressed data may become. What is larger is not compressed.
    """

    __slots__ = (
        "compress",
        "inner",
        "largest_packed",
        "max_value_bytes",
        "open",
        "seal",
        "seals",
        "searchable",
        "serde",
        "split",
    )

    def __init__(
        self,
        serde: SerializerProtocol,
        max_value_bytes: int = MAX_VALUE_BYTES,
        compress: bool = False,
    ) -> None:
        self.serde = serde
        self.max_value_bytes = max_value_bytes
        self.largest_packed = max(max_value_bytes, MAX_VALUE_BYTES)
        self.compress: Callable[[bytes], bytes] | None = _compressor() if compress else None
        self.split: Callable[[list[Any]], list[bytes] | None] = getattr(serde, "dumps_items", _whole)
        self.seals: bool = getattr(serde, "seals", False)
        self.inner: SerializerProtocol = getattr(serde, "inner", serde) if self.seals else serde
        self.seal: Callable[[Row, Encoded], Encoded] = getattr(serde, "seal", _same)
        self.open: Callable[[Row, Encoded], Encoded] = getattr(serde, "open", _same)
        self.searchable: frozenset[str] = getattr(serde, "searchable", frozenset())

    def dumps(self, value: Any, channel: str, node: str | None = None) -> Encoded:
        """Encode a value that is going to be stored in one row.

        Raises:
            SerializationError: It cannot be kept; the error names channel and node.
            ValueTooLargeError: It is over the limit.
        """
        try:
            tag, data = self.inner.dumps_typed(value)
        except SerializationError as error:
            raise error.at(channel=channel, node=node)
        except _REFUSALS as error:
            raise SerializationError(str(error), channel=channel, node=node) from error
        if len(data) > self.max_value_bytes:
            raise ValueTooLargeError(channel, len(data), self.max_value_bytes)
        return (tag, data) if self.compress is None else self.packed((tag, data))

    def dumps_items(self, items: list[Any], channel: str) -> list[bytes] | None:
        """Encode the items of a list one by one; `None` if this list must be stored whole.

        Raises:
            SerializationError: An item cannot be kept.
            ValueTooLargeError: An item is over the limit.
        """
        try:
            encoded = self.split(items)
        except SerializationError as error:
            raise error.at(channel=channel)
        if encoded and max(map(len, encoded)) > self.max_value_bytes:
            raise ValueTooLargeError(channel, max(map(len, encoded)), self.max_value_bytes)
        return encoded

    def packed(self, data: Encoded) -> Encoded:
        """Return encoded data compressed, if that is asked for and worth it."""
        tag, content = data
        if self.compress is None or not _WORTH_COMPRESSING <= len(content) <= self.largest_packed:
            return data
        smaller = self.compress(content)
        return (tag + _ZSTD, smaller) if len(smaller) < len(content) else data

    def loads(self, row: Row, data: Encoded) -> Any:
        """Decode the data of a row.

        Raises:
            SerializationError: It is not a value of a known type, or not of this row.
        """
        try:
            return self.inner.loads_typed(self.opened(row, data))
        except SerializationError as error:
            raise error.at(channel=row.channel or None)

    def loads_items(self, items: list[bytes], channel: str) -> list[Any]:
        """Decode items of a list that were encoded one by one.

        Raises:
            SerializationError: They are not values of known types.
        """
        try:
            values: list[Any] = self.inner.loads_typed(("msgpack", joined(items)))
        except SerializationError as error:
            raise error.at(channel=channel)
        if not isinstance(values, list) or len(values) != len(items):
            raise SerializationError("The stored items do not make up a list", channel=channel)
        return values

    def sealed(self, row: Row, data: Encoded) -> Encoded:
        """Return data protected for its row, if the serializer encrypts."""
        return self.seal(row, data) if self.seals else data

    def opened(self, row: Row, data: Encoded) -> Encoded:
        """Return the data of a row as the serializer made it."""
        return self.plain(self.open(row, data) if self.seals else data)

    def plain(self, data: Encoded) -> Encoded:
        """Return data that is not sealed as the serializer made it."""
        tag, content = data
        if tag.endswith(_ZSTD):
            return tag.removesuffix(_ZSTD), _decompressed(content, self.largest_packed)
        return data


def _whole(items: list[Any]) -> None:
    """Stand in for a serializer that cannot split lists."""


def _same(row: Row, data: Encoded) -> Encoded:
    return data


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingDependencyError(
            "Compressed values need the package zstandard. Install threadmark[compression]."
        ) from error
    return zstandard


def _compressor() -> Callable[[bytes], bytes]:
    zstandard = _zstandard()

    def compress(data: bytes) -> bytes:
        # A compressor must not be used by two threads at once, and making one is cheap.
        compressed: bytes = zstandard.ZstdCompressor().compress(data)
        return compressed

    return compress


def _decompressed(data: bytes, largest: int) -> bytes:
    zstandard = _zstandard()
    try:
        size = zstandard.frame_content_size(data)
        if size < 0:
            raise SerializationError("Compressed data does not say how large it is")
        if size > largest:
            raise SerializationError(
                f"Compressed data says that it is {size:,} bytes, and {largest:,} are the most that is "
                f"unpacked. If it is to be trusted, raise the saver's max_value_bytes"
            )
        content: bytes = zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise SerializationError(f"Compressed data is damaged: {error}") from error
    return content
