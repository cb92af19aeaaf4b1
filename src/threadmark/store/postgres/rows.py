"""Records as rows of a table, and back.

A table may have been touched by anybody: a row that cannot be read is an error, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from threadmark._db.effects import Row
from threadmark.errors import StorageCorruptError
from threadmark.store.backend import Record
from threadmark.store.namespaces import decode_namespace, decode_text
from threadmark.store.values import read_value, write_value

__all__ = ["query_text", "read_namespace", "read_record", "read_records", "words_text", "written"]

_LONGEST_WORD = 500
_MOST_WORD_BYTES = 600_000
_LAST_POSITION = 16_383
"""What a tsvector can hold."""


def read_record(row: Row) -> Record:
    """Return the record in a row of `statements.RECORD`.

    Raises:
        StorageCorruptError: The row is none that we could have written.
    """
    seq, namespace, key, value, version, created, updated, ttl, expires, fields = row
    try:
        return Record(
            seq,
            decode_namespace(namespace),
            decode_text(key),
            _dictionary(value),
            version,
            created,
            updated,
            ttl,
            expires,
            None if fields is None else tuple(map(str, json.loads(fields))),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StorageCorruptError(
            f"Item number {seq} of the store cannot be read: {error}. Restore a backup, or delete the row "
            f"of the table of items with this seq."
        ) from error


def read_records(rows: Iterable[Row]) -> list[Record]:
    """Return the records in some rows."""
    return [read_record(row) for row in rows]


def read_namespace(name: bytes) -> tuple[str, ...]:
    """Return the namespace in a column.

    Raises:
        StorageCorruptError: The bytes are none that we could have written.
    """
    try:
        return decode_namespace(name)
    except ValueError as error:
        raise StorageCorruptError(f"A namespace of the store cannot be read: {error}.") from error


def written(record: Record, words: Iterable[str]) -> tuple[Any, ...]:
    """Return the parameters that write a record, its number last."""
    value = write_value(record.value)
    return (
        value,
        _document(value),
        words_text(words),
        record.version,
        record.updated_at,
        record.ttl,
        record.expires_at,
        None if record.fields is None else json.dumps(record.fields),
        record.seq,
    )


def words_text(words: Iterable[str]) -> str | None:
    """Return words as a tsvector is written: `'word':1,2 'other':3`. They hold letters and digits only."""
    places: dict[str, list[int]] = {}
    size = 0
    for place, word in enumerate(words, 1):
        word = _cut(word)
        if word not in places:
            size += len(word.encode()) + 8
            if size > _MOST_WORD_BYTES:
                break
        places.setdefault(word, []).append(min(place, _LAST_POSITION))
    if not places:
        return None
    return " ".join(f"'{word}':{','.join(map(str, at[:255]))}" for word, at in places.items())


def query_text(words: Iterable[str]) -> str:
    """Return words as a tsquery that holds where any of them does."""
    return " | ".join(f"'{_cut(word)}'" for word in words)


def _cut(word: str) -> str:
    return word[:_LONGEST_WORD]


def _document(value: bytes) -> str | None:
    """Return JSON for jsonb; `None` where that would refuse it."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if "\\u0000" in text else text


def _dictionary(data: bytes) -> dict[str, Any]:
    value = read_value(data)
    if not isinstance(value, dict):
        raise TypeError("the value is no dictionary")
    return value
