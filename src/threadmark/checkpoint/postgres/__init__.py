"""A saver that keeps everything in a Postgres database, which any number of processes may share.

One class serves sync and async programs. Call `setup` once, before the first use and after an update.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from threadmark._db.effects import Operation
from threadmark.checkpoint._sql.commit import Committing, commit
from threadmark.checkpoint._sql.read import Opened
from threadmark.checkpoint._sql.saver import SqlSaver
from threadmark.checkpoint.address import Address
from threadmark.checkpoint.base import Head, Prepared
from threadmark.checkpoint.options import History, SaverOptions
from threadmark.checkpoint.rows import MAX_VALUE_BYTES
from threadmark.checkpoint.serde.base import SerializerProtocol
from threadmark.errors import (
    InvalidArgumentError,
    MissingDependencyError,
    StorageUnavailableError,
    ThreadConflictError,
)

try:
    import psycopg  # noqa: F401 - to say what is missing
except ImportError as error:
    raise MissingDependencyError("The Postgres saver needs psycopg. Install threadmark[postgres].") from error

from threadmark._db.postgres import PostgresDatabase
from threadmark._db.postgres_session import Again
from threadmark._db.postgres_tables import Names, migrate
from threadmark.checkpoint.postgres.hints import hinted
from threadmark.checkpoint.postgres.opening import open_tip
from threadmark.checkpoint.postgres.sql import statements_for
from threadmark.checkpoint.postgres.step import carried_out, step
from threadmark.checkpoint.postgres.tables import migrations

if TYPE_CHECKING:
    from threadmark._db.postgres import Target

__all__ = ["AsyncPostgresSaver", "PostgresSaver"]

T = TypeVar("T")


class PostgresSaver(SqlSaver):
    """Keeps checkpoints in a Postgres database.

    Args:
        conn: A connection string, a psycopg connection or a psycopg_pool pool, sync or async. With a
            string, the saver opens connections when it needs them; what was given is used and left open.
            With a sync connection or pool, async calls run in threads; with an async one, sync calls use
            connections of the saver's own.
        serde: The serializer.
        schema: The schema of the tables. The default is the one that a connection is in.
        prefix: What the names of the tables begin with.
        max_value_bytes: The largest encoded value that is taken.
        compress: Whether values are compressed with zstd where it helps.
        history: `"latest"` keeps the tip of each branch and nothing before it.
        ttl: How long a new thread lives; `None` for ever.
        refresh_ttl: Whether every commit begins that time anew.
        max_connections: How many connections the saver opens of its own, for sync and for async calls.
        timeout: For how many seconds to wait for a connection that is not in use.
        patience: For how many seconds to try again when the server has gone away.
        pipeline: Whether statements that need not wait for one another are sent together.
        prepare_threshold: After how many times the saver's own connections prepare a statement. `None`
            never does, for poolers that do not keep prepared statements.
    """

    def __init__(
        self,
        conn: Target,
        pipe: None = None,
        serde: SerializerProtocol | None = None,
        *,
        schema: str | None = None,
        prefix: str = "tm_",
        max_value_bytes: int = MAX_VALUE_BYTES,
        compress: bool = False,
        history: History = "all",
        ttl: timedelta | None = None,
        refresh_ttl: bool = True,
        max_connections: int = 10,
        timeout: float = 30.0,
        patience: float = 30.0,
        pipeline: bool = True,
        prepare_threshold: int | None = 5,
    ) -> None:
        if pipe is not None:
            raise InvalidArgumentError("The saver makes its own pipelines. Leave pipe out.")
        self._names = Names(schema, prefix)
        options = SaverOptions(max_value_bytes, compress, history, ttl, refresh_ttl)
        self._server = PostgresDatabase(
            conn,
            limit=max_connections,
            timeout=timeout,
            patience=patience,
            pipeline=pipeline,
            prepare_threshold=prepare_threshold,
        )
        super().__init__(self._server, statements_for(self._names), serde=serde, options=options)

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Return a saver for a connection string, to be used in a `with` or `async with` block, which
        closes it. `options` are those of the class."""
        return cls(conn_string, **options)

    # Tables

    def setup(self, *, partitions: int = 0) -> None:
        """Create the tables, or bring them up to date. Any number of processes may call it at once.

        Args:
            partitions: Into how many parts to split new tables by the hash of the thread.

        Raises:
            StorageFormatError: The tables were made by a later release.
        """
        self._server.perform(self._setup(partitions))

    async def asetup(self, *, partitions: int = 0) -> None:
        """Async `setup`."""
        await self._server.aperform(self._setup(partitions))

    def _setup(self, partitions: int) -> Operation[None]:
        if isinstance(partitions, bool) or not isinstance(partitions, int) or not 0 <= partitions <= 1024:
            raise InvalidArgumentError(f"partitions is a number from 0 to 1024, not {partitions!r}.")
        return Again(lambda: migrate(self._names, "checkpoints", migrations(partitions)))

    # Reading and writing

    def _opening(self, address: Address) -> Operation[Opened]:
        if address.checkpoint_id is not None:
            return super()._opening(address)
        return open_tip(self._reading(), address, self._names)

    def _again(self, start: Callable[[], Operation[T]]) -> Operation[T]:
        return Again(start)

    def _committing(self, *prepared: Prepared) -> Operation[Head | None]:
        index = self._index()
        tasks = [Committing(index, one, self._options) for one in prepared]
        if len(tasks) == 1:
            return Again(_Saving(tasks[0], self._names).operation)
        return Again(lambda: hinted(commit(tasks), self._sql))


class AsyncPostgresSaver(PostgresSaver):
    """A `PostgresSaver` whose `setup` is a coroutine, as async programs expect it."""

    async def setup(self, *, partitions: int = 0) -> None:  # type: ignore[override]
        """Async `PostgresSaver.setup`."""
        await self.asetup(partitions=partitions)


class _Saving:
    """A commit that may be tried several times, and is carried out once."""

    def __init__(self, task: Committing, names: Names) -> None:
        self._task = task
        self._names = names
        self._in_doubt = False

    def operation(self) -> Operation[Head | None]:
        """Save the commit."""
        head = yield from self._at_once()
        if head is not None:
            return head
        try:
            return (yield from hinted(commit([self._task]), self._task.sql))
        except ThreadConflictError as error:
            # What won may be what we sent before the connection broke.
            if not self._in_doubt or error.found != self._task.work.checkpoint_id:
                raise
        return (yield from carried_out(self._task))

    def _at_once(self) -> Operation[Head | None]:
        if self._in_doubt:
            return (yield from carried_out(self._task))
        try:
            return (yield from step(self._task, self._names))
        except StorageUnavailableError:
            self._in_doubt = True
            raise
