"""Branches: the named heads of a thread, and the tree of its checkpoints.

A thread starts with the branch `main`. Going on from an older checkpoint moves the branch to the fork;
the tip that is left behind stays listed as a branch under an automatic name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from threadmark.checkpoint.bridge import Bridged
from threadmark.checkpoint.records import CheckpointMetadata
from threadmark.config import RunnableConfig

__all__ = ["Branch", "Branches", "CheckpointNode"]


@dataclass(frozen=True, slots=True)
class Branch:
    """A named head.

    Attributes:
        name: Its name.
        checkpoint_id: The checkpoint that it ends with.
        automatic: Nobody gave it its name: it was left behind when another was gone on with.
    """

    name: str
    checkpoint_id: str
    automatic: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointNode:
    """A checkpoint's place in the tree of its thread, without its state.

    Attributes:
        config: The checkpoint's address.
        parent_config: The address of the one that it follows.
        metadata: Its metadata.
        created_at: When it was saved.
        branches: The branches that end with it.
    """

    config: RunnableConfig
    parent_config: RunnableConfig | None
    metadata: CheckpointMetadata
    created_at: datetime
    branches: tuple[str, ...] = ()


class Branches(Bridged):
    """What a saver offers for branches. `config` names the thread, and may name a namespace in it."""

    def branches(self, config: RunnableConfig) -> list[Branch]:
        """Return the branches, `main` first and then by name. An unknown thread has none."""
        found: list[Branch] = self._sync("branches", config)
        return found

    async def abranches(self, config: RunnableConfig) -> list[Branch]:
        """Async `branches`."""
        found: list[Branch] = await self._async("branches", config)
        return found

    def tree(self, config: RunnableConfig) -> list[CheckpointNode]:
        """Return the checkpoints, newest first, without reading any values."""
        found: list[CheckpointNode] = self._sync("tree", config)
        return found

    async def atree(self, config: RunnableConfig) -> list[CheckpointNode]:
        """Async `tree`."""
        found: list[CheckpointNode] = await self._async("tree", config)
        return found

    def create_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Begin a branch at the checkpoint that `config` names (without an id: at the head).

        Raises:
            InvalidArgumentError: The name is taken.
            CheckpointNotFoundError: There is no such checkpoint.
        """
        made: Branch = self._sync("create_branch", config, name)
        return made

    async def acreate_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Async `create_branch`."""
        made: Branch = await self._async("create_branch", config, name)
        return made

    def rename_branch(self, config: RunnableConfig, name: str, new_name: str) -> Branch:
        """Give a branch another name. `main` keeps its own.

        Raises:
            InvalidArgumentError: There is no such branch, or the new name is taken.
        """
        made: Branch = self._sync("rename_branch", config, name, new_name)
        return made

    async def arename_branch(self, config: RunnableConfig, name: str, new_name: str) -> Branch:
        """Async `rename_branch`."""
        made: Branch = await self._async("rename_branch", config, name, new_name)
        return made

    def switch_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Move `main` to where another branch ends. What `main` ended with stays a branch.

        Raises:
            InvalidArgumentError: There is no such branch.
        """
        made: Branch = self._sync("switch_branch", config, name)
        return made

    async def aswitch_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Async `switch_branch`."""
        made: Branch = await self._async("switch_branch", config, name)
        return made

    def delete_branch(self, config: RunnableConfig, name: str) -> None:
        """Forget a branch's name. Its checkpoints stay until they are pruned; `main` cannot go.

        Raises:
            InvalidArgumentError: There is no such branch.
        """
        self._sync("delete_branch", config, name)

    async def adelete_branch(self, config: RunnableConfig, name: str) -> None:
        """Async `delete_branch`."""
        await self._async("delete_branch", config, name)


def unknown_branch(name: Any, thread_id: str) -> str:
    """Return the message for a branch that is not there."""
    return f"Thread {thread_id!r} has no branch {name!r}. List them with branches(config)."
