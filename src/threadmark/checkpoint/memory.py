"""A saver that keeps everything in the process, in dicts that are easy to look at.

For tests, development and short-lived programs. What it stores are bytes, as every other saver, so that
nothing in it changes with the live values. It does no I/O: the async methods do what the sync ones do.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeAlias

from threadmark.checkpoint.address import Address, Selection, address_of, matches, selection_of
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
from threadmark.checkpoint.decode import Shared, StoredCheckpoint, StoredWrite, decode
from threadmark.checkpoint.encode import EncodedCommit, Memo, encode
from threadmark.checkpoint.lists import ListMemo
from threadmark.checkpoint.memory_parts import Blobs, Space, StoredList, Thread
from threadmark.checkpoint.rows import MAX_VALUE_BYTES, RowCodec
from threadmark.checkpoint.serde.base import Encoded, Row, SerializerProtocol
from threadmark.config import RunnableConfig
from threadmark.errors import (
    CheckpointNotFoundError,
    ThreadConflictError,
    ThreadDeletedError,
)

__all__ = ["InMemorySaver", "MemorySaver"]

Stored: TypeAlias = "Mapping[str, Encoded | list[bytes]]"


class InMemorySaver(BaseCheckpointSaver[str]):
    """Keeps checkpoints in memory.

    Args:
        serde: The serializer.
        max_value_bytes: The largest encoded value that is taken.
        compress: Whether values are compressed with zstd where it helps.

    Attributes:
        serde: The serializer.
        storage: Thread, namespace, checkpoint id → checkpoint, metadata, parent id.
        writes: Thread, namespace and checkpoint id → task id and index → task id, channel, value, path.
        blobs: Thread, namespace, channel and version → value.
        stack: What is closed at the end of a `with` block.
    """

    __slots__ = ("_compress", "_lock", "_max_value_bytes", "_rows")

    commit_inline = True

    def __init__(
        self,
        *,
        serde: SerializerProtocol | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
        compress: bool = False,
    ) -> None:
        super().__init__(serde=serde)
        self.storage: dict[str, Thread] = {}
        self.writes: dict[tuple[str, str, str], dict[tuple[str, int], tuple[str, str, Encoded, str]]] = {}
        self._max_value_bytes = max_value_bytes
        self._compress = compress
        self._rows = RowCodec(self.serde, max_value_bytes, compress)
        self.blobs = Blobs(self._rows.seal)
        self.stack = ExitStack()
        self._lock = threading.RLock()

    @property
    def _codec(self) -> RowCodec:
        if self._rows.serde is not self.serde:
            self._rows = RowCodec(self.serde, self._max_value_bytes, self._compress)
        return self._rows

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

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names (without an id: the head), or `None`."""
        return self.load(config).saved

    def load(self, config: RunnableConfig) -> Loaded:
        """Return the checkpoint that `config` names with what later commits of the run need."""
        address = address_of(config)
        with self._lock:
            thread = self.storage.get(address.thread_id)
            space = thread.get(address.ns) if thread is not None else None
            tip = space.heads.get(address.branch) if space is not None else None
            head = Head(thread.incarnation if thread is not None else None, tip, address.branch)
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
            if wanted.thread_id is None:
                threads = sorted(self.storage, key=lambda t: self.storage[t].updated, reverse=True)
                return [a for t in threads for a in self._in_thread(t, wanted)]
            return self._in_thread(wanted.thread_id, wanted)

    def _in_thread(self, thread_id: str, wanted: Selection) -> Sequence[Address]:
        thread = self.storage.get(thread_id)
        if thread is None:
            return []
        found = [
            (number, Address(thread_id, ns, checkpoint_id, ""))
            for ns, space in thread.items()
            if wanted.ns is None or ns == wanted.ns
            for checkpoint_id, number in space.numbers.items()
            if wanted.checkpoint_id is None or checkpoint_id == wanted.checkpoint_id
        ]
        if wanted.before is not None:
            limit = self._number(wanted.before)
            found = [each for each in found if each[0] < limit]
        return [address for _, address in sorted(found, key=lambda each: each[0], reverse=True)]

    def _number(self, address: Address) -> int:
        space = self.storage[address.thread_id].get(address.ns)
        checkpoint_id = address.checkpoint_id or ""
        if space is None or checkpoint_id not in space:
            raise CheckpointNotFoundError(address.thread_id, checkpoint_id)
        return space.numbers[checkpoint_id]

    def _stored(self, address: Address, checkpoint_id: str | None) -> StoredCheckpoint | None:
        """Gather the rows of a checkpoint. The caller holds the lock."""
        thread = self.storage.get(address.thread_id)
        space = thread.get(address.ns) if thread is not None else None
        entry = space.get(checkpoint_id) if space is not None and checkpoint_id else None
        if entry is None or checkpoint_id is None:
            return None
        key = (address.thread_id, address.ns, checkpoint_id)
        checkpoint: Checkpoint = self._codec.loads(Row("checkpoint", *key), entry[0])
        return StoredCheckpoint(
            *key,
            entry[2],
            checkpoint,
            self._codec.loads(Row("metadata", *key), entry[1]),
            self._values(address, checkpoint["channel_versions"]),
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

    def prepare(self, commit: Commit | TaskCommit) -> Prepared:
        """Encode and check a commit."""
        return self._encoded(commit, {})

    def _encoded(self, commit: Commit | TaskCommit, existing: Stored) -> EncodedCommit:
        codec = self._codec
        return encode(commit, codec, lambda bare, parents, run_id: codec.dumps(bare, "checkpoint"), existing)

    def commit(self, prepared: Prepared) -> Head | None:
        """Save what `prepare` returned, and return the head that the next commit must find.

        Raises:
            ThreadConflictError: The head is not the one that the commit expects.
            ThreadDeletedError: The thread was deleted in the meantime.
        """
        commit: EncodedCommit = prepared
        with self._lock:
            self._check(commit)
            self._save_writes(commit)
            return self._save_checkpoint(commit) if commit.checkpoint_id is not None else None

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint after the one that `config` names, and return its address."""
        address = address_of(config)
        with self._lock:
            memo = self._memo(self._stored(address, address.checkpoint_id))
            existing = self._values(address, checkpoint["channel_versions"])
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
        self.commit(prepared)
        return checkpoint_config(address.thread_id, address.ns, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save the writes of a task that ran from the checkpoint that `config` names."""
        address = address_of(config, need_checkpoint=True)
        tasks = [TaskWrites(task_id, task_path, writes)]
        self.commit(
            self.prepare(TaskCommit(address.thread_id, address.ns, address.checkpoint_id or "", tasks))
        )

    def _check(self, commit: EncodedCommit) -> None:
        """Refuse a commit before anything is changed."""
        thread = self.storage.get(commit.thread_id)
        space = thread.get(commit.ns) if thread is not None else None
        head = commit.head
        expected = head.incarnation if head is not None else None
        if expected is not None and (thread is None or thread.incarnation != expected):
            raise ThreadDeletedError(commit.thread_id)
        if head is not None and commit.checkpoint_id is not None:
            tip = space.heads.get(commit.branch) if space is not None else None
            if tip != head.checkpoint_id:
                raise ThreadConflictError(commit.thread_id, commit.ns, head.checkpoint_id, tip)
        for needed in (commit.parent_id, commit.base_id):
            if needed is not None and (space is None or needed not in space):
                raise ThreadDeletedError(commit.thread_id)

    def _save_writes(self, commit: EncodedCommit) -> None:
        if not commit.writes or commit.parent_id is None:
            return
        key = (commit.thread_id, commit.ns, commit.parent_id)
        saved = self.writes.setdefault(key, {})
        for write in commit.writes:
            place = (write.task_id, write.idx)
            if write.idx < 0 or place not in saved:
                saved[place] = (write.task_id, write.channel, write.data, write.task_path)

    def _save_checkpoint(self, commit: EncodedCommit) -> Head:
        thread = self.storage.get(commit.thread_id)
        if thread is None:
            thread = self.storage[commit.thread_id] = Thread(uuid.uuid4().hex)
        space = thread.get(commit.ns)
        if space is None:
            space = thread[commit.ns] = Space()
        self._save_values(commit, space)
        checkpoint_id = commit.checkpoint_id or ""
        if checkpoint_id not in space:
            thread.last += 1
            space.numbers[checkpoint_id] = thread.last
            space.move_head(commit.branch, checkpoint_id, commit.parent_id)
        space[checkpoint_id] = (commit.body, commit.metadata, commit.parent_id)
        thread.updated = time.time()
        return Head(thread.incarnation, checkpoint_id, commit.branch)

    def _save_values(self, commit: EncodedCommit, space: Space) -> None:
        for value in commit.values:
            key = (commit.thread_id, commit.ns, value.channel, value.version)
            if key not in self.blobs:
                self.blobs.add(key, value.data)
                space.blobs.add(key)

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        with self._lock:
            for ns, space in self.storage.pop(thread_id, Thread("")).items():
                for key in space.blobs:
                    self.blobs.pop(key, None)
                for checkpoint_id in space:
                    self.writes.pop((thread_id, ns, checkpoint_id), None)

    # The async twins. There is nothing to wait for.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async `get_tuple`."""
        return self.get_tuple(config)

    async def aload(self, config: RunnableConfig) -> Loaded:
        """Async `load`."""
        return self.load(config)

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

    async def acommit(self, prepared: Prepared) -> Head | None:
        """Async `commit`."""
        return self.commit(prepared)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async `put`."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Async `put_writes`."""
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Async `delete_thread`."""
        self.delete_thread(thread_id)


MemorySaver = InMemorySaver
