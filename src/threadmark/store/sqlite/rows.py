"""Records as rows of a table, and back.

A file may have been touched by anybody: a row that cannot be read is an error, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from threadmark._db.effects import Row
from threadmark.errors import StorageCorruptError
from threadmark.store.backend import Record
from threadmark.store.namespaces import decode_namespace, decode_text
from threadmark.store.values import read_value, write_value

__all__ = ["StoredRecord", "read_namespace", "read_record", "read_records", "written"]

_LAST_MOMENT = 60_000_000_000_000_000
"""In the year 3871: what lies behind was not written by a clock."""


@dataclass(slots=True)
class StoredRecord(Record):
    """A record that was read from the table.

    Attributes:
        vectors_at: The key of its row in the table of vectors, if it has one.
        has_words: Whether it has a row in the table of words.
    """

    vectors_at: int | None = None
    has_words: bool = False


def read_record(row: Row) -> StoredRecord:
    """Return the record in a row of `statements`' record columns.

    Raises:
        StorageCorruptError: The row is none that we could have written.
    """
    seq, namespace, key, value, version, created, updated, ttl, expires, fields, at, words = row
    try:
        return StoredRecord(
            seq,
            decode_namespace(namespace),
            decode_text(key),
            _dictionary(value),
            _number(version),
            _moment(created),
            _moment(updated),
            None if ttl is None else _number(ttl),
            None if expires is None else _number(expires),
            None if fields is None else tuple(map(str, json.loads(fields))),
            None if at is None else _number(at),
            bool(words),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StorageCorruptError(
            f"Item number {seq} of the store cannot be read: {error}. Restore a backup, or delete the row "
            f"of threadmark_items with this seq."
        ) from error


def _dictionary(data: bytes) -> dict[str, Any]:
    value = read_value(data)
    if not isinstance(value, dict):
        raise TypeError("the value is no dictionary")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


def _moment(value: Any) -> int:
    if abs(_number(value)) > _LAST_MOMENT:
        raise ValueError(f"{value!r} is no time")
    return int(value)


def read_records(rows: Iterable[Row]) -> list[StoredRecord]:
    """Return the records in some rows."""
    return [read_record(row) for row in rows]


def read_namespace(name: Any) -> tuple[str, ...]:
    """Return the namespace in a column.

    Raises:
        StorageCorruptError: The bytes are none that we could have written.
    """
    try:
        return decode_namespace(name)
    except (ValueError, TypeError, AttributeError) as error:
        raise StorageCorruptError(
            f"A namespace of the store cannot be read: {error}. Restore a backup, or delete the rows of "
            f"threadmark_items whose namespace is x'{name.hex() if isinstance(name, bytes) else name}'."
        ) from error


def written(record: Record, vectors_at: int | None, has_words: bool) -> tuple[Any, ...]:
    """Return the parameters that write a record, its number last."""
    return (
        write_value(record.value),
        record.version,
        record.updated_at,
        record.ttl,
        record.expires_at,
        None if record.fields is None else json.dumps(record.fields),
        vectors_at,
        has_words,
        record.seq,
    )
