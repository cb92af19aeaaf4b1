"""A thread's metadata as it is stored: each entry encoded on its own, and a label for what can be searched.

A label is a short text that equal values share. Pure functions.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import ormsgpack

from threadmark.checkpoint.rows import RowCodec
from threadmark.checkpoint.serde.base import Encoded, Row

__all__ = ["About", "Entry", "about", "label_of", "read_about", "write_about"]

_LONGEST_LABEL = 200


class Entry(NamedTuple):
    """A value of a thread's metadata, encoded, and its label if it has one."""

    data: Encoded
    label: str | None


About: TypeAlias = "dict[str, Entry]"


def about(metadata: Mapping[str, Any], rows: RowCodec) -> About:
    """Encode metadata of a thread."""
    return {k: Entry(rows.dumps(value, "metadata"), label_of(k, value)) for k, value in metadata.items()}


def label_of(key: str, value: Any) -> str | None:
    """Return the label of a value; `None` if it has none and can only be compared."""
    if "\x00" in key:
        return None  # Not every database could look for it.
    if value is None:
        return "null"
    if isinstance(value, str):
        usable = len(value) <= _LONGEST_LABEL and "\x00" not in value and _encodable(value)
        return f'"{value}' if usable else None
    if isinstance(value, numbers.Number):
        try:
            whole = int(value)  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError):
            return None
        text = str(whole) if whole == value else repr(value)
        return text if len(text) <= _LONGEST_LABEL else None
    return None


def write_about(thread_id: str, entries: About, rows: RowCodec) -> Encoded:
    """Return metadata as it is kept in a thread's row."""
    flat = {key: [*entry.data, entry.label] for key, entry in entries.items()}
    return rows.sealed(Row("thread", thread_id), ("msgpack", ormsgpack.packb(flat)))


def read_about(thread_id: str, data: Encoded, rows: RowCodec) -> About:
    """Undo `write_about`."""
    _, content = rows.opened(Row("thread", thread_id), data)
    return {
        key: Entry((tag, value), label) for key, (tag, value, label) in ormsgpack.unpackb(content).items()
    }


def values_of(entries: About, rows: RowCodec) -> dict[str, Any]:
    """Decode metadata of a thread."""
    return {key: rows.inner.loads_typed(rows.plain(entry.data)) for key, entry in entries.items()}


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
