"""A cipher that the user brought along, made to know rows.

Such a cipher encrypts bytes and knows nothing of rows. So the row's identity is put before the data and
compared after decrypting; with a cipher that authenticates, data cannot be moved to another row.
"""

from __future__ import annotations

from threadmark.checkpoint.serde.aes import identity
from threadmark.checkpoint.serde.base import CipherProtocol, Encoded, Row
from threadmark.errors import EncryptionError

__all__ = ["ForeignCipher"]

_TAG = "cipher:"


class ForeignCipher:
    """A cipher that knows rows.

    Args:
        cipher: The user's cipher.
    """

    def __init__(self, cipher: CipherProtocol) -> None:
        self._cipher = cipher

    def reads(self, tag: str) -> bool:
        """Tell whether a tag is of a cipher that a user brought along."""
        return tag.startswith(_TAG)

    def seal(self, row: Row | None, data: bytes) -> Encoded:
        """Encrypt data for a row; `None` for data that belongs to no row."""
        name, sealed = self._cipher.encrypt(_prefix(row) + data)
        return _TAG + name, sealed

    def open(self, row: Row | None, sealed: Encoded) -> bytes:
        """Decrypt what was sealed for a row.

        Raises:
            EncryptionError: It was sealed for another row, or the cipher refuses it.
        """
        tag, data = sealed
        try:
            opened = self._cipher.decrypt(tag.removeprefix(_TAG), data)
        except Exception as error:
            raise EncryptionError(f"The cipher refuses the data: {error}") from error
        prefix = _prefix(row)
        if not opened.startswith(prefix):
            raise EncryptionError("The data was encrypted for another row")
        return opened[len(prefix) :]

    def is_current(self, row: Row, sealed: Encoded) -> bool:
        """Return `False`: which key was used, only the cipher knows."""
        return False


def _prefix(row: Row | None) -> bytes:
    name = identity(row)
    return len(name).to_bytes(4, "big") + name
