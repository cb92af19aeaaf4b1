"""Where connections to Postgres come from: our own, one that was given, or a pool that was given.

A source lends connections and takes them back. Our own are opened when they are needed, at most so many
at once, and kept. Sync and async sources are alike, line by line, and differ in how they wait. Nothing
here knows what is done with a connection.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import psycopg

from threadmark.errors import InvalidArgumentError, StorageBusyError

__all__ = [
    "AsyncGiven",
    "AsyncOwn",
    "AsyncPooled",
    "AsyncSource",
    "Connecting",
    "Given",
    "Own",
    "Pooled",
    "Source",
    "parameters_of",
]

Connection: TypeAlias = "psycopg.Connection[Any]"
AsyncConnection: TypeAlias = "psycopg.AsyncConnection[Any]"


class Source(Protocol):
    """Lends connections to sync callers."""

    limit: int
    """How many connections it lends at once."""

    def take(self) -> Connection:
        """Return a connection that nobody else uses."""
        ...

    def give_back(self, connection: Connection, *, broken: bool) -> None:
        """Take a connection back."""
        ...

    def close(self) -> None:
        """Close what is ours."""
        ...


class AsyncSource(Protocol):
    """Lends connections to async callers."""

    async def take(self) -> AsyncConnection:
        """Return a connection that nobody else uses."""
        ...

    async def give_back(self, connection: AsyncConnection, *, broken: bool) -> None:
        """Take a connection back."""
        ...

    def close(self) -> None:
        """Close what is ours."""
        ...


Connecting: TypeAlias = "Mapping[str, Any]"
"""The arguments that open a connection."""


def parameters_of(connection: Connection | AsyncConnection) -> Connecting:
    """Return the arguments that open a connection like one that was given."""
    try:
        info = connection.info
        parameters: dict[str, Any] = dict(info.get_parameters())
        if info.password:
            parameters["password"] = info.password
    except psycopg.Error as error:
        raise InvalidArgumentError("The connection is closed. Pass one that is open.") from error
    return {**parameters, "autocommit": True, "prepare_threshold": connection.prepare_threshold}


class _Kept:
    """Connections of our own that nobody uses at the moment."""

    def __init__(self) -> None:
        self._idle: list[Any] = []
        self._process = os.getpid()

    def pop(self) -> Any:
        """Return one that is usable as far as one can tell, or `None`."""
        if self._process != os.getpid():
            # They belong to the parent process: closing them here would end its sessions.
            _parents.append(self._idle)
            self._idle, self._process = [], os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not connection.closed:
                return connection

    def push(self, connection: Any, *, broken: bool) -> None:
        """Keep one. After a broken one, the others are not trusted either."""
        if broken:
            connection.pgconn.finish()
            self.clear()
        else:
            self._idle.append(connection)

    def clear(self) -> None:
        """Close them all."""
        while (connection := self.pop()) is not None:
            connection.pgconn.finish()


_parents: list[Any] = []


class Own:
    """Opens connections of our own.

    Args:
        arguments: The arguments of `psycopg.connect`.
        limit: How many at once.
        timeout: For how many seconds to wait for one.
    """

    def __init__(self, arguments: Connecting, limit: int, timeout: float) -> None:
        self.limit = limit
        self._arguments = dict(arguments)
        self._timeout = timeout
        self._free = threading.BoundedSemaphore(limit)
        self._kept = _Kept()
        self.close = weakref.finalize(self, self._kept.clear)

    def take(self) -> Connection:
        """See `Source`."""
        if not self._free.acquire(timeout=self._timeout):
            raise _exhausted(self.limit, self._timeout)
        try:
            return self._kept.pop() or psycopg.connect(**self._arguments)
        except BaseException:
            self._free.release()
            raise

    def give_back(self, connection: Connection, *, broken: bool) -> None:
        """See `Source`."""
        self._kept.push(connection, broken=broken or not self.close.alive)
        self._free.release()


class AsyncOwn:
    """Opens async connections of our own, which event loops may share one after the other.

    Args:
        arguments: The arguments of `psycopg.AsyncConnection.connect`.
        limit: How many at once, in each event loop.
        timeout: For how many seconds to wait for one.
    """

    def __init__(self, arguments: Connecting, limit: int, timeout: float) -> None:
        self._arguments = dict(arguments)
        self._limit = limit
        self._timeout = timeout
        self._free: weakref.WeakKeyDictionary[Any, asyncio.Semaphore] = weakref.WeakKeyDictionary()
        self._kept = _Kept()
        self.close = weakref.finalize(self, self._kept.clear)

    async def take(self) -> AsyncConnection:
        """See `AsyncSource`."""
        free = self._here()
        if free.locked():
            try:
                await asyncio.wait_for(free.acquire(), self._timeout)
            except TimeoutError:
                raise _exhausted(self._limit, self._timeout)
        else:
            await free.acquire()
        try:
            return self._kept.pop() or await psycopg.AsyncConnection.connect(**self._arguments)
        except BaseException:
            free.release()
            raise

    async def give_back(self, connection: AsyncConnection, *, broken: bool) -> None:
        """See `AsyncSource`."""
        self._kept.push(connection, broken=broken or not self.close.alive)
        self._here().release()

    def _here(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        free = self._free.get(loop)
        if free is None:
            free = self._free[loop] = asyncio.Semaphore(self._limit)
        return free


class Given:
    """Lends one connection that was given. When it has died, one of our own takes its place."""

    limit = 1

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection: Connection | None = connection
        self._arguments = parameters_of(connection)
        self._timeout = timeout
        self._free = threading.Lock()
        self._ours = False

    def take(self) -> Connection:
        """See `Source`."""
        if not self._free.acquire(timeout=self._timeout):
            raise _exhausted(1, self._timeout)
        try:
            if self._connection is None or self._connection.closed:
                self._connection, self._ours = psycopg.connect(**self._arguments), True
            return self._connection
        except BaseException:
            self._free.release()
            raise

    def give_back(self, connection: Connection, *, broken: bool) -> None:
        """See `Source`."""
        if broken:
            connection.close()
            self._connection = None
        self._free.release()

    def close(self) -> None:
        """See `Source`."""
        if self._ours and self._connection is not None:
            self._connection.close()


class AsyncGiven:
    """Lends one async connection that was given. When it has died, one of our own takes its place."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection: AsyncConnection | None = connection
        self._arguments = parameters_of(connection)
        self._free = asyncio.Lock()
        self._ours = False

    async def take(self) -> AsyncConnection:
        """See `AsyncSource`."""
        await self._free.acquire()
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await psycopg.AsyncConnection.connect(**self._arguments)
                self._ours = True
            return self._connection
        except BaseException:
            self._free.release()
            raise

    async def give_back(self, connection: AsyncConnection, *, broken: bool) -> None:
        """See `AsyncSource`."""
        if broken:
            await connection.close()
            self._connection = None
        self._free.release()

    def close(self) -> None:
        """See `AsyncSource`."""
        if self._ours and self._connection is not None:
            self._connection.pgconn.finish()


