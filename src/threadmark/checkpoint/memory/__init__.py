"""A saver that keeps everything in the process, in dicts that are easy to look at.

For tests, development and short-lived programs. What it stores are bytes, as every other saver, so that
nothing in it changes with the live values. It does no I/O: the async methods do what the sync ones do.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from threadmark.checkpoint.address import Address, Selection, address_of, matches, selection_of
from threadmark.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointTuple,
    Head,
    Loaded,
    Prepared,
)
from threadmark.checkpoint.decode import Shared, StoredCheckpoint, StoredWrite, decode, gone_value
from threadmark.checkpoint.encode import EncodedCommit, Memo
from threadmark.checkpoint.lists import ListMemo
from threadmark.checkpoint.memory.branching import Branching
from threadmark.checkpoint.memory.index import Indexing
from threadmark.checkpoint.memory.parts import Blobs, Fact, Space, StoredList, Thread, Writes
from threadmark.checkpoint.memory.upkeep import Tending
from threadmark.checkpoint.options import History, SaverOptions
from threadmark.checkpoint.own import Known
from threadmark.checkpoint.retention import LATEST
from threadmark.checkpoint.rows import MAX_VALUE_BYTES
from threadmark.checkpoint.serde.base import Row, SerializerProtocol
from threadmark.checkpoint.threads import FRESH_MS
from threadmark.config import RunnableConfig
from threadmark.errors import (
    CheckpointNotFoundError,
    LeaseLostError,
    StorageCorruptError,
    ThreadConflictError,
    ThreadDeletedError,
)

__all__ = ["InMemorySaver", "MemorySaver"]


class InMemorySaver(Tending, Branching, Indexing):
    """Keeps checkpoints in memory.

    Args:
        serde: The serializer.
        max_value_bytes: The largest encoded value that is taken.
        compress: Whether values are compressed with zstd where it helps.
        history: `"latest"` keeps the tip of each branch and nothing before it.
        ttl: How long a new thread lives; `None` for ever.
        refresh_ttl: Whether every commit begins that time anew.

    Attributes:
        serde: The serializer.
        storage: Thread, namespace, checkpoint id → checkpoint, metadata, parent id.
        writes: Thread, namespace and checkpoint id → task id and index → task id, channel, value, path.
        blobs: Thread, namespace, channel and version → value.
        stack: What is closed at the end of a `with` block.
    """

    # What users do not look at lives in slots, so that the saver's `__dict__` shows what they know.
    __slots__ = ("_leases", "_lock", "_numbers", "_options", "_rows")

    commit_inline = True

    def __init__(
        self,
        *,
        serde: SerializerProtocol | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
        compress: bool = False,
        history: History = "all",
        ttl: timedelta | None = None,
        refresh_ttl: bool = True,
    ) -> None:
        options = SaverOptions(max_value_bytes, compress, history, ttl, refresh_ttl)
        super().__init__(serde=serde, options=options)
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._leases: dict[str, tuple[str, int]] = {}
        self.storage: dict[str, Thread] = {}
        self.writes: Writes = {}
        self.blobs = Blobs(self._rows.seal)
        self.stack = ExitStack()

    async def _async(self, name: str, *args: Any, **kwargs: Any) -> Any:
        # There is nothing to wait for.
        return getattr(self, name)(*args, **kwargs)

    def __enter__(self) -> Self:
        self.stack.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self.stack.__exit__(kind, error, trace)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self.__exit__(kind, error, trace)

    # Reading

    def load(self, config: RunnableConfig) -> Loaded:
        """Return the checkpoint that `config` names with what later commits of the run need."""
        address = address_of(config)
        with self._lock:
            thread = self._thread(address.thread_id)
            space = thread.get(address.ns) if thread is not None else None
            tip = space.heads.get(address.branch) if space is not None else None
            head = Head(thread.incarnation if thread is not None else None, tip, address.branch)
            if space and not space.heads:
                raise StorageCorruptError(
                    f"Thread {address.thread_id!r} has checkpoints that no branch leads to.",
                    thread_id=address.thread_id,
                )
            stored = self._stored(address, address.checkpoint_id or tip)
            memo = self._memo(stored)
        return Loaded(decode(stored, self._codec) if stored else None, head, memo)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first; without a thread, the threads changed last come first.

        Items that lists of several of them have in common are the same objects.
        """
        return self._listed(selection_of(config, filter, before, limit))

    def _listed(self, wanted: Selection) -> Iterator[CheckpointTuple]:
        left = -1 if wanted.limit is None else wanted.limit
        shared = Shared(self._codec)
        for address in self._selected(wanted):
            if left == 0:
                return
            with self._lock:
                stored = self._stored(address, address.checkpoint_id)
            if stored is not None and matches(stored.metadata, wanted.filter):
                left -= 1
                yield decode(stored, self._codec, shared)

    def _selected(self, wanted: Selection) -> Sequence[Address]:
        with self._lock:
            if wanted.thread_id is not None:
                return self._in_thread(wanted.thread_id, wanted)
            return [a for thread_id, _ in self._by_time() for a in self._in_thread(thread_id, wanted)]

    def _in_thread(self, thread_id: str, wanted: Selection) -> Sequence[Address]:
        thread = self._thread(thread_id)
        if thread is None:
            return []
        found = [
            (fact.seq, Address(thread_id, ns, checkpoint_id, ""))
            for ns, space in thread.items()
            if wanted.ns is None or ns == wanted.ns
            for checkpoint_id, fact in space.facts.items()
            if wanted.checkpoint_id is None or checkpoint_id == wanted.checkpoint_id
        ]
        if wanted.before is not None:
            limit = self._seq(thread, wanted.before)
            found = [each for each in found if each[0] < limit]
        return [address for _, address in sorted(found, key=lambda each: each[0], reverse=True)]

    def _seq(self, thread: Thread, address: Address) -> int:
        space = thread.get(address.ns)
        fact = space.facts.get(address.checkpoint_id or "") if space is not None else None
        if fact is None:
            raise CheckpointNotFoundError(address.thread_id, address.checkpoint_id or "")
        return fact.seq

    def _stored(self, address: Address, checkpoint_id: str | None) -> StoredCheckpoint | None:
        """Gather the rows of a checkpoint. The caller holds the lock."""
        thread = self._thread(address.thread_id)
        space = thread.get(address.ns) if thread is not None else None
        entry = space.get(checkpoint_id) if space is not None and checkpoint_id else None
        if entry is None or checkpoint_id is None:
            return None
        key = (address.thread_id, address.ns, checkpoint_id)
        checkpoint: Checkpoint = self._codec.loads(Row("checkpoint", *key), entry[0])
        values = self._values(address, checkpoint["channel_versions"])
        absent = space.facts[checkpoint_id].absent if space is not None else ()
        for channel in checkpoint["channel_versions"]:
            if channel not in values and channel not in absent:
                raise gone_value(address.thread_id, channel, checkpoint_id)
        return StoredCheckpoint(
            *key,
            entry[2],
            checkpoint,
            self._codec.loads(Row("metadata", *key), entry[1]),
            values,
            [
                StoredWrite(task_id, index, channel, data, path)
                for (task_id, index), (_, channel, data, path) in self.writes.get(key, {}).items()
            ],
        )

    def _values(self, address: Address, versions: ChannelVersions) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for channel, version in versions.items():
            data = self.blobs.stored((address.thread_id, address.ns, channel, version))
            if data is not None:
                values[channel] = data.items() if isinstance(data, StoredList) else data
        return values

    def _memo(self, stored: StoredCheckpoint | None) -> Memo:
        if stored is None:
            return Memo()
        versions = stored.checkpoint["channel_versions"]
        lists = {
            channel: ListMemo(versions[channel], len(data), data[:])
            for channel, data in stored.values.items()
            if isinstance(data, list)
        }
        return Memo(stored.id, dict(versions), lists)

    # Writing

    def commit(self, prepared: Prepared) -> Head | None:
        """Save what `prepare` returned, and return the head that the next commit must find.

        Raises:
            ThreadConflictError: The head is not the one that the commit expects.
            ThreadDeletedError: The thread was deleted in the meantime.
            LeaseLostError: Somebody else has the lease that the commit names.
        """
        commit: EncodedCommit = prepared
        with self._lock:
            thread = self._thread(commit.thread_id)
            self._check(commit, thread)
            self._save_writes(commit)
            if commit.checkpoint_id is None:
                if thread is not None:
                    self._touch(thread, commit)
                return None
            return self._save_checkpoint(commit, thread, commit.checkpoint_id)

    def _look(self, address: Address, checkpoint: Checkpoint) -> Known:
        with self._lock:
            memo = self._memo(self._stored(address, address.checkpoint_id))
            return memo, self._values(address, checkpoint["channel_versions"])

    def _check(self, commit: EncodedCommit, thread: Thread | None) -> None:
        """Refuse a commit before anything is changed."""
        space = thread.get(commit.ns) if thread is not None else None
        head = commit.head
        expected = head.incarnation if head is not None else None
        # A thread that has expired is still there until it is swept.
        left = self.storage.get(commit.thread_id) if thread is None else None
        if expected is not None and (thread is None or thread.incarnation != expected):
            gone = left is not None and left.incarnation == expected
            raise ThreadDeletedError(commit.thread_id, gone)
        if head is not None and commit.checkpoint_id is not None:
            tip = space.heads.get(commit.branch) if space is not None else None
            if tip != head.checkpoint_id:
                raise ThreadConflictError(commit.thread_id, commit.ns, head.checkpoint_id, tip)
        if commit.lease is not None and self._holder(commit.thread_id) != commit.lease:
            raise LeaseLostError(commit.thread_id)
        for needed in (commit.parent_id, commit.base_id):
            if needed is not None and (space is None or needed not in space):
                raise ThreadDeletedError(commit.thread_id, left is not None)

    def _save_writes(self, commit: EncodedCommit) -> None:
        if not commit.writes or commit.parent_id is None:
            return
        key = (commit.thread_id, commit.ns, commit.parent_id)
        saved = self.writes.setdefault(key, {})
        for write in commit.writes:
            place = (write.task_id, write.idx)
            if write.idx < 0 or place not in saved:
                saved[place] = (write.task_id, write.channel, write.data, write.task_path)

    def _save_checkpoint(self, commit: EncodedCommit, thread: Thread | None, checkpoint_id: str) -> Head:
        now = self._options.now()
        if thread is None:
            self._drop_thread(commit.thread_id)  # It may be there, and have expired.
            thread = Thread(next(self._numbers), now, self._options.ttl_ms)
            self.storage[commit.thread_id] = thread
        space = thread.get(commit.ns)
        if space is None:
            space = thread[commit.ns] = Space()
        self._save_values(commit, space)
        around = commit.surroundings
        if checkpoint_id in space:
            space.facts[checkpoint_id] = space.facts[checkpoint_id]._replace(absent=around.absent)
        else:
            thread.last += 1
            fact = Fact(thread.last, now, around.parents, around.run_id, around.absent)
            space.facts[checkpoint_id] = fact
            space.move_head(commit.branch, checkpoint_id, commit.parent_id)
        space[checkpoint_id] = (commit.body, commit.metadata, commit.parent_id)
        self._touch(thread, commit, now)
        if self._options.history == "latest":
            self._prune(commit.thread_id, LATEST)
        return Head(thread.incarnation, checkpoint_id, commit.branch)

    def _touch(self, thread: Thread, commit: EncodedCommit, now: int | None = None) -> None:
        """Bring what is known about a thread up to date."""
        now = self._options.now() if now is None else now
        status = commit.status
        if commit.ns or status is None or (commit.checkpoint_id is None and not _at_tip(thread, commit)):
            status = thread.status
        if status != thread.status or commit.about or now - thread.updated > FRESH_MS:
            thread.status, thread.updated = status, now
            thread.about.update(commit.about or {})
            if thread.ttl is not None and self._options.refresh_ttl:
                thread.expires = now + thread.ttl

    def _save_values(self, commit: EncodedCommit, space: Space) -> None:
        for value in commit.values:
            key = (commit.thread_id, commit.ns, value.channel, value.version)
            if key not in self.blobs:
                self.blobs.add(key, value.data)
                space.blobs.add(key)

    # The other async twins call the sync methods by way of `_async`; these are called most.

    async def aload(self, config: RunnableConfig) -> Loaded:
        """Async `load`."""
        return self.load(config)

    async def acommit(self, prepared: Prepared) -> Head | None:
        """Async `commit`."""
        return self.commit(prepared)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async `list`."""
        for found in self.list(config, filter=filter, before=before, limit=limit):
            yield found


def _at_tip(thread: Thread, commit: EncodedCommit) -> bool:
    """Tell whether the writes of a commit belong to the tip of their branch."""
    space = thread.get(commit.ns)
    return space is not None and space.heads.get(commit.branch) == commit.parent_id


MemorySaver = InMemorySaver
