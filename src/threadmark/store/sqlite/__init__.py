"""A store in a SQLite file, which threads, event loops and processes may share.

One class serves sync and async callers. `AsyncSqliteStore` is the same class with its housekeeping
calls as coroutines, for programs that were written so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Literal, Self, TypeVar

from threadmark._checks import one_of
from threadmark._db.closing import Closing
from threadmark._db.effects import Execute, Operation
from threadmark._db.sqlite import SqliteDatabase, Target
from threadmark._db.worker import run_apart
from threadmark.store.core import RecordStore
from threadmark.store.indexing import Index
from threadmark.store.operations import Job
from threadmark.store.ops import IndexConfig, TTLConfig
from threadmark.store.sqlite.backend import SqliteBackend
from threadmark.store.sqlite.statements import MIGRATIONS

__all__ = ["AsyncSqliteStore", "SqliteStore"]

T = TypeVar("T")


class SqliteStore(Closing, RecordStore):
    """A store in a SQLite file, for sync and async callers. Close it, or use it as a context manager.

    Args:
        conn: A path, `":memory:"`, a `file:` URI, or a connection (to say which file).
        index: How items are made searchable. Without it, queries look for words in whole values.
        ttl: How long items live.
        durability: `"async"`: what was put survives the death of the process. `"sync"`: it survives a
            power cut as well, and each put waits for the disk.
        busy_timeout: How many seconds to wait for other writers.
        shared: The file belongs to another application, beside whose tables ours may live.
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
        durability: Literal["async", "sync"] = "async",
        busy_timeout: float = 10.0,
        shared: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        one_of("durability", durability, ("async", "sync"))
        checked = None if index is None else Index(index)
        self.index_config = index
        self._database = SqliteDatabase(
            conn, component="store", migrations=MIGRATIONS, busy_timeout=busy_timeout, shared=shared
        )
        super().__init__(
            SqliteBackend(checked), index=checked, ttl=ttl, clock=clock, durable=durability == "sync"
        )

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        durability: Literal["async", "sync"] = "async",
    ) -> Self:
        """Return a store that is closed when its `with` or `async with` block ends.

        Args:
            conn_string: A path, `":memory:"` or a `file:` URI.
            index: How items are made searchable.
            ttl: How long items live.
            durability: What a put must survive.
        """
        return cls(conn_string, index=index, ttl=ttl, durability=durability)

    def setup(self) -> None:
        """Create the tables. The first operation does so as well; this tells at once if it fails."""
        self._perform(_look())

    def close(self) -> None:
        """End the sweeper, finish what is under way, and close the connections."""
        self._sweeper.stop()
        self._database.close()

    def _perform(self, operation: Operation[T]) -> T:
        return self._database.perform(operation)

    async def _aperform(self, operation: Operation[T], jobs: Sequence[Job] = ()) -> T:
        return await self._database.aperform(operation)


class AsyncSqliteStore(SqliteStore):
    """A `SqliteStore` whose housekeeping calls are coroutines, as async programs expect them."""

    async def setup(self) -> None:  # type: ignore[override]
        """Async `SqliteStore.setup`."""
        await self._aperform(_look())

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        """Async `SqliteStore.sweep_ttl`."""
        return await self.asweep_ttl()

    async def start_ttl_sweeper(  # type: ignore[override]
        self, sweep_interval_minutes: float | None = None
    ) -> Future[None]:
        """Async `SqliteStore.start_ttl_sweeper`."""
        return super().start_ttl_sweeper(sweep_interval_minutes)

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Async `SqliteStore.stop_ttl_sweeper`."""
        return await run_apart(lambda: self._sweeper.stop(timeout))


def _look() -> Operation[None]:
    yield Execute("SELECT 1")
