"""The saver contract: what a checkpoint is, and what the engine asks of whatever keeps it.

A saver has two faces. The *classic* one (`put`, `put_writes`, `get_tuple`, `list` and their async
twins) is the one that users know and that third parties implement; it is all that a saver needs. The
*engine's* face (`load`, `prepare`, `commit`, `acommit`) lets a saver make a superstep atomic, compare
and set the thread's head, and store only what changed. Its default here is written over the classic
face, so a saver with only the classic four works. This module knows no backend and no graph.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict

from threadmark.checkpoint.serde.base import SerializerProtocol
from threadmark.config import RunnableConfig

__all__ = [
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "Commit",
    "Head",
    "Kept",
    "Loaded",
    "PendingWrite",
    "TaskWrites",
    "WRITES_IDX_MAP",
    "empty_checkpoint",
    "get_checkpoint_id",
]

ChannelVersions: TypeAlias = dict[str, str | int | float]
PendingWrite: TypeAlias = tuple[str, str, Any]
"""Task id, channel, value."""

WRITES_IDX_MAP = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
"""The fixed index of each special write; a later one of the same task replaces the earlier."""

LATEST_VERSION = 4


class Checkpoint(TypedDict):
    """A superstep's state. Stored without `channel_values`, which are kept by channel and version."""

    v: int
    ts: str
    id: str
    channel_values: dict[str, Any]
    channel_versions: ChannelVersions
    versions_seen: dict[str, ChannelVersions]
    updated_channels: list[str] | None


class CheckpointMetadata(TypedDict, total=False):
    """What is known about a checkpoint beside its state. Users may add keys of their own."""

    source: Literal["input", "loop", "update", "fork"]
    step: int
    parents: dict[str, str]
    run_id: str


class CheckpointTuple(NamedTuple):
    """A checkpoint with its address, metadata, parent and pending writes."""

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: RunnableConfig | None = None
    pending_writes: list[PendingWrite] | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """Where a branch of one namespace of a thread stood when a run read or last moved it.

    Attributes:
        incarnation: The thread's birth mark. A deleted thread that is created again has another one.
            `None` for a thread that did not exist.
        checkpoint_id: The tip of the branch, `None` when the namespace held nothing.
        branch: The branch's name.
    """

    incarnation: str | None
    checkpoint_id: str | None
    branch: str = "main"


@dataclass(slots=True)
class Loaded:
    """What `load` found.

    Attributes:
        saved: The checkpoint that the config names (the branch's tip, or the one of its
            `checkpoint_id`), or `None`.
        head: For the compare-and-set of later commits; `None` when the saver cannot compare.
        memo: The saver's own notes on what is stored, handed back with each commit of this run.
    """

    saved: CheckpointTuple | None
    head: Head | None = None
    memo: Any = None


class TaskWrites(NamedTuple):
    """The writes of one finished task, in order."""

    task_id: str
    task_path: str
    writes: Sequence[tuple[str, Any]]


Kept: TypeAlias = Sequence[tuple[int, int] | int]
"""How a list was made from its previous version, in order: `(from, to)` is a run of the old items that
did not change, a plain `n` is n items that are new. `[(0, 5), 1]`: one item was appended to five."""


@dataclass(slots=True)
class Commit:
    """One superstep on its way to storage: everything in it becomes visible together, or nothing.

    Attributes:
        thread_id: The thread.
        checkpoint_ns: The namespace inside it.
        parent_id: The checkpoint that this one follows; `None` for the first of a namespace.
        checkpoint: The checkpoint. `channel_values` holds every value; those of `new_versions` are new.
        metadata: Its metadata.
        new_versions: The channels that changed, with their new versions.
        writes: The writes that led from the parent to this checkpoint and are not saved yet. They are
            saved under the parent.
        head: Compare-and-set: the branch's tip must still be this, and the thread this incarnation.
            `None`: move the branch unconditionally.
        kept: For list channels, what the engine knows about the change. A channel that is missing here
            is compared with its stored version.
        cleared: The channels of `new_versions` that hold nothing now (stored as `("empty", b"")`).
        durability: `"sync"` must survive a power cut, the others the death of the process.
        memo: From `Loaded.memo`. The saver updates it in place.
        nodes: Task id to node name, to name the culprit in an error.
    """

    thread_id: str
    checkpoint_ns: str
    parent_id: str | None
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    new_versions: ChannelVersions
    writes: Sequence[TaskWrites] = ()
    head: Head | None = None
    kept: Mapping[str, Kept] = field(default_factory=dict)
    cleared: Collection[str] = ()
    durability: Literal["sync", "async", "exit"] = "async"
    memo: Any = None
    nodes: Mapping[str, str] = field(default_factory=dict)


def get_checkpoint_id(config: RunnableConfig) -> str | None:
    """Return the checkpoint id that a config names, if any."""
    return config["configurable"].get("checkpoint_id")


def empty_checkpoint() -> Checkpoint:
    """Return the checkpoint of a thread that has none. It has no id."""
    return {
        "v": LATEST_VERSION,
        "ts": "",
        "id": "",
        "channel_values": {},
        "channel_versions": {},
        "versions_seen": {},
        "updated_channels": None,
    }


def checkpoint_config(thread_id: str, checkpoint_ns: str, checkpoint_id: str) -> RunnableConfig:
    """Return the config that addresses one checkpoint."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": checkpoint_ns,
            "checkpoint_id": checkpoint_id,
        }
    }


class BaseCheckpointSaver:
    """The base class of savers.

    A saver of your own implements `put`, `put_writes`, `get_tuple` and `list`, or their async twins,
    or both; what it lacks is bridged where that cannot block an event loop. The rest has defaults that
    say what is missing.

    Args:
        serde: The serializer. The default is `JsonPlusSerializer()`.
    """

    serde: SerializerProtocol

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

        self.serde = serde if serde is not None else JsonPlusSerializer()

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        """Return a version that sorts after `current`: a counter of 32 digits, a dot, a random number."""
        if current is None:
            counter = 0
        elif isinstance(current, int):
            counter = current
        else:
            counter = int(str(current).split(".", 1)[0])
        return f"{counter + 1:032}.{random.random()}"

    # The classic face

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint after the one that `config` names, and return its address."""
        raise NotImplementedError

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save the writes of a task that ran from the checkpoint that `config` names."""
        raise NotImplementedError

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names (without an id: the head), or `None`."""
        raise NotImplementedError

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first."""
        raise NotImplementedError

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async `put`."""
        raise NotImplementedError

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Async `put_writes`."""
        raise NotImplementedError

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async `get_tuple`."""
        raise NotImplementedError

    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async `list`."""
        raise NotImplementedError