class Pooled:
    """Lends the connections of a pool that was given."""

    def __init__(self, pool: Any, refused: Callable[[Exception], bool]) -> None:
        self._pool = pool
        self._refused = refused
        self.limit = int(pool.max_size)

    def take(self) -> Connection:
        """See `Source`."""
        try:
            connection: Connection = self._pool.getconn()
        except Exception as error:
            if self._refused(error):
                raise StorageBusyError(f"The pool gave no connection: {error}.") from error
            raise
        return connection

    def give_back(self, connection: Connection, *, broken: bool) -> None:
        """See `Source`."""
        if broken:
            connection.close()
        self._pool.putconn(connection)

    def close(self) -> None:
        """See `Source`. The pool is not ours."""


class AsyncPooled:
    """Lends the connections of an async pool that was given."""

    def __init__(self, pool: Any, refused: Callable[[Exception], bool]) -> None:
        self._pool = pool
        self._refused = refused

    async def take(self) -> AsyncConnection:
        """See `AsyncSource`."""
        try:
            connection: AsyncConnection = await self._pool.getconn()
        except Exception as error:
            if self._refused(error):
                raise StorageBusyError(f"The pool gave no connection: {error}.") from error
            raise
        return connection

    async def give_back(self, connection: AsyncConnection, *, broken: bool) -> None:
        """See `AsyncSource`."""
        if broken:
            await connection.close()
        await self._pool.putconn(connection)

    def close(self) -> None:
        """See `AsyncSource`. The pool is not ours."""


def _exhausted(limit: int, timeout: float) -> StorageBusyError:
    return StorageBusyError(
        f"All {limit} connections were in use for {timeout:g} s; retry, or allow more connections."
    )
