"""Says in our words what SQLite said in its own: one table from result codes to errors."""

from __future__ import annotations

import sqlite3

from threadmark.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageFormatError,
    StorageFullError,
    StorageReadOnlyError,
)

__all__ = ["translated"]

_PRIMARY = 0xFF
"""An extended result code keeps the primary one in its lowest byte."""

_KINDS: dict[int, tuple[type[StorageError], str]] = {
    sqlite3.SQLITE_BUSY: (
        StorageBusyError,
        "other connections kept the database locked; retry, or raise busy_timeout",
    ),
    sqlite3.SQLITE_LOCKED: (
        StorageBusyError,
        "another statement on this connection holds a lock; retry",
    ),
    sqlite3.SQLITE_PROTOCOL: (
        StorageBusyError,
        "too many processes opened the database at once; retry",
    ),
    sqlite3.SQLITE_FULL: (
        StorageFullError,
        "the disk or the database is full; nothing was written, free space and retry",
    ),
    sqlite3.SQLITE_READONLY: (
        StorageReadOnlyError,
        "the database cannot be written; check the permissions of the file and of its folder",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        StorageReadOnlyError,
        "the database cannot be opened; check that its folder exists and can be written",
    ),
    sqlite3.SQLITE_PERM: (
        StorageReadOnlyError,
        "access to the database was refused; check its permissions",
    ),
    sqlite3.SQLITE_CORRUPT: (
        StorageCorruptError,
        "the file is damaged; restore a backup, or run 'sqlite3 FILE .recover'",
    ),
    sqlite3.SQLITE_CONSTRAINT: (
        StorageCorruptError,
        "a row is there that contradicts others; restore a backup, or delete what it belongs to",
    ),
    sqlite3.SQLITE_MISMATCH: (
        StorageCorruptError,
        "a column holds what it should not; restore a backup, or delete what it belongs to",
    ),
    sqlite3.SQLITE_NOTADB: (
        StorageFormatError,
        "the file is not a SQLite database; use another path",
    ),
}

_DAMAGED_TEXTS = ("Could not decode to UTF-8", "malformed JSON")
"""What is said of a column whose content is none, with a code that says nothing, or with none at all."""


_UNWRITABLE = (
    StorageFullError,
    "the file could not be written: the disk is full, or a quota or a limit on the size of files (ulimit "
    "-f) is reached; nothing was written, make room and retry",
)
_EXTENDED: dict[int, tuple[type[StorageError], str]] = {
    sqlite3.SQLITE_IOERR_WRITE: _UNWRITABLE,
    sqlite3.SQLITE_IOERR_SHMSIZE: _UNWRITABLE,
}
"""What an extended code says more than its primary one."""


def translated(error: sqlite3.Error, database: str) -> StorageError:
    """Return our error for one of SQLite's.

    Args:
        error: What the `sqlite3` module raised.
        database: The path, to name it in the message.
    """
    code = getattr(error, "sqlite_errorcode", None) or 0
    if str(error).startswith(_DAMAGED_TEXTS):
        code = sqlite3.SQLITE_CORRUPT
    kind, remedy = _EXTENDED.get(code) or _KINDS.get(code & _PRIMARY, (StorageError, ""))
    return kind(f"{database}: {error}" + (f" ({remedy})." if remedy else "."))
