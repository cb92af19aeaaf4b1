"""Performs effects on a Postgres database, for callers with and without an event loop.

A `PostgresDatabase` is made from a connection string, a connection or a pool, sync or async. Sync calls
use sync connections, where they are called; async calls use async connections, or, where only a sync
connection or pool was given, threads. No state is kept in a session, so that a pooler may stand between.
What is sent when is decided in `postgres_session`; this module sends it. Nothing here knows what is
stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Self, TypeAlias, TypeVar

import psycopg
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.rows import tuple_row

from threadmark._checks import amount, flag, whole
from threadmark._db.effects import Operation, Row, Rows
from threadmark._db.postgres_errors import translated
from threadmark._db.postgres_session import (
    BEGIN,
    COMMIT,
    ROLLBACK,
    Batch,
    Fresh,
    Pause,
    Request,
    Statement,
    session,
)
from threadmark._db.postgres_sources import AsyncSource, Source
from threadmark._db.postgres_targets import Target, sources_of
from threadmark._db.worker import Worker, run_apart
from threadmark.errors import StorageError

__all__ = ["PostgresDatabase", "Target"]

T = TypeVar("T")

_Any: TypeAlias = "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]"
_AnyCursor: TypeAlias = "psycopg.RawCursor[Row] | psycopg.AsyncRawCursor[Row]"
_SAVEPOINT = "threadmark"
_NESTED = {
    BEGIN: f"SAVEPOINT {_SAVEPOINT} --",
    COMMIT: f"RELEASE SAVEPOINT {_SAVEPOINT}",
    ROLLBACK: f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}",
}


class PostgresDatabase:
    """One Postgres database that any number of threads, event loops and processes may share.

    Args:
        target: A connection string, a connection or a pool, sync or async.
        limit: How many connections of our own to open at most, for each kind.
        timeout: For how many seconds to wait for a connection that is not in use.
        patience: For how many seconds to try again when the server has gone away.
        pipeline: Whether statements that need not wait for one another are sent together.
        prepare_threshold: After how many times our own connections prepare a statement; `None`: never.
    """

    def __init__(
        self,
        target: Target,
        *,
        limit: int,
        timeout: float,
        patience: float,
        pipeline: bool,
        prepare_threshold: int | None,
    ) -> None:
        whole("max_connections", limit, 1, 10_000)
        amount("timeout", timeout, zero=True)
        amount("patience", patience, zero=True)
        flag("pipeline", pipeline)
        whole("prepare_threshold", prepare_threshold, 0, 1_000_000, optional=True)
        found = sources_of(target, limit, timeout, prepare_threshold)
        self.name = found.name
        self._sync: Source = found.sync
        self._async: AsyncSource | None = found.asynchronous
        self._worker = Worker("threadmark-postgres", found.sync.limit)
        self._patience = patience
        self._pipeline = pipeline and psycopg.Pipeline.is_supported()
        self._closed = False

    def perform(self, operation: Operation[T]) -> T:
        """Run an operation in the calling thread and return its result.

        Raises:
            StorageError: Postgres refused, and the operation did not handle it.
        """
        self._check_open()
        lent = _Lent(self)
        going = session(operation, self._patience)
        try:
            request = next(going)
            while True:
                try:
                    result = lent.perform(request)
                except Exception as error:  # noqa: BLE001 - the session decides what becomes of it
                    request = going.throw(error)
                else:
                    request = going.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            going.close()
            lent.give_back()

    async def aperform(self, operation: Operation[T]) -> T:
        """Run an operation without blocking the event loop."""
        self._check_open()
        if self._async is None:
            return await self._worker.run(lambda: self.perform(operation))
        lent = _AsyncLent(self, self._async)
        going = session(operation, self._patience)
        try:
            request = next(going)
            while True:
                try:
                    result = await lent.perform(request)
                except Exception as error:  # noqa: BLE001 - the session decides what becomes of it
                    request = going.throw(error)
                else:
                    request = going.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            going.close()
            await lent.give_back()

    def close(self) -> None:
        """Finish what is under way in our threads, and close the connections that are ours."""
        self._closed = True
        self._worker.close()
        self._sync.close()
        if self._async is not None:
            self._async.close()

    async def aclose(self) -> None:
        """Close without blocking the event loop."""
        if not self._closed:
            await run_apart(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"{self.name} was closed; open it again.")

    def _translated(self, error: psycopg.Error, connection: _Any | None) -> StorageError:
        lost = connection is None or connection.pgconn.status == ConnStatus.BAD
        return translated(error, self.name, lost)


class _Use:
    """How a connection is used by one operation: as it is, or inside a transaction of its owner's."""

    def __init__(self, connection: _Any) -> None:
        self.nested = connection.pgconn.transaction_status != TransactionStatus.IDLE
        self.own_mode = self.nested or connection.autocommit

    def worded(self, statements: Sequence[Statement]) -> Sequence[Statement]:
        """Return statements with savepoints in place of transactions where that is needed."""
        if not self.nested:
            return statements
        return [(_nested(sql), params) for sql, params in statements]


