"""Puts a checkpoint together from stored rows, the other direction of `encode`.

`Shared` keeps the items of lists that several checkpoints of one listing have in common, so that a
history costs what is in it, not its length times its size. Nothing here knows a backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from threadmark.checkpoint.records import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    checkpoint_config,
)
from threadmark.checkpoint.rows import RowCodec, value_row, write_row
from threadmark.checkpoint.serde.base import Encoded
from threadmark.errors import StorageCorruptError

__all__ = ["Shared", "StoredCheckpoint", "StoredWrite", "decode", "gone_value"]


class StoredWrite(NamedTuple):
    """A write as it is stored."""

    task_id: str
    idx: int
    channel: str
    data: Encoded
    task_path: str


class StoredCheckpoint(NamedTuple):
    """A checkpoint as it is stored.

    Attributes:
        checkpoint: The checkpoint without the values that are stored by version.
        metadata: Its metadata.
        values: By channel: encoded values, and lists as sequences of encoded items.
    """

    thread_id: str
    ns: str
    id: str
    parent_id: str | None
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    values: Mapping[str, Encoded | list[bytes]]
    writes: Sequence[StoredWrite]


class Shared:
    """The decoded items of the lists of one listing, by their encoded form's identity."""

    def __init__(self, rows: RowCodec) -> None:
        self._rows = rows
        self._known: dict[int, tuple[bytes, Any]] = {}
        self._longest: dict[str, tuple[list[bytes], list[Any]]] = {}

    def decoded(self, items: list[bytes], channel: str) -> list[Any]:
        """Return the decoded items."""
        # Going back in time, a list is mostly the beginning of the one before.
        longer, values = self._longest.get(channel, ([], []))
        if len(items) <= len(longer) and longer[: len(items)] == items:
            return values[: len(items)]
        values = self._decoded(items, channel)
        self._longest[channel] = (items, values)
        return values[:]

    def _decoded(self, items: list[bytes], channel: str) -> list[Any]:
        known = self._known
        missing = [item for item in items if id(item) not in known]
        if missing:
            values = self._rows.loads_items(missing, channel)
            known.update({id(item): (item, value) for item, value in zip(missing, values, strict=True)})
        return [known[id(item)][1] for item in items]


def decode(stored: StoredCheckpoint, rows: RowCodec, shared: Shared | None = None) -> CheckpointTuple:
    """Return the checkpoint that stored rows describe.

    Raises:
        SerializationError: Something in it is not a value of a known type.
    """
    checkpoint: Any = {**stored.checkpoint}
    checkpoint["channel_values"] = {
        **checkpoint.get("channel_values", {}),
        **_values(stored, rows, shared),
    }
    parent = stored.parent_id
    return CheckpointTuple(
        config=checkpoint_config(stored.thread_id, stored.ns, stored.id),
        checkpoint=checkpoint,
        metadata=stored.metadata,
        parent_config=checkpoint_config(stored.thread_id, stored.ns, parent) if parent else None,
        pending_writes=_writes(stored, rows),
    )


def gone_value(thread_id: str, channel: str, checkpoint_id: str) -> StorageCorruptError:
    """Return the error for a value that a checkpoint names and that is not stored any more."""
    return StorageCorruptError(
        f"The value of channel {channel!r} in checkpoint {checkpoint_id!r} of thread {thread_id!r} is gone.",
        thread_id=thread_id,
        table="tm_values",
        checkpoint_id=checkpoint_id,
        channel=channel,
    )


def _values(stored: StoredCheckpoint, rows: RowCodec, shared: Shared | None) -> dict[str, Any]:
    versions = stored.checkpoint["channel_versions"]
    values = {}
    for channel, data in stored.values.items():
        if isinstance(data, list):
            values[channel] = shared.decoded(data, channel) if shared else rows.loads_items(data, channel)
        elif data[0] != "empty":
            row = value_row(stored.thread_id, stored.ns, channel, versions[channel])
            values[channel] = rows.loads(row, data)
    return values


def _writes(stored: StoredCheckpoint, rows: RowCodec) -> list[PendingWrite]:
    address = (stored.thread_id, stored.ns, stored.id)
    return [
        (w.task_id, w.channel, rows.loads(write_row(address, w.channel, w.task_id, w.idx), w.data))
        for w in sorted(stored.writes, key=_live_order)
    ]


def _live_order(write: StoredWrite) -> tuple[str, str, int]:
    return write.task_path, write.task_id, write.idx
