"""Encryption around another serializer, bound to the row that the data is stored in.

A saver that knows rows encodes with `inner` and passes the result through `seal`; what it reads goes
through `open` first. Data that was moved to another row, changed, or never encrypted is refused. For a
saver that knows only `dumps_typed` and `loads_typed`, these encrypt too, bound to no row.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Self, cast

from threadmark._checks import flag, serializer, wrong
from threadmark.checkpoint.serde.aes import AesGcm
from threadmark.checkpoint.serde.base import CipherProtocol, Encoded, Row, SerializerProtocol
from threadmark.checkpoint.serde.foreign import ForeignCipher
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.keys import Keys, KeySource, key_from_environment
from threadmark.errors import EncryptionError

__all__ = ["EncryptedSerializer", "Keys"]


class EncryptedSerializer:
    """Encrypts what another serializer makes.

    Args:
        cipher: A cipher of your own, or keys for AES-GCM: a key, `Keys`, or a function that returns
            either for a thread's id.
        serde: The serializer inside. The default is `JsonPlusSerializer()`.
        searchable: The keys of metadata that may be stored in clear, to be searched for. After a
            change, call the saver's `rotate`: threads from before are not found by a new key until then.
        accept_plaintext: Also read data that is not encrypted. Open this window only while old data
            is being encrypted: while it is open, whoever can write to the storage can forge data.

    Attributes:
        inner: The serializer inside.
        seals: Always true: rows must be sealed and opened.

    Raises:
        MissingDependencyError: The package cryptography is not installed.
        InvalidArgumentError: A key has the wrong length.
    """

    seals = True

    def __init__(
        self,
        cipher: CipherProtocol | KeySource,
        serde: SerializerProtocol | None = None,
        *,
        searchable: Iterable[str] = (),
        accept_plaintext: bool = False,
    ) -> None:
        if not isinstance(searchable, Iterable) or isinstance(searchable, str | bytes | Mapping):
            raise wrong("searchable", searchable, "a list of keys of metadata")
        searchable = list(searchable)
        if not all(isinstance(key, str) for key in searchable):
            raise wrong("searchable", searchable, "a list of keys of metadata")
        flag("accept_plaintext", accept_plaintext)
        serializer("serde", serde)
        self._cipher: Any = (
            ForeignCipher(cast(CipherProtocol, cipher)) if hasattr(cipher, "decrypt") else AesGcm(cipher)
        )
        self.inner: Any = JsonPlusSerializer() if serde is None else serde
        self.searchable = frozenset(searchable)
        self.accept_plaintext = accept_plaintext

    @classmethod
    def from_pycryptodome_aes(
        cls,
        serde: SerializerProtocol | None = None,
        *,
        key: KeySource | None = None,
        searchable: Iterable[str] = (),
        accept_plaintext: bool = False,
    ) -> Self:
        """Return a serializer that encrypts with AES-GCM. The name is the one that users know.

        Args:
            serde: The serializer inside.
            key: See `cipher` of the class. The default is the environment variable
                `THREADMARK_AES_KEY`, then `LANGGRAPH_AES_KEY`.
            searchable: See the class.
            accept_plaintext: See the class.

        Raises:
            MissingDependencyError: The package cryptography is not installed.
            InvalidArgumentError: There is no key, or it has the wrong length.
        """
        source = key_from_environment() if key is None else key
        return cls(source, serde, searchable=searchable, accept_plaintext=accept_plaintext)

    def with_types(self, types: Iterable[type]) -> EncryptedSerializer:
        """Return a copy whose inner serializer knows more classes. The original does not change."""
        twin = copy.copy(self)
        derive = getattr(self.inner, "with_types", None)
        twin.inner = self.inner if derive is None else derive(types)
        return twin

    def allow(self, new: type | str, *, was: str | None = None) -> EncryptedSerializer:
        """Make a class known to the inner serializer, and return the serializer.

        Args:
            new: See `JsonPlusSerializer.allow`.
            was: See `JsonPlusSerializer.allow`.
        """
        self.inner.allow(new, was=was)
        return self

    def dumps_typed(self, obj: Any) -> Encoded:
        """Encode and encrypt a value, bound to no row.

        Raises:
            SerializationError: It cannot be kept.
        """
        return self._seal(None, self.inner.dumps_typed(obj))

    def loads_typed(self, data: Encoded) -> Any:
        """Decrypt and decode what `dumps_typed` returned.

        Raises:
            EncryptionError: The data was changed, or encrypted with another key, or not at all.
            SerializationError: What was encrypted is not a value of a known type.
        """
        return self.inner.loads_typed(self._open(None, data))

    def dumps_items(self, items: list[Any]) -> list[bytes] | None:
        """Encode each item of a list on its own. The result is not encrypted; `seal` does that."""
        split = getattr(self.inner, "dumps_items", None)
        return None if split is None else split(items)

    def seal(self, row: Row, data: Encoded) -> Encoded:
        """Encrypt what the inner serializer made, for one row.

        Raises:
            EncryptionError: There is no key for the row's thread.
        """
        return self._seal(row, data)

    def open(self, row: Row, data: Encoded) -> Encoded:
        """Undo `seal`.

        Raises:
            EncryptionError: The data was sealed for another row or with another key, was changed, or
                is not encrypted.
        """
        return self._open(row, data)

    def reseal(self, row: Row, data: Encoded) -> Encoded | None:
        """Encrypt a row's data with the current key, to rotate keys or to begin to encrypt.

        Returns:
            The data to store in place of the old, or `None` when the current key is used already.

        Raises:
            EncryptionError: See `open`.
        """
        if self._cipher.reads(data[0]) and self._cipher.is_current(row, data):
            return None
        return self._seal(row, self._open(row, data))

    def _seal(self, row: Row | None, data: Encoded) -> Encoded:
        tag = data[0].encode()
        return self._cipher.seal(row, bytes((len(tag),)) + tag + data[1])  # type: ignore[no-any-return]

    def _open(self, row: Row | None, data: Encoded) -> Encoded:
        if not self._cipher.reads(data[0]):
            if self.accept_plaintext:
                return data
            raise EncryptionError(
                f"Data with the tag {data[0]!r} is not encrypted, or with another cipher. If it is older "
                f"than the encryption, open a window with accept_plaintext=True and encrypt it with rotate"
            )
        opened = self._cipher.open(row, data)
        length = opened[0]
        return opened[1 : 1 + length].decode(), opened[1 + length :]