def _nested(sql: str) -> str:
    word, _, rest = sql.partition(" ")
    return f"{_NESTED[word]} {rest}" if word in _NESTED else sql


def _is_unusable(connection: _Any, use: _Use) -> bool:
    """Whether a connection was left in a state in which nobody can take it."""
    status = connection.pgconn.transaction_status
    if use.nested:
        return status in (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN)
    return bool(status != TransactionStatus.IDLE)


class _Lent:
    """The connection of one operation that is performed."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None
        self._use: _Use | None = None

    def perform(self, request: Request) -> list[Rows] | None:
        if isinstance(request, Batch):
            try:
                return self._sent(request.statements)
            except psycopg.Error as error:
                raise self._database._translated(error, self._connection) from error
        if request is Fresh.CONNECTION:
            self.give_back(broken=True)
            self._take()
        elif isinstance(request, Pause):
            self.give_back()
            time.sleep(request.seconds)
        return None

    def give_back(self, broken: bool = False) -> None:
        connection, use = self._connection, self._use
        if connection is None or use is None:
            return
        self._connection = None
        broken = broken or _is_unusable(connection, use)
        if not broken and not use.own_mode:
            connection.autocommit = False
        self._database._sync.give_back(connection, broken=broken)

    def _take(self) -> psycopg.Connection[Any]:
        try:
            connection = self._database._sync.take()
        except psycopg.Error as error:
            raise self._database._translated(error, None) from error
        self._connection, self._use = connection, _Use(connection)
        if not self._use.own_mode:
            connection.autocommit = True
        return connection

    def _sent(self, statements: Sequence[Statement]) -> list[Rows]:
        connection = self._connection or self._take()
        statements = self._use.worded(statements)  # type: ignore[union-attr]
        if len(statements) == 1 or not self._database._pipeline:
            return [self._rows(self._run(connection, *statement)) for statement in statements]
        with connection.pipeline():
            cursors = [self._run(connection, *statement) for statement in statements]
        return [self._rows(cursor) for cursor in cursors]

    def _run(self, connection: psycopg.Connection[Any], sql: str, params: Any) -> psycopg.RawCursor[Row]:
        return psycopg.RawCursor(connection, row_factory=tuple_row).execute(sql, params, binary=True)

    def _rows(self, cursor: psycopg.RawCursor[Row]) -> Rows:
        return cursor.fetchall() if _has_rows(cursor) else []


class _AsyncLent:
    """The async connection of one operation that is performed."""

    def __init__(self, database: PostgresDatabase, source: AsyncSource) -> None:
        self._database = database
        self._source = source
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._use: _Use | None = None

    async def perform(self, request: Request) -> list[Rows] | None:
        if isinstance(request, Batch):
            try:
                return await self._sent(request.statements)
            except psycopg.Error as error:
                raise self._database._translated(error, self._connection) from error
        if request is Fresh.CONNECTION:
            await self.give_back(broken=True)
            await self._take()
        elif isinstance(request, Pause):
            await self.give_back()
            await asyncio.sleep(request.seconds)
        return None

    async def give_back(self, broken: bool = False) -> None:
        connection, use = self._connection, self._use
        if connection is None or use is None:
            return
        self._connection = None
        broken = broken or _is_unusable(connection, use)
        if not broken and not use.own_mode:
            await connection.set_autocommit(False)
        await self._source.give_back(connection, broken=broken)

    async def _take(self) -> psycopg.AsyncConnection[Any]:
        try:
            connection = await self._source.take()
        except psycopg.Error as error:
            raise self._database._translated(error, None) from error
        self._connection, self._use = connection, _Use(connection)
        if not self._use.own_mode:
            await connection.set_autocommit(True)
        return connection

    async def _sent(self, statements: Sequence[Statement]) -> list[Rows]:
        connection = self._connection or await self._take()
        statements = self._use.worded(statements)  # type: ignore[union-attr]
        if len(statements) == 1 or not self._database._pipeline:
            return [await self._rows(await self._run(connection, *statement)) for statement in statements]
        async with connection.pipeline():
            cursors = [await self._run(connection, *statement) for statement in statements]
        return [await self._rows(cursor) for cursor in cursors]

    async def _run(
        self, connection: psycopg.AsyncConnection[Any], sql: str, params: Any
    ) -> psycopg.AsyncRawCursor[Row]:
        cursor = psycopg.AsyncRawCursor(connection, row_factory=tuple_row)
        return await cursor.execute(sql, params, binary=True)

    async def _rows(self, cursor: psycopg.AsyncRawCursor[Row]) -> Rows:
        return await cursor.fetchall() if _has_rows(cursor) else []


def _has_rows(cursor: _AnyCursor) -> bool:
    return cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK
