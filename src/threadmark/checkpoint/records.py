"""The records of the saver contract: a checkpoint, and what the engine and a saver hand each other.

Plain data. This module knows no saver, no backend and no graph. Everything public in it is imported
from `threadmark.checkpoint.base`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict

from threadmark.config import RunnableConfig

__all__ = [
    "LATEST_VERSION",
    "WRITES_IDX_MAP",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "Commit",
    "Durability",
    "Head",
    "Kept",
    "Loaded",
    "PendingWrite",
    "Prepared",
    "TaskCommit",
    "TaskWrites",
    "ThreadStatus",
    "checkpoint_config",
    "copy_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
]

Durability: TypeAlias = Literal["sync", "async", "exit"]
"""`"sync"` must survive a power cut, the others the death of the process."""

ThreadStatus: TypeAlias = Literal["idle", "running", "paused", "failed"]

Prepared: TypeAlias = Any
"""What a saver's `prepare` made of a commit. Only the saver looks inside."""

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


class Head(NamedTuple):
    """Where a branch of one namespace of a thread stood when a run read or last moved it.

    Attributes:
        incarnation: The thread's birth mark. A deleted thread that is created again has another
            one. `None` for a thread that did not exist.
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
"""How a list was made from its previous version, in order: `(from, to)` is a run of the old items
that
did not change, a plain `n` is n items that are new. `[(0, 5), 1]`: one item was appended to
five."""


@dataclass(slots=True)
class Commit:
    """One superstep on its way to storage: everything in it becomes visible together, or nothing.

    Attributes:
        thread_id: The thread.
        checkpoint_ns: The namespace inside it.
        parent_id: The checkpoint that this one follows; `None` for the first of a namespace.
        checkpoint: The checkpoint. `channel_values` holds every value; those of `new_versions` are
        new.
        metadata: Its metadata.
        new_versions: The channels that changed, with their new versions.
        writes: The writes that led from the parent to this checkpoint and are not saved yet. They
            are saved under the parent.
        head: Compare-and-set: the branch's tip must still be this, and the thread this incarnation.
            `None`: move the branch unconditionally.
        kept: For list channels, what the engine knows about the change. A channel that is missing
            here is compared with its stored version.
        cleared: The channels of `new_versions` that hold nothing now (stored as `("empty", b"")`).
        durability: What the commit must survive.
        memo: From `Loaded.memo`. The saver updates it in place.
        nodes: Task id to node name, to name the culprit in an error.
        lease: The token of the lease that the run holds on the thread; if somebody else has it by now,
            the commit is refused.
        status: What the thread index shows after this commit: `"idle"` when nothing is left to run.
            (`put_writes` of `__interrupt__` or `__error__` makes it paused or failed.)
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
    durability: Durability = "async"
    memo: Any = None
    nodes: Mapping[str, str] = field(default_factory=dict)
    lease: str | None = None
    status: ThreadStatus = "running"


@dataclass(slots=True)
class TaskCommit:
    """Writes of finished tasks on their way to storage, ahead of the superstep that they belong to.

    Attributes:
        thread_id: The thread.
        checkpoint_ns: The namespace inside it.
        checkpoint_id: The checkpoint that the tasks ran from.
        writes: The writes.
        head: The thread must still be this incarnation.
        durability: What the commit must survive.
        nodes: Task id to node name, to name the culprit in an error.
        lease: As in `Commit`.
        status: What the thread index shows after this commit, if these tasks ran from the tip.
    """

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    writes: Sequence[TaskWrites]
    head: Head | None = None
    durability: Durability = "async"
    nodes: Mapping[str, str] = field(default_factory=dict)
    lease: str | None = None
    status: ThreadStatus | None = None


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


def copy_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """Return a copy whose own dicts can be changed. The values in it are shared."""
    copy = checkpoint.copy()
    copy["channel_values"] = dict(checkpoint["channel_values"])
    copy["channel_versions"] = dict(checkpoint["channel_versions"])
    copy["versions_seen"] = {node: dict(seen) for node, seen in checkpoint["versions_seen"].items()}
    return copy


def get_checkpoint_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> CheckpointMetadata:
    """Return the metadata to store: what the config says under `metadata`, and the checkpoint's own."""
    merged: Any = {**config.get("metadata", {}), **metadata}
    return merged  # type: ignore[no-any-return]
