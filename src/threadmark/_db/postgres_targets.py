"""Finds out what a database was opened with, and where its sync and async connections come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg import conninfo as conninfos

from threadmark._checks import shown
from threadmark._db.postgres_sources import (
    AsyncGiven,
    AsyncOwn,
    AsyncPooled,
    AsyncSource,
    Connecting,
    Given,
    Own,
    Pooled,
    Source,
    parameters_of,
)
from threadmark.errors import InvalidArgumentError, MissingDependencyError

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

__all__ = ["Sources", "Target", "sources_of"]

Target: TypeAlias = (
    "str | psycopg.Connection[Any] | psycopg.AsyncConnection[Any] | ConnectionPool[Any] | "
    "AsyncConnectionPool[Any]"
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where connections come from.

    Attributes:
        name: The database, without secrets.
        sync: For sync calls.
        asynchronous: For async calls; `None` when these are made as sync calls in threads.
    """

    name: str
    sync: Source
    asynchronous: AsyncSource | None


def sources_of(target: Any, limit: int, timeout: float, prepare_threshold: int | None) -> Sources:
    """Return where the connections for a target come from.

    Raises:
        InvalidArgumentError: It is nothing that leads to a Postgres database.
    """
    if isinstance(target, str):
        return _own(_parsed(target), prepare_threshold, limit, timeout)
    if isinstance(target, psycopg.Connection):
        return Sources(_name(parameters_of(target)), Given(target, timeout), None)
    if isinstance(target, psycopg.AsyncConnection):
        arguments = parameters_of(target)
        return Sources(_name(arguments), Own(arguments, limit, timeout), AsyncGiven(target))
    return _of_pool(target, timeout)


def _own(arguments: Connecting, prepare_threshold: int | None, limit: int, timeout: float) -> Sources:
    name = _name(arguments)
    arguments = {**arguments, "autocommit": True, "prepare_threshold": prepare_threshold}
    return Sources(name, Own(arguments, limit, timeout), AsyncOwn(arguments, limit, timeout))


def _of_pool(target: Any, timeout: float) -> Sources:
    try:
        import psycopg_pool
    except ImportError as error:
        raise MissingDependencyError("Pools need psycopg-pool. Install threadmark[postgres].") from error

    def refused(error: Exception) -> bool:
        return isinstance(error, psycopg_pool.PoolTimeout | psycopg_pool.TooManyRequests)

    if isinstance(target, psycopg_pool.ConnectionPool):
        return Sources("pool " + target.name, Pooled(target, refused), None)
    if isinstance(target, psycopg_pool.AsyncConnectionPool):
        arguments = _of_async_pool(target)
        own = Own(arguments, target.max_size, timeout)
        return Sources("pool " + target.name, own, AsyncPooled(target, refused))
    raise InvalidArgumentError(
        f"A Postgres database (conn) is a connection string, a psycopg connection or a psycopg_pool pool, "
        f"sync or async, not {shown(target)}."
    )


def _of_async_pool(pool: Any) -> Connecting:
    given, kwargs = pool.conninfo, pool.kwargs
    if not isinstance(given, str) or (kwargs is not None and not isinstance(kwargs, Mapping)):
        raise InvalidArgumentError(
            "The pool makes its connection parameters up as it goes, so sync calls cannot use them. Pass a "
            "pool with a plain conninfo, or a connection string."
        )
    extra = {k: v for k, v in (kwargs or {}).items() if k not in ("row_factory", "cursor_factory", "context")}
    return {"conninfo": given, **extra, "autocommit": True}


def _parsed(target: str) -> Connecting:
    try:
        return dict(conninfos.conninfo_to_dict(target))
    except (psycopg.Error, UnicodeEncodeError):
        # What psycopg says may repeat a part of the password.
        raise InvalidArgumentError(
            "The connection string (conn) cannot be read. It is like "
            "'postgresql://user:secret@host/database' or 'host=... dbname=...'."
        ) from None


def _name(arguments: Connecting) -> str:
    place = arguments.get("host") or arguments.get("service") or "localhost"
    return f"postgres {place}/{arguments.get('dbname') or ''}"
