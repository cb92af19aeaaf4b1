"""Says in our words what Postgres and psycopg said in theirs, and tells what a second try can mend.

Everything that depends on an error code is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadmark.errors import (
    StorageBusyError,
    StorageError,
    StorageFormatError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    import psycopg

__all__ = ["ContendedError", "translated"]


class ContendedError(StorageBusyError):
    """Two transactions got in each other's way, and this one was undone. A second try may succeed."""


_CONTENDED = {
    "40001": "the transaction was undone because another one changed the same rows",
    "40P01": "the transaction was undone because it and another one waited for each other",
    "23505": "another transaction wrote the same row first",
}
_LOST = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}
"""The server is shutting down, was killed, or is starting; or it ended a session that was idle."""
_MISUNDERSTOOD = "08P01"
"""A violation of the protocol. The connection may well be there."""
_UNPREPARED = "a pooler does not keep prepared statements; open with prepare_threshold=None"

_KINDS: dict[str, tuple[type[StorageError], str]] = {
    "53300": (StorageBusyError, "the server has no connection left; use a smaller pool or raise its limit"),
    "53100": (StorageFullError, "the disk is full; nothing was written, free space and retry"),
    "53200": (StorageFullError, "the server is out of memory; nothing was written"),
    "55P03": (StorageBusyError, "a lock was not granted in time; retry"),
    "57014": (StorageBusyError, "the statement was cancelled or took longer than statement_timeout"),
    "25006": (StorageReadOnlyError, "the server takes no writes; connect to the primary"),
    "42501": (StorageReadOnlyError, "the role may not do this; grant it the right"),
    "42P01": (
        StorageFormatError,
        "the tables are missing; call setup() once, and use the same schema and prefix",
    ),
    "3F000": (StorageFormatError, "the schema is missing; call setup() once"),
    "42703": (StorageFormatError, "the tables are of another version; call setup()"),
    "26000": (StorageError, _UNPREPARED),
    "42P05": (StorageError, _UNPREPARED),
    "42704": (StorageFormatError, "a type or extension is missing; call setup(), or install the extension"),
}


def translated(error: psycopg.Error, name: str, lost: bool) -> StorageError:
    """Return our error for one of psycopg's.

    Args:
        error: What psycopg raised.
        name: The database, to name it in the message.
        lost: Whether the connection is gone.
    """
    code = error.sqlstate or ""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if lost or code in _LOST or (code.startswith("08") and code != _MISUNDERSTOOD):
        return StorageUnavailableError(
            f"{name}: the connection was lost: {said}. Retry when the server is back."
        )
    if code in _CONTENDED:
        return ContendedError(f"{name}: {_CONTENDED[code]} ({said}); retry.")
    kind, remedy = _KINDS.get(code, (StorageError, ""))
    return kind(f"{name}: {said}" + (f" ({remedy})." if remedy else "."))
