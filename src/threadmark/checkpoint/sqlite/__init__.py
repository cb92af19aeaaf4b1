"""A saver that keeps everything in a SQLite file, which any number of processes may share.

One class serves sync and async programs. The tables set themselves up at the first use.
"""

from __future__ import annotations

import os
import sqlite3
from datetime import timedelta
from typing import Any, Self

from threadmark._db.sqlite import SqliteDatabase
from threadmark.checkpoint._sql.saver import SqlSaver
from threadmark.checkpoint.options import History, SaverOptions
from threadmark.checkpoint.rows import MAX_VALUE_BYTES
from threadmark.checkpoint.serde.base import SerializerProtocol
from threadmark.checkpoint.sqlite.sql import MIGRATIONS, STATEMENTS

__all__ = ["SqliteSaver"]


class SqliteSaver(SqlSaver):
    """Keeps checkpoints in a SQLite file.

    Args:
        conn: A path, `":memory:"`, a `file:` URI, or a connection. A connection to a file only says
            which file: the saver opens its own. One to a database in memory is used itself.
        serde: The serializer.
        max_value_bytes: The largest encoded value that is taken.
        compress: Whether values are compressed with zstd where it helps.
        history: `"latest"` keeps the tip of each branch and nothing before it.
        ttl: How long a new thread lives; `None` for ever.
        refresh_ttl: Whether every commit begins that time anew.
        busy_timeout: How long to wait for other processes that write, in seconds.
        shared: The file holds tables of another application as well.
    """

    commit_inline = True

    def __init__(
        self,
        conn: str | os.PathLike[str] | sqlite3.Connection,
        *,
        serde: SerializerProtocol | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
        compress: bool = False,
        history: History = "all",
        ttl: timedelta | None = None,
        refresh_ttl: bool = True,
        busy_timeout: float = 10.0,
        shared: bool = False,
    ) -> None:
        database = SqliteDatabase(
            conn,
            component="checkpoints",
            migrations=MIGRATIONS,
            busy_timeout=busy_timeout,
            shared=shared,
        )
        options = SaverOptions(max_value_bytes, compress, history, ttl, refresh_ttl)
        super().__init__(database, STATEMENTS, serde=serde, options=options)
        self._file = database

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Return a saver for a path, to be used in a `with` or `async with` block, which closes it."""
        return cls(conn_string, **options)

    def setup(self) -> None:
        """Create the tables now. They are created at the first use anyway."""
        self.get_tuple({"configurable": {"thread_id": ""}})
