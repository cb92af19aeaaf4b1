"""A saver over any SQL database: its methods hand operations to a database object, sync or async."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from threadmark._db.effects import Operation
from threadmark.checkpoint._sql.commit import Committing, commit
from threadmark.checkpoint._sql.deletion import delete_thread
from threadmark.checkpoint._sql.pack import packed
from threadmark.checkpoint._sql.read import Listing, Opened, Reading, load, next_page, stored_values
from threadmark.checkpoint._sql.statements import Statements
from threadmark.checkpoint.address import Address, Selection, address_of, selection_of, thread_id_of
from threadmark.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Commit,
    Head,
    Loaded,
    Prepared,
    TaskCommit,
    TaskWrites,
    checkpoint_config,
    get_checkpoint_metadata,
)
from threadmark.checkpoint.decode import Shared, decode
from threadmark.checkpoint.encode import EncodedCommit, Memo, encode
from threadmark.checkpoint.rows import MAX_VALUE_BYTES, RowCodec
from threadmark.checkpoint.serde.base import Encoded, SerializerProtocol
from threadmark.config import RunnableConfig

__all__ = ["Database", "SqlSaver"]

T = TypeVar("T")
Stored: TypeAlias = "Mapping[str, Encoded | list[bytes]]"

_FIRST_PAGE = 16
_LARGEST_PAGE = 512


class Database(Protocol):
    """What performs operations: a driver of `threadmark._db`."""

    def perform(self, operation: Operation[T]) -> T:
        """Run an operation in the calling thread."""
        ...

    async def aperform(self, operation: Operation[T]) -> T:
        """Run an operation without blocking the event loop."""
        ...


class SqlSaver(BaseCheckpointSaver[str]):
    """Keeps checkpoints in a SQL database.

    Args:
        database: Where.
        statements: The statements of that kind of database.
        serde: The serializer.
        max_value_bytes: The largest encoded value that is taken.
        compress: Whether values are compressed with zstd where it helps.
    """

    def __init__(
        self,
        database: Database,
        statements: Statements,
        *,
        serde: SerializerProtocol | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
        compress: bool = False,
    ) -> None:
        super().__init__(serde=serde)
        self._database = database
        self._sql = statements
        self._max_value_bytes = max_value_bytes
        self._compress = compress
        self._rows = RowCodec(self.serde, max_value_bytes, compress)

    @property
    def _codec(self) -> RowCodec:
        if self._rows.serde is not self.serde:
            self._rows = RowCodec(self.serde, self._max_value_bytes, self._compress)
        return self._rows

    def _now(self) -> int:
        return time.time_ns() // 1_000_000

    def _reading(self) -> Reading:
        return Reading(self._sql, self._codec, self._now())

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names (without an id: the head), or `None`."""
        return self.load(config).saved

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async `get_tuple`."""
        return (await self.aload(config)).saved

    def load(self, config: RunnableConfig) -> Loaded:
        """Return the checkpoint that `config` names with what later commits of the run need."""
        address = address_of(config)
        return self._loaded(address, self._database.perform(load(self._reading(), address)))

    async def aload(self, config: RunnableConfig) -> Loaded:
        """Async `load`."""
        address = address_of(config)
        return self._loaded(address, await self._database.aperform(load(self._reading(), address)))

    def _loaded(self, address: Address, opened: Opened) -> Loaded:
        at = opened.standing
        saved = decode(opened.stored, self._codec) if opened.stored is not None else None
        return Loaded(saved, Head(at.incarnation, at.tip, address.branch), opened.memo)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first; without a thread, the threads changed last come first.

        Checkpoints are read in pages, and nothing is locked between them. Items that lists of several
        checkpoints have in common are the same objects.
        """
        return self._listed(selection_of(config, filter, before, limit))

    def _listed(self, wanted: Selection) -> Iterator[CheckpointTuple]:
        pages = _Pages(wanted, self._reading())
        while pages.go_on():
            yield from pages.taken(self._database.perform(pages.operation()))

    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async `list`."""
        return self._alisted(selection_of(config, filter, before, limit))

    async def _alisted(self, wanted: Selection) -> AsyncIterator[CheckpointTuple]:
        pages = _Pages(wanted, self._reading())
        while pages.go_on():
            for found in pages.taken(await self._database.aperform(pages.operation())):
                yield found

    # Writing

    def prepare(self, commit: Commit | TaskCommit) -> Prepared:
        """Encode and check a commit."""
        return self._encoded(commit, {})

    def _encoded(self, commit: Commit | TaskCommit, existing: Stored) -> EncodedCommit:
        codec = self._codec
        return encode(commit, codec, lambda bare: codec.dumps(packed(bare), "checkpoint"), existing)

    def _committing(self, prepared: Prepared) -> Operation[Head | None]:
        return commit(Committing(self._sql, self._codec, prepared, self._now()))

    def commit(self, prepared: Prepared) -> Head | None:
        """Save what `prepare` returned in one transaction, and return the head that is next.

        Raises:
            ThreadConflictError: The head is not the one that the commit expects.
            ThreadDeletedError: The thread was deleted in the meantime.
        """
        return self._database.perform(self._committing(prepared))

    async def acommit(self, prepared: Prepared) -> Head | None:
        """Async `commit`."""
        return await self._database.aperform(self._committing(prepared))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint after the one that `config` names, and return its address."""
        address = address_of(config)
        known = self._database.perform(self._known(address, checkpoint))
        self.commit(self._prepared(config, checkpoint, metadata, new_versions, known))
        return checkpoint_config(address.thread_id, address.ns, checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async `put`."""
        address = address_of(config)
        known = await self._database.aperform(self._known(address, checkpoint))
        await self.acommit(self._prepared(config, checkpoint, metadata, new_versions, known))
        return checkpoint_config(address.thread_id, address.ns, checkpoint["id"])

    def _known(self, address: Address, checkpoint: Checkpoint) -> Operation[tuple[Memo, Stored]]:
        """Read what is stored that a checkpoint may build on: its parent's values, and its own."""
        memo = Memo()
        if address.checkpoint_id is not None:
            memo = (yield from load(self._reading(), address)).memo
        versions = checkpoint["channel_versions"]
        unknown = {c: v for c, v in versions.items() if memo.versions.get(c) != v}
        return memo, (yield from stored_values(self._reading(), address, unknown))

    def _prepared(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        known: tuple[Memo, Stored],
    ) -> Prepared:
        address = address_of(config)
        memo, existing = known
        work = Commit(
            address.thread_id,
            address.ns,
            address.checkpoint_id,
            checkpoint,
            get_checkpoint_metadata(config, metadata),
            new_versions,
            memo=memo,
            status="idle",
        )
        prepared = self._encoded(work, existing)
        prepared.branch = address.branch
        return prepared

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save the writes of a task that ran from the checkpoint that `config` names."""
        self.commit(self._prepared_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Async `put_writes`."""
        await self.acommit(self._prepared_writes(config, writes, task_id, task_path))

    def _prepared_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Prepared:
        address = address_of(config, need_checkpoint=True)
        tasks = [TaskWrites(task_id, task_path, writes)]
        return self.prepare(TaskCommit(address.thread_id, address.ns, address.checkpoint_id or "", tasks))

    # Deletion

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread. A late write of a run under way cannot bring it back."""
        self._database.perform(delete_thread(self._sql, thread_id_of(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """Async `delete_thread`."""
        await self._database.aperform(delete_thread(self._sql, thread_id_of(thread_id)))


class _Pages:
    """A listing on its way: which page is next, and how much is still wanted."""

    def __init__(self, wanted: Selection, reading: Reading) -> None:
        self._reading = reading
        self._shared = Shared(reading.rows)
        self._left = wanted.limit
        self._listing = Listing(wanted, _FIRST_PAGE)

    def go_on(self) -> bool:
        return self._left != 0 and not self._listing.done

    def operation(self) -> Operation[Sequence[Any]]:
        return next_page(self._reading, self._listing)

    def taken(self, page: Sequence[Any]) -> Iterator[CheckpointTuple]:
        """Decode what was read, as far as it is wanted."""
        for stored in page:
            if self._left is not None:
                if self._left == 0:
                    return
                self._left -= 1
            yield decode(stored, self._reading.rows, self._shared)
        self._listing.size = min(self._listing.size * 4, _LARGEST_PAGE)
