"""Branches and the tree of checkpoints, for the memory saver."""

from __future__ import annotations

from threadmark.checkpoint.address import MAIN, Address, address_of, branch_name
from threadmark.checkpoint.branches import Branch, CheckpointNode, unknown_branch
from threadmark.checkpoint.memory.parts import Space
from threadmark.checkpoint.memory.shelf import Shelf
from threadmark.checkpoint.records import checkpoint_config
from threadmark.checkpoint.serde.base import Row
from threadmark.checkpoint.threads import moment
from threadmark.config import RunnableConfig
from threadmark.errors import CheckpointNotFoundError, InvalidArgumentError

__all__ = ["Branching"]


class Branching(Shelf):
    """See `threadmark.checkpoint.branches.Branches`."""

    def branches(self, config: RunnableConfig) -> list[Branch]:
        """Return the branches, `main` first and then by name. An unknown thread has none."""
        address = address_of(config)
        with self._lock:
            space = self._space(address.thread_id, address.ns) or Space()
            found = [Branch(name, tip, name in space.automatic) for name, tip in space.heads.items()]
        return sorted(found, key=lambda branch: (branch.name != MAIN, branch.name))

    def tree(self, config: RunnableConfig) -> list[CheckpointNode]:
        """Return the checkpoints, newest first, without reading any values."""
        address = address_of(config)
        tips: dict[str, list[str]] = {}
        for branch in self.branches(config):
            tips.setdefault(branch.checkpoint_id, []).append(branch.name)
        with self._lock:
            space = self._space(address.thread_id, address.ns) or Space()
            return [self._node(address, space, name, tips) for name in reversed(space)]

    def _node(
        self, address: Address, space: Space, checkpoint_id: str, tips: dict[str, list[str]]
    ) -> CheckpointNode:
        thread_id, ns = address.thread_id, address.ns
        _, metadata, parent = space[checkpoint_id]
        return CheckpointNode(
            checkpoint_config(thread_id, ns, checkpoint_id),
            checkpoint_config(thread_id, ns, parent) if parent else None,
            self._codec.loads(Row("metadata", thread_id, ns, checkpoint_id), metadata),
            moment(space.facts[checkpoint_id].created),
            tuple(tips.get(checkpoint_id, ())),
        )

    def create_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Begin a branch at the checkpoint that `config` names (without an id: at the head)."""
        address = address_of(config)
        branch_name(name)
        with self._lock:
            space = self._existing(address)
            tip = address.checkpoint_id or space.heads.get(address.branch)
            if tip is None or tip not in space:
                raise CheckpointNotFoundError(address.thread_id, tip or "")
            _free(space, name)
            space.heads[name] = tip
        return Branch(name, tip)

    def rename_branch(self, config: RunnableConfig, name: str, new_name: str) -> Branch:
        """Give a branch another name. `main` keeps its own."""
        address = address_of(config)
        branch_name(name)
        branch_name(new_name, "new_name")
        with self._lock:
            space = self._existing(address)
            tip = _other(address, space, name)
            if new_name != name:
                _free(space, new_name)
            space.drop_head(name)
            space.heads[new_name] = tip
        return Branch(new_name, tip)

    def switch_branch(self, config: RunnableConfig, name: str) -> Branch:
        """Move `main` to where another branch ends. What `main` ended with stays a branch."""
        address = address_of(config)
        branch_name(name)
        with self._lock:
            space = self._existing(address)
            tip = _other(address, space, name)
            left = space.heads.get(MAIN)
            space.heads[MAIN] = tip
            if name in space.automatic:
                space.drop_head(name)
            if left is not None and left != tip:
                space.name_tip(left)
        return Branch(MAIN, tip)

    def delete_branch(self, config: RunnableConfig, name: str) -> None:
        """Forget a branch's name. Its checkpoints stay until they are pruned; `main` cannot go."""
        address = address_of(config)
        branch_name(name)
        with self._lock:
            space = self._existing(address)
            _other(address, space, name)
            space.drop_head(name)

    def _existing(self, address: Address) -> Space:
        thread = self._thread(address.thread_id)
        if thread is None:
            raise CheckpointNotFoundError(address.thread_id, address.checkpoint_id or "")
        return thread.get(address.ns) or Space()


def _other(address: Address, space: Space, name: str) -> str:
    """Return the tip of a branch that is not `main`."""
    if name == MAIN:
        raise InvalidArgumentError("The branch main stays where it is; switch or create another one.")
    if name not in space.heads:
        raise InvalidArgumentError(unknown_branch(name, address.thread_id))
    return space.heads[name]


def _free(space: Space, name: str) -> None:
    if name in space.heads:
        raise InvalidArgumentError(f"The branch {name!r} exists already. Choose another name.")
