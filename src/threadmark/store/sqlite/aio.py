"""Where async programs look for the SQLite store. The class is in the package itself."""

from threadmark.store.sqlite import AsyncSqliteStore

__all__ = ["AsyncSqliteStore"]
