"""A thread's metadata as it is stored: each entry encoded on its own, and a label for what can be searched.

A label is a short text that equal values share. Pure functions.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import ormsgpack

from threadmark.checkpoint.rows import RowCodec, parts
from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.errors import SerializationError, StorageCorruptError

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
    """Undo `write_about`.

    Raises:
        StorageCorruptError: It is none that we could have written, or is encrypted.
    """
    found = parts(rows.opened(Row("thread", thread_id), data))
    if type(found) is not dict or not all(map(_is_entry, found.items())):
        raise StorageCorruptError(
            f"The metadata of thread {thread_id!r} cannot be read: it is damaged, or encrypted and this "
            f"saver has no key.",
            thread_id=thread_id,
            column="metadata",
        )
    return {key: Entry((tag, value), label) for key, (tag, value, label) in found.items()}


def _is_entry(item: tuple[Any, Any]) -> bool:
    key, entry = item
    if type(key) is not str or type(entry) is not list or len(entry) != 3:
        return False
    tag, data, label = entry
    return type(tag) is str and type(data) is bytes and (label is None or type(label) is str)


def values_of(entries: About, rows: RowCodec) -> dict[str, Any]:
    """Decode metadata of a thread."""
    try:
        return {key: rows.inner.loads_typed(rows.plain(entry.data)) for key, entry in entries.items()}
    except SerializationError as error:
        raise error.at(channel="metadata")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
