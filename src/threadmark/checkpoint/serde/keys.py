"""Where encryption keys come from: one key, several of which one is current, or a function by thread.

A key has an id, which is stored beside what it encrypts, so that old data can be read with an old key.
No key is ever logged or part of an error. Nothing here encrypts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from threadmark.errors import EncryptionError, InvalidArgumentError

__all__ = ["KeySource", "Keys", "key_from_environment", "keys_for"]

_SIZES = (16, 24, 32)
_VARIABLES = ("THREADMARK_AES_KEY", "LANGGRAPH_AES_KEY")
_LONGEST_ID = 255


@dataclass(frozen=True)
class Keys:
    """Keys by id, one of which is used to write.

    Attributes:
        current: The id of the key that encrypts.
        keys: Keys of 16, 24 or 32 bytes by id; all of them can be used to read.
    """

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.keys, Mapping) or not isinstance(self.current, str):
            raise InvalidArgumentError("keys is a dict from ids to keys, and current is one of the ids.")
        if self.current not in self.keys:
            raise InvalidArgumentError(f"The current key {self.current!r} is not among the keys.")
        for key_id, key in self.keys.items():
            if not isinstance(key_id, str) or not 0 < len(key_id.encode(errors="replace")) <= _LONGEST_ID:
                raise InvalidArgumentError("A key's id is a text of 1 to 255 bytes.")
            _check(key)

    @classmethod
    def of(cls, current: bytes, *old: bytes) -> Keys:
        """Return keys whose ids are derived from them.

        Args:
            current: The key that encrypts.
            old: Keys that data may still be encrypted with.
        """
        return cls(key_id(current), {key_id(key): key for key in (current, *old)})

    def find(self, key_id: str) -> bytes:
        """Return a key.

        Raises:
            EncryptionError: There is none with this id.
        """
        key = self.keys.get(key_id)
        if key is None:
            raise EncryptionError(
                f"The data is encrypted with the key {key_id!r}, and only {', '.join(map(repr, self.keys))} "
                f"can be used here. Add the key to the keys that can be read"
            )
        return key


KeySource: TypeAlias = "Keys | bytes | Callable[[str], Keys | bytes]"
"""Keys, or a single key, or what returns either for a thread's id (an empty one where there is no
thread)."""


def keys_for(source: KeySource, thread_id: str) -> Keys:
    """Return the keys of a thread.

    Raises:
        EncryptionError: The source is a function and gives none.
    """
    found = source(thread_id) if callable(source) else source
    if isinstance(found, bytes):
        return Keys.of(found)
    if isinstance(found, Keys):
        return found
    if not callable(source):
        _check(found)
    raise EncryptionError(f"There is no encryption key for the thread {thread_id!r}")


def key_id(key: bytes) -> str:
    """Return an id that says nothing about the key but which one it is."""
    return hashlib.sha256(b"threadmark key id\0" + _check(key)).hexdigest()[:16]


def _check(key: object) -> bytes:
    if isinstance(key, bytes) and len(key) in _SIZES:
        return key
    # The message must not show the key.
    given = f"{len(key)} bytes" if isinstance(key, bytes) else f"a value of the type {type(key).__name__}"
    advice = " A text is no key: write bytes.fromhex(...)." if isinstance(key, str) else ""
    raise InvalidArgumentError(
        f"An AES key has 16, 24 or 32 bytes, and {given} was given. Make one with os.urandom(32).{advice}"
    )


def key_from_environment() -> bytes:
    """Return the key that is set in the environment: as text, or as 64 hexadecimal digits.

    Raises:
        InvalidArgumentError: There is none, or it has the wrong length.
    """
    text = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), None)
    if text is None:
        raise InvalidArgumentError(f"There is no key. Pass key=, or set {_VARIABLES[0]}.")
    if len(text) == 64:
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    return _check(text.encode())
