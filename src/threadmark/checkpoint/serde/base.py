"""The serializer contract: what a saver asks of whatever turns values into bytes.

`SerializerProtocol` is the part that users know and may implement themselves. `RowSerializer` adds
what our own savers use when a serializer offers it: encoding of list items one by one, and sealing of
a row. `Row` says which stored row some bytes belong to. Nothing here knows a concrete format.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

__all__ = ["CipherProtocol", "Encoded", "Row", "RowSerializer", "SerializerProtocol"]

Encoded: TypeAlias = tuple[str, bytes]
"""A type tag and the bytes that it describes."""


class Row(NamedTuple):
    """The identity of a stored row; encryption authenticates it."""

    kind: Literal["checkpoint", "metadata", "value", "log", "write", "thread", "cache", "item"]
    thread_id: str = ""
    checkpoint_ns: str = ""
    checkpoint_id: str = ""
    channel: str = ""
    version: str = ""


@runtime_checkable
class SerializerProtocol(Protocol):
    """Turns a value into a type tag and bytes, and back."""

    def dumps_typed(self, obj: Any) -> Encoded:
        """Encode `obj`.

        Raises:
            SerializationError: The value cannot be stored.
        """
        ...

    def loads_typed(self, data: Encoded) -> Any:
        """Decode what `dumps_typed` returned.

        Raises:
            SerializationError: The bytes are not a value of a known type.
        """
        ...


@runtime_checkable
class RowSerializer(SerializerProtocol, Protocol):
    """A serializer that can split lists and seal rows. Our own serializers are of this kind.

    A serializer that encrypts has `seals = True`, the serializer inside as `inner`, and the keys of
    metadata that may be stored in clear as `searchable`. A saver encodes with `inner` and seals the
    result: `seal(row, inner.dumps_typed(value))`, `inner.loads_typed(open(row, data))`. It seals every
    row, also those that hold nothing, or they could be forged.

    Attributes:
        seals: Whether `seal` does anything.
    """

    seals: bool

    def dumps_items(self, items: list[Any]) -> list[bytes] | None:
        """Encode each item of a list on its own, so that a MessagePack array header followed by the
        concatenated items is the encoding of the list. `None`: this list cannot be split (for example
        because an item needs the pickle fallback), store it whole.
        """
        ...

    def seal(self, row: Row, data: Encoded) -> Encoded:
        """Protect encoded data for one row. The identity for serializers that do not encrypt."""
        ...

    def open(self, row: Row, data: Encoded) -> Encoded:
        """Undo `seal`.

        Raises:
            EncryptionError: The data was not sealed for this row, or not at all.
        """
        ...


class CipherProtocol(Protocol):
    """A cipher that users may bring along."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the cipher's name and the ciphertext."""
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return the plaintext."""
        ...
