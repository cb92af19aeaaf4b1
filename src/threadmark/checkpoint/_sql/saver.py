"""A saver over any SQL database: its methods hand operations to a database object, sync or async."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from threadmark._checks import duration, text
from threadmark._db.closing import Closing
from threadmark._db.effects import Operation
from threadmark.checkpoint._sql import branches, leases, threads, upkeep
from threadmark.checkpoint._sql.branches import Place
from threadmark.checkpoint._sql.commit import Committing, commit
from threadmark.checkpoint._sql.pack import packed
from threadmark.checkpoint._sql.read import Listing, Opened, Reading, load, next_page, stored_values
from threadmark.checkpoint._sql.statements import Statements
from threadmark.checkpoint._sql.threads import Index
from threadmark.checkpoint.address import (
    Address,
    Selection,
    address_of,
    check_name,
    each_of,
    selection_of,
    thread_id_of,
)
from threadmark.checkpoint.base import (
    Checkpoint,
    CheckpointTuple,
    Head,
    Loaded,
    Prepared,
)
from threadmark.checkpoint.branches import Branch
from threadmark.checkpoint.decode import Shared, decode
from threadmark.checkpoint.encode import Memo, Surroundings
from threadmark.checkpoint.options import SaverOptions
from threadmark.checkpoint.own import Known, OwnSaver
from threadmark.checkpoint.retention import rule_of
from threadmark.checkpoint.serde.base import Encoded, SerializerProtocol
from threadmark.checkpoint.threads import ThreadInfo, ThreadPage, ThreadQuery
from threadmark.checkpoint.upkeep import batch_of, resealer
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

    def close(self) -> None:
        """Finish what is under way and close."""
        ...


class SqlSaver(Closing, OwnSaver):
    """Keeps checkpoints in a SQL database.

    Args:
        database: Where.
        statements: The statements of that kind of database.
        serde: The serializer.
        options: How checkpoints are kept.
    """

    commits_waiting = 8

    def __init__(
        self,
        database: Database,
        statements: Statements,
        *,
        serde: SerializerProtocol | None = None,
        options: SaverOptions,
    ) -> None:
        super().__init__(serde=serde, options=options)
        self._database = database
        self._sql = statements

    def close(self) -> None:
        """Finish what is under way and close what the saver has opened. Closing twice is fine."""
        self._database.close()

    def _again(self, start: Callable[[], Operation[T]]) -> Operation[T]:
        """Return an operation, made so that it can be started again if the database asks for that."""
        return start()

    def _now(self) -> int:
        return self._options.now()

    def _reading(self) -> Reading:
        return Reading(self._sql, self._codec, self._now())

    # Reading

    def load(self, config: RunnableConfig) -> Loaded:
        """Return the checkpoint that `config` names with what later commits of the run need."""
        address = address_of(config)
        return self._loaded(address, self._database.perform(self._again(lambda: self._opening(address))))

    async def aload(self, config: RunnableConfig) -> Loaded:
        """Async `load`."""
        address = address_of(config)
        opened = await self._database.aperform(self._again(lambda: self._opening(address)))
        return self._loaded(address, opened)

    def _opening(self, address: Address) -> Operation[Opened]:
        return load(self._reading(), address)

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
            yield from pages.taken(self._database.perform(self._again(pages.operation)))

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
            for found in pages.taken(await self._database.aperform(self._again(pages.operation))):
                yield found

    # Writing

    def _body(self, bare: Checkpoint, around: Surroundings) -> Encoded:
        return self._codec.dumps(packed(bare, around), "checkpoint")

    def _committing(self, *prepared: Prepared) -> Operation[Head | None]:
        index = self._index()
        return commit([Committing(index, one, self._options) for one in prepared])

    def commit(self, prepared: Prepared) -> Head | None:
        """Save what `prepare` returned in one transaction, and return the head that is next.

        Raises:
            ThreadConflictError: The head is not the one that the commit expects.
            ThreadDeletedError: The thread was deleted in the meantime.
            LeaseLostError: Somebody else has the lease that the commit names.
        """
        return self._database.perform(self._committing(prepared))

    async def acommit(self, prepared: Prepared) -> Head | None:
        """Async `commit`."""
        return await self._database.aperform(self._committing(prepared))

    def commit_many(self, prepared: Sequence[Prepared]) -> Head | None:
        """Save commits of one run that follow each other in one transaction."""
        return self._database.perform(self._committing(*prepared))

    async def acommit_many(self, prepared: Sequence[Prepared]) -> Head | None:
        """Async `commit_many`."""
        return await self._database.aperform(self._committing(*prepared))

    def _look(self, address: Address, checkpoint: Checkpoint) -> Known:
        return self._database.perform(self._again(lambda: self._known(address, checkpoint)))

    async def _alook(self, address: Address, checkpoint: Checkpoint) -> Known:
        return await self._database.aperform(self._again(lambda: self._known(address, checkpoint)))

    def _known(self, address: Address, checkpoint: Checkpoint) -> Operation[Known]:
        memo = Memo()
        if address.checkpoint_id is not None:
            memo = (yield from load(self._reading(), address)).memo
        versions = checkpoint["channel_versions"]
        unknown = {c: v for c, v in versions.items() if memo.versions.get(c) != v}
        return memo, (yield from stored_values(self._reading(), address, unknown))

    # Everything else is one operation each, which the base class names and describes.

    def _sync(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._database.perform(self._again(partial(getattr(self, f"_{name}"), *args, **kwargs)))

    async def _async(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return await self._database.aperform(self._again(partial(getattr(self, f"_{name}"), *args, **kwargs)))

    def _delete_thread(self, thread_id: str) -> Operation[None]:
        return upkeep.delete_thread(self._index(), thread_id_of(thread_id))

    def _copy_thread(self, source_thread_id: str, target_thread_id: str) -> Operation[None]:
        source, target = thread_id_of(source_thread_id), thread_id_of(target_thread_id)
        return upkeep.copy_thread(self._index(), source, target)

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Operation[None]:
        return upkeep.delete_for_runs(self._index(), [str(run_id) for run_id in each_of("run_ids", run_ids)])

    def _prune(self, thread_ids: Sequence[str], **rules: Any) -> Operation[None]:
        rule = rule_of(**rules)
        threads = [thread_id_of(thread_id) for thread_id in each_of("thread_ids", thread_ids)]
        return upkeep.prune(self._index(), threads, rule)

    def _rotate(self, thread_ids: Sequence[str] | None) -> Operation[int]:
        threads = None if thread_ids is None else [thread_id_of(i) for i in each_of("thread_ids", thread_ids)]
        return upkeep.rotate(self._index(), threads, resealer(self.serde))

    def _sweep(self, batch: int) -> Operation[int]:
        return upkeep.sweep(self._index(), batch_of(batch))

    def _branches(self, config: RunnableConfig) -> Operation[Any]:
        return branches.branches(self._place(config))

    def _tree(self, config: RunnableConfig) -> Operation[Any]:
        return branches.tree(self._place(config))

    def _create_branch(self, config: RunnableConfig, name: str) -> Operation[Branch]:
        return branches.create_branch(self._place(config), name)

    def _rename_branch(self, config: RunnableConfig, name: str, new_name: str) -> Operation[Branch]:
        return branches.rename_branch(self._place(config), name, new_name)

    def _switch_branch(self, config: RunnableConfig, name: str) -> Operation[Branch]:
        return branches.switch_branch(self._place(config), name)

    def _delete_branch(self, config: RunnableConfig, name: str) -> Operation[None]:
        return branches.delete_branch(self._place(config), name)

    def _find_threads(self, query: ThreadQuery, limit: int, cursor: str | None) -> Operation[ThreadPage]:
        return threads.find_threads(self._index(), query, limit, cursor)

    def _count_threads(self, query: ThreadQuery) -> Operation[int]:
        return threads.count_threads(self._index(), query)

    def _get_thread(self, thread_id: str) -> Operation[ThreadInfo | None]:
        return threads.get_thread(self._index(), thread_id_of(thread_id))

    def _update_thread(
        self, thread_id: str, metadata: Mapping[str, Any] | None, ttl: timedelta | str | None
    ) -> Operation[ThreadInfo | None]:
        return threads.update_thread(self._index(), thread_id_of(thread_id), metadata, ttl)

    def _take_lease(self, thread_id: str, token: str, ttl: timedelta) -> Operation[bool]:
        text("token", token)
        check_name(token)
        duration("ttl", ttl)
        return leases.take_lease(self._sql, thread_id_of(thread_id), token, ttl, self._now())

    def _drop_lease(self, thread_id: str, token: str) -> Operation[None]:
        return leases.drop_lease(self._sql, thread_id_of(thread_id), token)

    def _index(self) -> Index:
        return Index(self._sql, self._codec, self._now())

    def _place(self, config: RunnableConfig) -> Place:
        return Place(self._reading(), address_of(config))


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
