"""Performs effects on a SQLite database, for callers with and without an event loop.

One `SqliteDatabase` stands for one file (or one database in memory). It keeps a connection for
writing, guarded by a lock, and a few for reading, so that readers wait for nobody. Sync calls work
where they are called, also inside an event loop: they hold the lock for the moment of one
transaction and never wait for the loop. Async calls run in threads of their own. Nothing here knows
what is stored.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar

from threadmark._checks import amount, flag
from threadmark._db.drive import drive, resume
from threadmark._db.effects import Effect, Execute, ExecuteMany, Operation, Rows, Transaction
from threadmark._db.sqlite_errors import translated
from threadmark._db.sqlite_open import Opener, opener_for
from threadmark._db.worker import Worker, run_apart
from threadmark.errors import StorageBusyError, StorageError

__all__ = ["SqliteDatabase", "Target"]

T = TypeVar("T")
Target: TypeAlias = "str | os.PathLike[str] | sqlite3.Connection"

_READERS_KEPT = 4
_LONGEST_WAIT = 2_000_000
"""In seconds; SQLite counts milliseconds in 32 bits."""
_COMMIT = Execute("COMMIT")
_log = logging.getLogger("threadmark.sqlite")


class SqliteDatabase:
    """One SQLite database that any number of threads, event loops and processes may share.

    Args:
        target: A path, `":memory:"`, a `file:` URI, or a connection. A connection to a file only
            says which file; a connection to a database in memory is used itself.
        component: Whose tables these are; several components may share a file.
        migrations: The statements that lead from one version of the component's tables to the next.
            The first entry makes version 1 from nothing.
        busy_timeout: How long to wait for other writers, in seconds.
        shared: The file belongs to another application, beside whose tables ours may live.
    """

    def __init__(
        self,
        target: Target,
        *,
        component: str,
        migrations: Sequence[Sequence[str]],
        busy_timeout: float = 10.0,
        shared: bool = False,
    ) -> None:
        amount("busy_timeout", busy_timeout, zero=True, most=_LONGEST_WAIT)
        flag("shared", shared)
        self._opener = opener_for(target, component, migrations, busy_timeout, shared)
        self._busy_timeout = busy_timeout
        self._closed = False
        self._reset()
        _living.add(self)

    @property
    def name(self) -> str:
        """The path of the file, or `":memory:"`."""
        return self._opener.name

    def perform(self, operation: Operation[T]) -> T:
        """Run an operation in the calling thread and return its result.

        Raises:
            StorageError: SQLite refused, and the operation did not handle it.
        """
        return drive(operation, self._effect)

    async def aperform(self, operation: Operation[T]) -> T:
        """Run an operation without blocking the event loop.

        When the await is cancelled, an operation that has not begun is dropped and one that has
        begun is waited for. A database in memory has nothing to wait for and is used at once.
        """
        if self._opener.in_memory or self._closed:
            return self.perform(operation)
        try:
            first = next(operation)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        writes = isinstance(first, Transaction) and not first.read_only
        worker = self._write_worker if writes else self._read_worker
        try:
            return await worker.run(lambda: resume(operation, first, self._effect))
        finally:
            operation.close()

    def close(self) -> None:
        """Finish what is under way, end the threads and close the connections."""
        self._closed = True
        self._write_worker.close()
        self._read_worker.close()
        # Another thread may be in the middle of a transaction; no new one begins any more.
        waited = self._write_lock.acquire(timeout=self._busy_timeout)
        try:
            self._connections.close()
        finally:
            if waited:
                self._write_lock.release()

    async def aclose(self) -> None:
        """Close without blocking the event loop."""
        if not self._closed:
            await run_apart(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _reset(self) -> None:
        self._connections = _Connections(self._opener)
        self._write_lock = threading.Lock()
        self._write_worker = Worker("threadmark-write")
        self._read_worker = Worker("threadmark-read", _READERS_KEPT)

    # Effects

    def _effect(self, effect: Effect) -> Any:
        if self._closed:
            raise StorageError(f"{self.name} was closed; open it again.")
        if type(effect) is not Transaction:
            with self._reader() as connection:
                return _statement(self.name, connection, effect)
        if effect.read_only:
            with self._reader() as connection:
                return self._transaction(connection, "BEGIN", effect.body)
        with self._writing():
            connection = self._connections.writer(effect.durable)
            return self._transaction(connection, "BEGIN IMMEDIATE", effect.body)

    def _transaction(self, connection: sqlite3.Connection, begin: str, body: Operation[T]) -> T:
        perform: Callable[[Effect], Rows] = partial(_statement, self.name, connection)
        done = False
        try:
            perform(Execute(begin))
            result = drive(body, perform)
            perform(_COMMIT)
            done = True
            return result
        finally:
            if not done:
                self._roll_back(connection)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:
            return
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            # What made us roll back says more than this does; a connection that is closed drops its
            # transaction as well.
            _log.exception("%s: rolling back failed", self.name)
            self._connections.discard_writers()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if not self._write_lock.acquire(timeout=self._busy_timeout):
            raise StorageBusyError(
                f"{self.name}: another thread kept writing for {self._busy_timeout:g} s; retry."
            )
        try:
            yield
        finally:
            self._write_lock.release()

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        if not self._connections.apart:
            with self._writing():
                yield self._connections.writer(False)
            return
        connection = self._connections.take_reader()
        try:
            yield connection
        finally:
            self._connections.put_back(connection)


class _Connections:
    """The open connections: at most one writer per durability, and some readers at rest."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._writers: dict[bool, sqlite3.Connection] = {}
        self._readers: list[sqlite3.Connection] = []
        self.apart = not opener.in_memory
        self.close = weakref.finalize(self, _close_all, self._writers, self._readers, opener.given is None)

    def writer(self, durable: bool) -> sqlite3.Connection:
        """Return the connection for writing. The caller holds the write lock."""
        durable = durable and self.apart
        found = self._writers.get(durable)
        if found is None:
            found = self._writers[durable] = self._opener.writer(durable)
        return found

    def take_reader(self) -> sqlite3.Connection:
        # Every run begins with reading, so this is where it is noticed that the file is another.
        self._opener.check_file()
        try:
            return self._readers.pop()
        except IndexError:
            return self._opener.reader()

    def put_back(self, connection: sqlite3.Connection) -> None:
        if self.close.alive and len(self._readers) < _READERS_KEPT and not connection.in_transaction:
            self._readers.append(connection)
        else:
            connection.close()

    def discard_writers(self) -> None:
        for connection in self._writers.values():
            connection.close()
        self._writers.clear()

    def forget(self) -> None:
        """Drop the connections without touching the file: they belong to the parent process."""
        self.close.detach()
        _parents.append((self._writers, self._readers))


def _close_all(
    writers: dict[bool, sqlite3.Connection], readers: list[sqlite3.Connection], owned: bool
) -> None:
    if owned:
        for connection in [*readers, *writers.values()]:
            connection.close()
    readers.clear()
    writers.clear()


def _statement(name: str, connection: sqlite3.Connection, effect: Effect) -> Rows:
    try:
        if type(effect) is Execute:
            return connection.execute(effect.sql, effect.params).fetchall()
        if type(effect) is ExecuteMany:
            connection.executemany(effect.sql, effect.params)
            return []
    except sqlite3.Error as error:
        raise translated(error, name) from error
    raise TypeError(f"A transaction cannot hold the effect {effect!r}.")


# SQLite connections must not be carried across a fork: the child starts with none, and never closes
# those of its parent.
_living: weakref.WeakSet[SqliteDatabase] = weakref.WeakSet()
_parents: list[Any] = []


def _after_fork() -> None:
    for database in list(_living):
        database._connections.forget()
        database._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
