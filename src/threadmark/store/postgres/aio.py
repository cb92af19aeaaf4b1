"""Where async programs look for the Postgres store. The class is in the package itself."""

from threadmark.store.postgres import AsyncPostgresStore

__all__ = ["AsyncPostgresStore"]
