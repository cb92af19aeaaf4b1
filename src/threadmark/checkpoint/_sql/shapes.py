"""What the rows look like that statements return: the one place where a row's columns are checked.

A database may have been touched by anybody, and SQLite keeps any value in any column. Whoever executes a
statement passes what came back through its shape, and relies on the columns from there on. What the
bytes in a column mean is checked where they are decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain, product
from types import NoneType
from typing import Any, NamedTuple

from threadmark._db.effects import Row, Rows
from threadmark.errors import StorageCorruptError

__all__ = ["Shape"]

LAST = 2**62
"""What is counted stays below this, so that one can always be added."""
_PATTERNS = 256
_LAST_MOMENT = 60_000_000_000_000
"""In the year 3871: what lies behind was not written by a clock."""


class Kind(NamedTuple):
    """What a column may hold.

    Attributes:
        types: The Python types of its values.
        meant: What it is, in words.
        least: The least number.
        most: The greatest number.
    """

    types: tuple[type, ...]
    meant: str
    least: int | None = None
    most: int = LAST

    @property
    def or_null(self) -> Kind:
        """The same, or nothing."""
        return self._replace(types=(*self.types, NoneType))


TEXT = Kind((str,), "a text")
DATA = Kind((bytes,), "binary data")
NUMBER = Kind((int,), "a whole number")
COUNT = Kind((int,), "a number that counts from 0", 0)
MOMENT = Kind((int,), "a time", 0, _LAST_MOMENT)
# Postgres knows truth values, SQLite does not.
FLAG = Kind((bool, int), "0 or 1")


class Shape:
    """The columns of a statement's rows.

    Args:
        table: The table that they are from, without its prefix.
        columns: What each may hold, in order.
    """

    __slots__ = ("_columns", "_fit", "_limits", "_usual", "table")

    def __init__(self, table: str, columns: Mapping[str, Kind]) -> None:
        self.table = table
        self._columns = dict(columns)
        self._usual = frozenset(product(*(kind.types for kind in columns.values())))
        self._limits = [
            (place, kind.least, kind.most)
            for place, kind in enumerate(columns.values())
            if kind.least is not None
        ]
        # Reading one thread after the other, the same few patterns come again and again.
        self._fit = lru_cache(_PATTERNS)(self._are_usual)

    def of(self, rows: Rows, thread_id: str | None = None) -> Rows:
        """Return rows that have this shape.

        Args:
            rows: What a statement returned.
            thread_id: The thread that was asked for, to name it in an error.

        Raises:
            StorageCorruptError: One of them has another shape.
        """
        if not self._fit(tuple(map(type, chain.from_iterable(rows)))):
            raise self._refused(next(r for r in rows if tuple(map(type, r)) not in self._usual), thread_id)
        for place, least, most in self._limits:
            for row in rows:
                value = row[place]
                if value is not None and not least <= value <= most:
                    raise self._refused(row, thread_id)
        return rows

    def _are_usual(self, types: tuple[type, ...]) -> bool:
        width = len(self._columns)
        return all(types[i : i + width] in self._usual for i in range(0, len(types), width))

    def _refused(self, row: Row, thread_id: str | None) -> StorageCorruptError:
        values = zip(self._columns.items(), row, strict=True)
        column, kind, value = next((c, k, v) for (c, k), v in values if not _is_of(k, v))
        if column == "ns" and value is None:
            message = "no branch leads to its namespace any more"
        else:
            message = f"{column} holds {_named(value)} where {kind.meant} belongs"
        return damaged(self.table, message, thread_id, column)


def damaged(
    table: str, message: str, thread_id: str | None, column: str | None = None
) -> StorageCorruptError:
    """Return the error for a row of a table that is not as we write it."""
    where = f" of thread {thread_id!r}" if thread_id is not None else ""
    return StorageCorruptError(
        f"A row{where} in tm_{table} is damaged: {message}.",
        thread_id=thread_id,
        table=f"tm_{table}",
        column=column,
    )


def _is_of(kind: Kind, value: Any) -> bool:
    if type(value) not in kind.types:
        return False
    return kind.least is None or value is None or kind.least <= value <= kind.most


def _named(value: Any) -> str:
    """Return what a value is. What it says may be a secret."""
    names = {NoneType: "null", str: "a text", bytes: "binary data", float: "a fraction"}
    return names.get(type(value)) or f"the number {value}"


STANDING = Shape(
    "threads",
    {
        "thread": NUMBER,
        "updated": MOMENT,
        "status": TEXT,
        "expires": NUMBER.or_null,
        "seq": COUNT.or_null,
        "space": NUMBER.or_null,
        "head": COUNT.or_null,
        "id": TEXT.or_null,
        "lost": NUMBER.or_null,
    },
)
"""Of `find_standing`."""

THREAD = Shape("threads", {"thread": NUMBER})
"""Of `find_thread` and `find_expired`."""

UPKEEP = Shape(
    "threads",
    {
        "updated": MOMENT,
        "expires": NUMBER.or_null,
        "ttl": COUNT.or_null,
        "labels": TEXT.or_null,
        "metadata_tag": TEXT.or_null,
        "metadata": DATA.or_null,
    },
)
"""Of `get_upkeep`."""

INFO = Shape(
    "threads",
    {
        "thread": NUMBER,
        "thread_id": TEXT,
        "created": MOMENT,
        "updated": MOMENT,
        "status": TEXT,
        "expires": NUMBER.or_null,
        "metadata_tag": TEXT.or_null,
        "metadata": DATA.or_null,
    },
)
"""Of `get_thread` and the pages of threads."""

NAMED = Shape("threads", {"thread": NUMBER, "thread_id": TEXT})
"""Of `threads_of_run`."""

LISTED = Shape("threads", {"thread": NUMBER, "thread_id": TEXT, "updated": MOMENT})
"""Of `page_of_threads`."""

ABOUT = Shape("threads", {"metadata_tag": TEXT.or_null, "metadata": DATA.or_null})
"""Of `thread_metadata`."""

LEASE = Shape("leases", {"token": TEXT, "expires": NUMBER})
"""Of `find_lease`."""

SPACE = Shape("heads", {"space": NUMBER})
"""Of `find_space`."""

TIP = Shape("heads", {"id": TEXT})
"""Of `find_gone_tip`."""

HEAD = Shape(
    "heads", {"ns": TEXT, "branch": TEXT, "space": NUMBER, "seq": COUNT, "id": TEXT, "automatic": FLAG}
)
"""Of `list_heads`."""

SEQ = Shape("checkpoints", {"seq": COUNT})
"""Of `find_number`."""

CHECKPOINT = Shape(
    "checkpoints",
    {
        "seq": NUMBER,
        "space": NUMBER,
        "ns": TEXT,
        "id": TEXT,
        "parent": TEXT.or_null,
        "created": NUMBER,
        "body_tag": TEXT,
        "body": DATA,
        "metadata_tag": TEXT,
        "metadata": DATA,
    },
)
"""Of `get_checkpoint` and `page_of_thread`."""

BODY = Shape(
    "checkpoints",
    {
        "seq": COUNT,
        "space": NUMBER,
        "ns": TEXT,
        "id": TEXT,
        "parent": NUMBER.or_null,
        "created": MOMENT,
        "body_tag": TEXT,
        "body": DATA,
    },
)
"""Of `list_bodies`."""

SEALED_CHECKPOINT = Shape(
    "checkpoints",
    {
        "seq": COUNT,
        "space": NUMBER,
        "id": TEXT,
        "body_tag": TEXT,
        "body": DATA,
        "metadata_tag": TEXT,
        "metadata": DATA,
    },
)
"""Of `all_checkpoints`."""

VALUE = Shape(
    "values",
    {"space": NUMBER, "version": TEXT, "channel": TEXT, "sliced": FLAG, "tag": TEXT, "data": DATA},
)
"""Of `get_values`."""

LISTED_VALUE = Shape(
    "values",
    {"space": NUMBER, "version": TEXT, "channel": TEXT, "tag": TEXT.or_null, "data": DATA.or_null},
)
"""Of `list_values`, and of `all_values`, which leaves nothing out."""

CHUNK = Shape(
    "logs",
    {
        "space": NUMBER,
        "channel": TEXT,
        "log": TEXT,
        "start": NUMBER,
        "count": NUMBER,
        "sizes": DATA.or_null,
        "tag": TEXT,
        "data": DATA,
    },
)
"""Of `get_chunks`."""

LOG_END = Shape("logs", {"count": COUNT})
"""Of `find_log_end`."""

LISTED_CHUNK = Shape(
    "logs", {"space": NUMBER, "channel": TEXT, "log": TEXT, "start": NUMBER, "count": NUMBER}
)
"""Of `list_chunks`."""

SEALED_CHUNK = Shape(
    "logs",
    {"space": NUMBER, "channel": TEXT, "log": TEXT, "start": COUNT, "tag": TEXT, "data": DATA},
)
"""Of `all_chunks`."""

WRITE = Shape(
    "writes",
    {
        "seq": NUMBER,
        "task_id": TEXT,
        "idx": NUMBER,
        "channel": TEXT,
        "tag": TEXT,
        "data": DATA,
        "path": TEXT,
    },
)
"""Of `get_writes`."""

SEALED_WRITE = Shape(
    "writes", {"seq": NUMBER, "task_id": TEXT, "idx": NUMBER, "channel": TEXT, "tag": TEXT, "data": DATA}
)
"""Of `all_writes`."""
