"""Branches of a thread, the tree of its checkpoints, and what two checkpoints differ in.

The saver keeps the branches; here they get their place on a compiled graph, sync and async.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.branches import Branch, CheckpointNode
from threadmark.config import RunnableConfig
from threadmark.errors import InvalidArgumentError
from threadmark.types import StateSnapshot

if TYPE_CHECKING:
    from threadmark.checkpoint.base import BaseCheckpointSaver

__all__ = ["Branching", "Change", "StateDiff", "diff"]


@dataclass(frozen=True, slots=True)
class Change:
    """How one key of the state differs between two checkpoints.

    Attributes:
        before: Its value in the first.
        after: Its value in the second.
        kept: For lists: how many items at the front are the same.
        removed: For lists: the items after those, in the first.
        added: For lists: the items after those, in the second.
    """

    before: Any
    after: Any
    kept: int | None = None
    removed: list[Any] | None = None
    added: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class StateDiff:
    """What two states differ in.

    Attributes:
        added: The keys that only the second has, with their values.
        removed: The keys that only the first has, with their values.
        changed: The keys that both have with different values.
    """

    added: dict[str, Any] = field(default_factory=dict)
    removed: dict[str, Any] = field(default_factory=dict)
    changed: dict[str, Change] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def diff(a: StateSnapshot, b: StateSnapshot) -> StateDiff:
    """Return what two snapshots differ in."""
    before = a.values if isinstance(a.values, dict) else {"__root__": a.values}
    after = b.values if isinstance(b.values, dict) else {"__root__": b.values}
    return StateDiff(
        added={k: v for k, v in after.items() if k not in before},
        removed={k: v for k, v in before.items() if k not in after},
        changed={k: change(before[k], v) for k, v in after.items() if k in before and before[k] != v},
    )


def change(before: Any, after: Any) -> Change:
    """Return how a value changed; lists are compared item by item from the front."""
    if not isinstance(before, list) or not isinstance(after, list):
        return Change(before, after)
    kept = common(before, after)
    return Change(before, after, kept, before[kept:], after[kept:])


def common(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return how many items at the front of two lists are equal."""
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return index
    return min(len(before), len(after))


class Branching:
    """The methods of a compiled graph that deal with branches. `config` names the thread, and may name a
    checkpoint or a namespace in it.
    """

    def _saver(self) -> BaseCheckpointSaver[Any]:
        raise InvalidArgumentError("This graph has no checkpointer.")

    def _place(self, config: RunnableConfig) -> RunnableConfig:
        raise InvalidArgumentError("This graph has no checkpointer.")

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread."""
        raise InvalidArgumentError("This graph has no checkpointer.")

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Async `get_state`."""
        raise InvalidArgumentError("This graph has no checkpointer.")

    def branches(self, config: RunnableConfig) -> list[Branch]:
        """Return the branches of a thread with their tips, `main` first."""
        return self._saver().branches(self._place(config))

    async def abranches(self, config: RunnableConfig) -> list[Branch]:
        """Async `branches`."""
        return await self._saver().abranches(self._place(config))

    def create_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Begin a branch at a checkpoint (without an id: at the head).

        Raises:
            InvalidArgumentError: The name is taken.
            CheckpointNotFoundError: There is no such checkpoint.
        """
        return self._saver().create_branch(self._place(config), name)

    async def acreate_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Async `create_branch`."""
        return await self._saver().acreate_branch(self._place(config), name)

    def rename_branch(self, config: RunnableConfig, name: str, new_name: str) -> Branch:
        """Give a branch another name.

        Raises:
            InvalidArgumentError: There is no such branch, it is `main`, or the new name is taken.
        """
        return self._saver().rename_branch(self._place(config), name, new_name)

    async def arename_branch(self, config: RunnableConfig, name: str, new_name: str) -> Branch:
        """Async `rename_branch`."""
        return await self._saver().arename_branch(self._place(config), name, new_name)

    def switch_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Make another branch the head: move `main` to its tip. The old tip stays a branch.

        Raises:
            InvalidArgumentError: There is no such branch.
        """
        return self._saver().switch_branch(self._place(config), name)

    async def aswitch_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Async `switch_branch`."""
        return await self._saver().aswitch_branch(self._place(config), name)

    def delete_branch(self, config: RunnableConfig, name: str) -> None:
        """Forget a branch. Its checkpoints stay until they are pruned.

        Raises:
            InvalidArgumentError: There is no such branch, or it is `main`.
        """
        self._saver().delete_branch(self._place(config), name)

    async def adelete_branch(self, config: RunnableConfig, name: str) -> None:
        """Async `delete_branch`."""
        await self._saver().adelete_branch(self._place(config), name)

    def tree(self, config: RunnableConfig) -> list[CheckpointNode]:
        """Return the checkpoints of a thread, newest first, without reading any values."""
        return self._saver().tree(self._place(config))

    async def atree(self, config: RunnableConfig) -> list[CheckpointNode]:
        """Async `tree`."""
        return await self._saver().atree(self._place(config))

    def diff(self, a: RunnableConfig, b: RunnableConfig) -> StateDiff:
        """Return what the states at two checkpoints differ in."""
        return diff(self.get_state(a), self.get_state(b))

    async def adiff(self, a: RunnableConfig, b: RunnableConfig) -> StateDiff:
        """Async `diff`."""
        return diff(await self.aget_state(a), await self.aget_state(b))
