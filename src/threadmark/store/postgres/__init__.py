"""A store in a Postgres database, which threads, event loops and processes may share.

One class serves sync and async callers. `AsyncPostgresStore` is the same class with its housekeeping
calls as coroutines, for programs that were written so. Call `setup` once before the first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self, TypeVar

from threadmark._checks import flag
from threadmark._db.closing import Closing
from threadmark._db.effects import Execute, Operation, Transaction
from threadmark._db.worker import run_apart
from threadmark.errors import MissingDependencyError
from threadmark.store.backend import Record
from threadmark.store.core import RecordStore
from threadmark.store.indexing import Index
from threadmark.store.operations import Answers, Job, Operations
from threadmark.store.ops import IndexConfig, Result, TTLConfig

try:
    import psycopg  # noqa: F401 - to say what is missing
except ImportError as error:
    raise MissingDependencyError("The Postgres store needs psycopg. Install threadmark[postgres].") from error

from threadmark._db.postgres import PostgresDatabase
from threadmark._db.postgres_session import Again, Once
from threadmark._db.postgres_tables import Names, migrate
from threadmark.store.postgres import statements as sql
from threadmark.store.postgres.backend import PostgresBackend
from threadmark.store.postgres.nearest import Space

if TYPE_CHECKING:
    from threadmark._db.postgres import Target

__all__ = ["AsyncPostgresStore", "PostgresStore"]

T = TypeVar("T")


class PostgresStore(Closing, RecordStore):
    """A store in a Postgres database, for sync and async callers. Close it, or use it as a context manager.

    Args:
        conn: A connection string, a psycopg connection or a psycopg_pool pool, sync or async, as for
            `PostgresSaver`.
        index: How items are made searchable. Without it, queries look for words in whole values.
        ttl: How long items live.
        exact: Whether to compare a query with all vectors, instead of asking an HNSW index for the
            nearest.
        schema: The schema of the tables. The default is the one that a connection is in.
        prefix: What the names of the tables begin with.
        max_connections: How many connections the store opens of its own, for sync and for async calls.
        timeout: For how many seconds to wait for a connection that is not in use.
        patience: For how many seconds to try again when the server has gone away.
        pipeline: Whether statements that need not wait for one another are sent together.
        prepare_threshold: After how many times the store's own connections prepare a statement; `None`:
            never.
        clock: Returns the time in seconds since 1970; for tests.

    Raises:
        InvalidArgumentError: An argument is refused.
        MissingDependencyError: The index needs a package that is not installed.
    """

    def __init__(
        self,
        conn: Target,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        exact: bool = False,
        schema: str | None = None,
        prefix: str = "tm_store_",
        max_connections: int = 10,
        timeout: float = 30.0,
        patience: float = 30.0,
        pipeline: bool = True,
        prepare_threshold: int | None = 5,
        clock: Callable[[], float] | None = None,
    ) -> None:
        checked = None if index is None else Index(index)
        flag("exact", exact)
        self.index_config = index
        self._names = Names(schema, prefix)
        self._space = Space(checked, exact) if checked is not None and checked.dims else None
        self._server = PostgresDatabase(
            conn,
            limit=max_connections,
            timeout=timeout,
            patience=patience,
            pipeline=pipeline,
            prepare_threshold=prepare_threshold,
        )
        backend = PostgresBackend(self._names, checked, self._space)
        super().__init__(backend, index=checked, ttl=ttl, clock=clock, durable=False)
        self._operations = _Startable(self._operations)

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Return a store that is closed when its `with` or `async with` block ends. `options` are those of
        the class."""
        return cls(conn_string, **options)

    def setup(self) -> None:
        """Create the tables, or bring them up to date. Any number of processes may call it at once.

        Raises:
            StorageFormatError: The tables were made by a later release.
        """
        self._perform(Again(self._setup))

    async def asetup(self) -> None:
        """Async `setup`."""
        await self._aperform(Again(self._setup))

    def _setup(self) -> Operation[None]:
        yield from migrate(self._names, "store", sql.MIGRATIONS)
        if self._space is None:
            return
        yield from migrate(self._names, "vectors", sql.VECTOR_MIGRATIONS)
        if not self._space.exact:
            yield from self._index_vectors(self._space)

    def _index_vectors(self, space: Space) -> Operation[None]:
        """Create the index for vectors of this size, without keeping writers waiting for long."""
        index = self._names.table(space.sql.index)
        found = yield Execute(sql.FIND_INDEX, (index,))
        if found and any(found[0]):
            return  # It is there, or somebody else is making it.
        if found:
            # Whoever was making it died.
            yield Once(f"DROP INDEX CONCURRENTLY IF EXISTS {index}")
        filled = yield Execute(self._names.worded(sql.HAS_VECTORS), (space.dims,))
        text = self._names.worded(space.sql.create_index)
        if filled[0][0]:
            yield Once(text.format(how="CONCURRENTLY"))
        else:
            yield Transaction(self._locked(text.format(how="")))

    def _locked(self, statement: str) -> Operation[None]:
        yield Execute("SELECT pg_advisory_xact_lock($1)", (self._names.lock,))
        yield Execute(statement)

    def close(self) -> None:
        """End the sweeper, finish what is under way, and close the store's own connections."""
        self._sweeper.stop()
        self._server.close()

    def _perform(self, operation: Operation[T]) -> T:
        return self._server.perform(operation)

    async def _aperform(self, operation: Operation[T], jobs: Sequence[Job] = ()) -> T:
        return await self._server.aperform(operation)


class AsyncPostgresStore(PostgresStore):
    """A `PostgresStore` whose housekeeping calls are coroutines, as async programs expect them."""

    async def setup(self) -> None:  # type: ignore[override]
        """Async `PostgresStore.setup`."""
        await self.asetup()

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        """Async `PostgresStore.sweep_ttl`."""
        return await self.asweep_ttl()

    async def start_ttl_sweeper(  # type: ignore[override]
        self, sweep_interval_minutes: float | None = None
    ) -> Future[None]:
        """Async `PostgresStore.start_ttl_sweeper`."""
        return super().start_ttl_sweeper(sweep_interval_minutes)

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Async `PostgresStore.stop_ttl_sweeper`."""
        return await run_apart(lambda: self._sweeper.stop(timeout))


class _Startable(Operations):
    """Operations that can be started again after they were undone by others or lost their connection."""

    def __init__(self, operations: Operations) -> None:
        self._inner = operations

    def batch(self, jobs: Sequence[Job], answers: Answers | None = None) -> Operation[list[Result]]:
        found = answers or Answers()
        return Again(lambda: self._inner.batch(jobs, found))

    def sweep(self, limit: int) -> Operation[int]:
        return Again(lambda: self._inner.sweep(limit))

    def reindexable(self, resume: Any) -> Operation[tuple[list[Record], Any]]:
        return Again(lambda: self._inner.reindexable(resume))

    def reindex(self, records: Sequence[Record], vectors: Sequence[Any]) -> Operation[None]:
        return Again(lambda: self._inner.reindex(records, vectors))
