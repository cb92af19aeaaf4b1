"""The SQLite saver under the name that async programs look for. It is the same class."""

from __future__ import annotations

from threadmark.checkpoint.sqlite import SqliteSaver

__all__ = ["AsyncSqliteSaver"]

AsyncSqliteSaver = SqliteSaver
