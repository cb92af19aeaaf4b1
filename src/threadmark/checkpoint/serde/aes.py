"""AES in Galois/counter mode, bound to a row, with a key of its own for every thread.

The envelope names the key; the row's identity and the envelope are authenticated with the data. Each
thread's key is derived from the given one, so that the number of rows that one key may safely encrypt
(2**32 with random nonces) counts per thread. Needs the extra `crypto`.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.checkpoint.serde.keys import KeySource, keys_for
from threadmark.errors import EncryptionError, MissingDependencyError

__all__ = ["AesGcm", "identity"]

_VERSION = 1
_TAG = "aes-gcm"
_NONCE = 12
_CHECKSUM = 16
_CACHED_THREADS = 4096


class AesGcm:
    """A cipher that knows rows.

    Args:
        keys: Where keys come from.

    Raises:
        MissingDependencyError: The package cryptography is not installed.
    """

    def __init__(self, keys: KeySource) -> None:
        self._keys = keys
        self._for_thread, self._invalid = _ciphers()
        if not callable(keys):
            keys_for(keys, "")

    def reads(self, tag: str) -> bool:
        """Tell whether a tag is this cipher's."""
        return tag == _TAG

    def seal(self, row: Row | None, data: bytes) -> Encoded:
        """Encrypt data for a row; `None` for data that belongs to no row."""
        thread_id = row.thread_id if row else ""
        keys = keys_for(self._keys, thread_id)
        name = keys.current.encode()
        head = bytes((_VERSION, len(name))) + name
        nonce = os.urandom(_NONCE)
        cipher = self._for_thread(keys.keys[keys.current], thread_id)
        sealed: bytes = cipher.encrypt(nonce, data, head + identity(row))
        return _TAG, head + nonce + sealed

    def open(self, row: Row | None, sealed: Encoded) -> bytes:
        """Decrypt what was sealed for a row.

        Raises:
            EncryptionError: It was sealed for another row or with another key, or was changed.
        """
        thread_id = row.thread_id if row else ""
        data = sealed[1]
        key_id, head = _head(data)
        start = len(head) + _NONCE
        cipher = self._for_thread(keys_for(self._keys, thread_id).find(key_id), thread_id)
        try:
            opened: bytes = cipher.decrypt(data[len(head) : start], data[start:], head + identity(row))
        except self._invalid:
            raise EncryptionError(
                f"The data was changed, or encrypted for another row, or with another key than the "
                f"{key_id!r} of here"
            ) from None
        return opened

    def is_current(self, row: Row, sealed: Encoded) -> bool:
        """Tell whether data is sealed with the key that would seal it now."""
        return _head(sealed[1])[0] == keys_for(self._keys, row.thread_id).current


def _head(data: bytes) -> tuple[str, bytes]:
    """Return the key's id, and all that comes before the nonce."""
    if len(data) < 2 or data[0] != _VERSION or len(data) < 2 + data[1] + _NONCE + _CHECKSUM:
        raise EncryptionError("The data is not an envelope of a known version, or it was cut short")
    head = data[: 2 + data[1]]
    try:
        return head[2:].decode(), head
    except UnicodeDecodeError:
        raise EncryptionError("The data names no key") from None


def identity(row: Row | None) -> bytes:
    """Return the bytes that stand for a row: no two rows have the same."""
    if row is None:
        return b"\0"
    fields = [field.encode("utf-8", "surrogatepass") for field in row]
    return b"\1" + b"".join(len(field).to_bytes(4, "big") + field for field in fields)


def _ciphers() -> tuple[Callable[[bytes, str], Any], type[Exception]]:
    """Return what makes the cipher of a thread, and the error that it raises on wrong data."""
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise MissingDependencyError(
            "Encryption needs the package cryptography. Install threadmark[crypto]."
        ) from error

    @lru_cache(_CACHED_THREADS)
    def for_thread(key: bytes, thread_id: str) -> Any:
        salt = b"threadmark thread key\0" + thread_id.encode("utf-8", "surrogatepass")
        return AESGCM(hmac.digest(key, salt, "sha256"))

    return for_thread, InvalidTag
