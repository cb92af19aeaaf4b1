"""The serializer that savers and stores use unless told otherwise.

Plain values are plain MessagePack; everything else is an extension (see `wire` and
`docs/format.md`). Reading builds known types only and never imports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.checkpoint.serde.classes import class_decoders, find_encoder
from threadmark.checkpoint.serde.codec import Codec
from threadmark.checkpoint.serde.known import KnownTypes
from threadmark.checkpoint.serde.values import DECODERS, ENCODERS
from threadmark.errors import SerializationError

__all__ = ["JsonPlusSerializer"]


class JsonPlusSerializer:
    """Turns values into MessagePack and back, and refuses what would not come back as it was."""

    def __init__(self, *, _known: KnownTypes | None = None) -> None:
        self._use(KnownTypes() if _known is None else _known)

    def _use(self, known: KnownTypes) -> None:
        self._known = known
        codec = Codec(ENCODERS, DECODERS | class_decoders(known), lambda cls: find_encoder(cls, known))
        self._pack = codec.pack
        self._unpack = codec.unpack

    def allow(self, new: type | str, *, was: str | None = None) -> JsonPlusSerializer:
        """Make a class known, given as itself or as `"package.module:Name"`, and return the serializer.

        Args:
            new: The class. A name is imported now; reading never imports.
            was: The name that the class had when older data was written.
        """
        known = self._known.with_types(())
        known.allow(new, was)
        self._use(known)
        return self

    def with_types(self, types: Iterable[type]) -> JsonPlusSerializer:
        """Return a copy that knows some more classes. The original does not change."""
        return JsonPlusSerializer(_known=self._known.with_types(types))

    def dumps_typed(self, obj: Any) -> Encoded:
        """Encode a value.

        Raises:
            SerializationError: It cannot be kept.
        """
        if obj is None:
            return "null", b""
        cls = type(obj)
        if cls is bytes:
            return "bytes", obj
        if cls is bytearray:
            return "bytearray", bytes(obj)
        return "msgpack", self._pack(obj)

    def loads_typed(self, data: Encoded) -> Any:
        """Decode what `dumps_typed` returned.

        Raises:
            SerializationError: The bytes are not a value of a known type.
        """
        tag, content = data
        if tag == "msgpack":
            return self._unpack(content)
        if tag == "null":
            return None
        if tag == "bytes":
            return bytes(content)
        if tag == "bytearray":
            return bytearray(content)
        raise SerializationError(f"No value can be read from data with the tag {tag!r}")

    def dumps_items(self, items: list[Any]) -> list[bytes] | None:
        """Encode each item of a list on its own.

        Raises:
            SerializationError: An item cannot be kept.
        """
        return [self._pack(item) for item in items]

    def seal(self, row: Row, data: Encoded) -> Encoded:
        """Return the data: this serializer does not encrypt."""
        return data

    def open(self, row: Row, data: Encoded) -> Encoded:
        """Return the data: this serializer does not encrypt."""
        return data
