"""The saver contract: what users, third parties and the engine ask of whatever keeps checkpoints.

A saver has two faces. The *classic* one (`put`, `put_writes`, `get_tuple`, `list` and their async
twins) is the one that users know and that third parties implement; it is all that a saver needs.
The *engine's* face (`load`, `prepare`, `commit` and twins) lets a saver make a superstep atomic,
compare and set the thread's head, and store only what changed. Its default here is written over the
classic face, so a saver with only the classic four works. This module knows no backend and no
graph.
"""

from __future__ import annotations

import copy
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, Self

from typing_extensions import TypeVar

from threadmark._checks import serializer
from threadmark.checkpoint.branches import Branch, Branches, CheckpointNode
from threadmark.checkpoint.leases import Lease, Leases
from threadmark.checkpoint.records import (
    LATEST_VERSION,
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Commit,
    Durability,
    Head,
    Kept,
    Loaded,
    PendingWrite,
    Prepared,
    TaskCommit,
    TaskWrites,
    ThreadStatus,
    checkpoint_config,
    copy_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from threadmark.checkpoint.serde.base import SerializerProtocol
from threadmark.checkpoint.threads import ThreadIndex, ThreadInfo, ThreadPage, Threads
from threadmark.checkpoint.upkeep import Upkeep
from threadmark.config import RunnableConfig
from threadmark.errors import SerializationError, StorageCorruptError

__all__ = [
    "LATEST_VERSION",
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "Branch",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointNode",
    "CheckpointTuple",
    "Commit",
    "Durability",
    "Head",
    "Kept",
    "Lease",
    "Loaded",
    "PendingWrite",
    "Prepared",
    "TaskCommit",
    "TaskWrites",
    "ThreadIndex",
    "ThreadInfo",
    "ThreadPage",
    "ThreadStatus",
    "checkpoint_config",
    "copy_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
]

V = TypeVar("V", int, float, str, default=str)


class BaseCheckpointSaver(Upkeep, Branches, Threads, Leases, Generic[V]):
    """The base class of savers.

    A saver of your own implements `put`, `put_writes`, `get_tuple` and `list`, or their async
    twins, or both; what it lacks of either kind is bridged: sync methods are called in a thread of
    their own, async ones in an event loop of their own where none is running. Deletion and
    retention have no
    default: a saver that does not define them raises `NotOfferedError`.

    Args:
        serde: The serializer. The default is `JsonPlusSerializer()`.

    Attributes:
        commit_inline: Whether a `commit` is so quick that a run waits for it, rather than have it saved
            beside the next superstep.
        commits_waiting: With durability "async", how many commits of supersteps that are quicker than saving
            is may wait in line while others are under way. More than 0 pays for a saver whose `commit_many`
            saves them in one go; what is shown of a run then waits for the line.
    """

    serde: SerializerProtocol
    commit_inline: bool = False
    commits_waiting: int = 0

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

        serializer("serde", serde)
        self.serde = serde if serde is not None else JsonPlusSerializer()

    def with_known_types(self, types: Iterable[type]) -> Self:
        """Return a saver on the same storage whose serializer knows some more classes.

        The saver itself does not change. A serializer that keeps no list of classes stays as it is.
        """
        derive = getattr(self.serde, "with_types", None)
        if derive is None:
            return self
        twin = copy.copy(self)
        twin.serde = derive(types)
        return twin

    def get_next_version(self, current: V | None, channel: None = None) -> V:
        """Return a version after `current`: a counter of 32 digits, a dot, a random number.

        Raises:
            StorageCorruptError: `current` does not begin with a counter.
        """
        if current is None:
            counter = 0
        elif isinstance(current, int):
            counter = current
        else:
            counter = _counter(str(current))
        return f"{counter + 1:032}.{random.random()}"  # type: ignore[return-value]

    # The classic face

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """Return the checkpoint that `config` names, without what belongs to it, or `None`."""
        found = self.get_tuple(config)
        return found.checkpoint if found else None

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        """Async `get`."""
        found = await self.aget_tuple(config)
        return found.checkpoint if found else None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names (without an id: the head), or `None`."""
        found: CheckpointTuple | None = self._sync("get_tuple", config)
        return found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async `get_tuple`."""
        found: CheckpointTuple | None = await self._async("get_tuple", config)
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        Args:
            config: Which thread, and which namespace and checkpoint of it if named. `None`: all.
            filter: Entries that the metadata must have.
            before: Only checkpoints that were saved before the one that this config names.
            limit: How many at most.
        """
        return self._iterate("list", config, filter=filter, before=before, limit=limit)

    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async `list`."""
        return self._aiterate("list", config, filter=filter, before=before, limit=limit)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint after the one that `config` names, and return its address."""
        address: RunnableConfig = self._sync("put", config, checkpoint, metadata, new_versions)
        return address

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async `put`."""
        address: RunnableConfig = await self._async("put", config, checkpoint, metadata, new_versions)
        return address

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save the writes of a task that ran from the checkpoint that `config` names."""
        self._sync("put_writes", config, writes, task_id, task_path)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Async `put_writes`."""
        await self._async("put_writes", config, writes, task_id, task_path)

    # The engine's face

    def load(self, config: RunnableConfig) -> Loaded:
        """Return the checkpoint that `config` names with what later commits of the run need."""
        return Loaded(self.get_tuple(config))

    async def aload(self, config: RunnableConfig) -> Loaded:
        """Async `load`."""
        return Loaded(await self.aget_tuple(config))

    def prepare(self, commit: Commit | TaskCommit) -> Prepared:
        """Encode and check a commit, without I/O: nothing done to the values later can reach it.

        Raises:
            SerializationError: A value cannot be stored.
        """
        return commit if commit.durability == "sync" else self._detached(commit)

    def commit(self, prepared: Prepared) -> Head | None:
        """Save what `prepare` returned, and return the head that the next commit must find.

        The default saves the writes and then the checkpoint, and cannot compare heads.

        Raises:
            ThreadConflictError: The head is not the one that the commit expects.
            ThreadDeletedError: The thread was deleted in the meantime.
        """
        for parent, task in _task_writes(prepared):
            self.put_writes(parent, task.writes, task.task_id, task.task_path)
        if isinstance(prepared, Commit):
            self.put(*_put_arguments(prepared))
        return None

    async def acommit(self, prepared: Prepared) -> Head | None:
        """Async `commit`."""
        for parent, task in _task_writes(prepared):
            await self.aput_writes(parent, task.writes, task.task_id, task.task_path)
        if isinstance(prepared, Commit):
            await self.aput(*_put_arguments(prepared))
        return None

    def commit_many(self, prepared: Sequence[Prepared]) -> Head | None:
        """Save commits of one run that follow each other, in order, and return the head that is next.

        The default saves one after the other. A saver that can saves all of them in one transaction.

        Raises:
            ThreadConflictError: The head is not the one that a commit expects. It and what follows it is
                not saved.
            ThreadDeletedError: The thread was deleted in the meantime.
        """
        head: Head | None = None
        for one in prepared:
            head = self.commit(one) or head
        return head

    async def acommit_many(self, prepared: Sequence[Prepared]) -> Head | None:
        """Async `commit_many`."""
        head: Head | None = None
        for one in prepared:
            head = await self.acommit(one) or head
        return head

    def _detached(self, commit: Commit | TaskCommit) -> Commit | TaskCommit:
        """Return a commit with copies of the new values, made by the serializer."""
        writes = [
            task._replace(
                writes=[(c, self._copied(v, c, commit.nodes.get(task.task_id))) for c, v in task.writes]
            )
            for task in commit.writes
        ]
        if isinstance(commit, TaskCommit):
            return replace(commit, writes=writes)
        checkpoint = copy_checkpoint(commit.checkpoint)
        values = checkpoint["channel_values"]
        for channel in commit.new_versions.keys() & values.keys():
            values[channel] = self._copied(values[channel], channel, None)
        return replace(commit, writes=writes, checkpoint=checkpoint)

    def _copied(self, value: Any, channel: str, node: str | None) -> Any:
        try:
            return self.serde.loads_typed(self.serde.dumps_typed(value))
        except SerializationError as error:
            raise error.at(channel=channel, node=node)


BaseCheckpointSaver._unbridged = BaseCheckpointSaver


def _task_writes(commit: Commit | TaskCommit) -> Iterator[tuple[RunnableConfig, TaskWrites]]:
    follows = commit.parent_id if isinstance(commit, Commit) else commit.checkpoint_id
    if follows is not None:
        address = checkpoint_config(commit.thread_id, commit.checkpoint_ns, follows)
        for task in commit.writes:
            yield address, task


def _put_arguments(
    commit: Commit,
) -> tuple[RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions]:
    parent = checkpoint_config(commit.thread_id, commit.checkpoint_ns, commit.parent_id or "")
    if commit.parent_id is None:
        del parent["configurable"]["checkpoint_id"]
    return parent, commit.checkpoint, commit.metadata, commit.new_versions


def _counter(version: str) -> int:
    try:
        return int(version.split(".", 1)[0])
    except ValueError as error:
        raise StorageCorruptError(
            f"The version {version!r} does not begin with a counter, so that none can follow it. Restore a "
            f"backup, or go on from an earlier checkpoint of get_state_history(config)."
        ) from error
