"""What our own savers have in common: their options, and the classic face over the engine's.

A saver of this kind defines `load` and `commit`, and says what it knows of the values that a checkpoint
that is put by hand may build on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from threadmark._checks import instance, text, wrong
from threadmark.checkpoint.address import Address, address_of
from threadmark.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Commit,
    Prepared,
    TaskCommit,
    TaskWrites,
    checkpoint_config,
    get_checkpoint_metadata,
)
from threadmark.checkpoint.encode import EncodedCommit, Memo, Surroundings, encode
from threadmark.checkpoint.options import SaverOptions
from threadmark.checkpoint.rows import RowCodec
from threadmark.checkpoint.serde.base import Encoded, SerializerProtocol
from threadmark.config import RunnableConfig
from threadmark.errors import InvalidArgumentError

__all__ = ["Known", "OwnSaver"]

Known: TypeAlias = "tuple[Memo, Mapping[str, Encoded | list[bytes]]]"
"""What is stored at a checkpoint's parent, and what is stored under the checkpoint's own versions."""


class OwnSaver(BaseCheckpointSaver[str]):
    """The base of our own savers.

    Args:
        serde: The serializer.
        options: How checkpoints are kept.
    """

    def __init__(self, *, serde: SerializerProtocol | None, options: SaverOptions) -> None:
        super().__init__(serde=serde)
        self._options = options
        self._rows = options.codec(self.serde)

    @property
    def _codec(self) -> RowCodec:
        if self._rows.serde is not self.serde:
            self._rows = self._options.codec(self.serde)
        return self._rows

    # What a saver defines

    def _body(self, bare: Checkpoint, around: Surroundings) -> Encoded:
        """Encode a checkpoint without the values that are stored by version."""
        return self._codec.dumps(bare, "checkpoint")

    def _look(self, address: Address, checkpoint: Checkpoint) -> Known:
        """Return what is known of the values that a checkpoint after `address` may build on."""
        return Memo(), {}

    async def _alook(self, address: Address, checkpoint: Checkpoint) -> Known:
        """Async `_look`."""
        return self._look(address, checkpoint)

    # The classic face

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names (without an id: the head), or `None`."""
        return self.load(config).saved

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async `get_tuple`."""
        return (await self.aload(config)).saved

    def prepare(self, commit: Commit | TaskCommit) -> Prepared:
        """Encode and check a commit."""
        return encode(commit, self._codec, self._body)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint after the one that `config` names, and return its address."""
        address = address_of(config)
        check_checkpoint(checkpoint)
        check_notes(metadata, new_versions)
        known = self._look(address, checkpoint)
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
        check_checkpoint(checkpoint)
        check_notes(metadata, new_versions)
        known = await self._alook(address, checkpoint)
        await self.acommit(self._prepared(config, checkpoint, metadata, new_versions, known))
        return checkpoint_config(address.thread_id, address.ns, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save the writes of a task that ran from the checkpoint that `config` names."""
        check_writes(writes, task_id, task_path)
        self.commit(self._prepared_writes(config, TaskWrites(task_id, task_path, writes)))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Async `put_writes`."""
        check_writes(writes, task_id, task_path)
        await self.acommit(self._prepared_writes(config, TaskWrites(task_id, task_path, writes)))

    def _prepared(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        known: Known,
    ) -> EncodedCommit:
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
        encoded = encode(work, self._codec, self._body, existing)
        encoded.branch = address.branch
        return encoded

    def _prepared_writes(self, config: RunnableConfig, task: TaskWrites) -> Prepared:
        address = address_of(config, need_checkpoint=True)
        return self.prepare(TaskCommit(address.thread_id, address.ns, address.checkpoint_id or "", [task]))


def check_checkpoint(checkpoint: Checkpoint) -> None:
    """Refuse what somebody puts by hand and is no checkpoint.

    Raises:
        InvalidArgumentError: It has no id, values or versions.
    """
    given: Any = checkpoint
    usable = isinstance(given, Mapping) and isinstance(given.get("id"), str) and given["id"]
    if not usable or not all(
        isinstance(given.get(key), dict) for key in ("channel_values", "channel_versions")
    ):
        raise InvalidArgumentError(
            "A checkpoint has an id, channel_values and channel_versions. Begin with empty_checkpoint()."
        )


def check_notes(metadata: Any, new_versions: Any) -> None:
    """Refuse what is put by hand with a checkpoint and is no dict.

    Raises:
        InvalidArgumentError: One of them is none.
    """
    for name, given in (("metadata", metadata), ("new_versions", new_versions)):
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            raise wrong(name, given, "a dict with texts as keys")


def check_writes(writes: Any, task_id: Any, task_path: Any) -> None:
    """Refuse writes that are put by hand and are none.

    Raises:
        InvalidArgumentError: They are no pairs of a channel and a value, or not those of a task.
    """
    usable = isinstance(writes, Sequence) and not isinstance(writes, str | bytes)
    if not usable or not all(isinstance(w, tuple | list) and len(w) == 2 for w in writes):
        raise wrong("writes", writes, "a list of pairs of a channel and a value")
    for channel, _ in writes:
        instance("A channel of writes", channel, str, "a text")
    text("task_id", task_id)
    instance("task_path", task_path, str, "a text")
