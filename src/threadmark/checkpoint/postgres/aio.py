"""Where async programs look for the Postgres saver. The class is in the package itself."""

from __future__ import annotations

from threadmark.checkpoint.postgres import AsyncPostgresSaver

__all__ = ["AsyncPostgresSaver"]
