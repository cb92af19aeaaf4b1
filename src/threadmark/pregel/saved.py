"""From a saved checkpoint to live channels: with renamed nodes and migrated state taken into account.

The stored past is never touched; what changes here is only how it is read. Used by runs and by the
reading of snapshots alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from threadmark.channels.barrier import arrivals
from threadmark.channels.base import MISSING
from threadmark.checkpoint.base import Checkpoint, CheckpointTuple, empty_checkpoint
from threadmark.constants import TASKS
from threadmark.errors import GraphChangedError, GraphError, GraphMismatchError
from threadmark.pregel.intact import BRANCH, JOIN, refuse_damage, sends_of
from threadmark.pregel.plan import Channels, Plan

__all__ = ["State", "hydrate"]


@dataclass(slots=True)
class State:
    """A checkpoint brought to life.

    Attributes:
        checkpoint: The checkpoint, free to be changed.
        channels: Its channels.
        migrated: The channels whose value is not the stored one, so that the next commit must save it.
    """

    checkpoint: Checkpoint
    channels: Channels
    migrated: set[str] = field(default_factory=set)


def hydrate(plan: Plan, saved: CheckpointTuple | None) -> State:
    """Return the state of a saved checkpoint, or that of a new thread.

    Raises:
        GraphMismatchError: Graph and thread both have names, and they differ.
        GraphError: The state was saved by a newer version of the graph, or a migration is missing.
        StorageCorruptError: No run could have saved it.
    """
    if saved is None:
        return State(empty_checkpoint(), {k: c.clone() for k, c in plan.channels.items()})
    refuse_damage(saved)
    check_name(plan, saved)
    checkpoint = writable(saved.checkpoint)
    if plan.renames or any(is_lost(plan, c) for c in checkpoint["channel_values"]):
        rename(plan, checkpoint)
    values, migrated = migrate(plan, saved, checkpoint["channel_values"])
    channels = {k: c.from_checkpoint(values.get(k, MISSING)) for k, c in plan.channels.items()}
    return State(checkpoint, channels, migrated)


def check_name(plan: Plan, saved: CheckpointTuple) -> None:
    """Refuse a thread that belongs to a graph of another name."""
    found = saved.metadata.get("graph")
    if plan.named and isinstance(found, str) and found != plan.name:
        raise GraphMismatchError(saved.config["configurable"]["thread_id"], plan.name, found)


def writable(checkpoint: Checkpoint) -> Checkpoint:
    """Return a copy whose versions can be changed."""
    copy = checkpoint.copy()
    copy["channel_values"] = dict(checkpoint["channel_values"])
    copy["channel_versions"] = dict(checkpoint.get("channel_versions") or {})
    copy["versions_seen"] = {k: dict(v) for k, v in (checkpoint.get("versions_seen") or {}).items()}
    return copy


def home(plan: Plan, channel: str) -> str:
    """Return the channel of this graph that a saved one has become: nodes may be renamed, and a join may name
    the nodes that it waits for in another order.
    """
    names = plan.renames
    if channel.startswith(BRANCH):
        node = channel[len(BRANCH) :]
        return BRANCH + names.get(node, node)
    if not channel.startswith(JOIN):
        return channel
    *starts, end = members(channel)
    end, starts = names.get(end, end), [names.get(start, start) for start in starts]
    renamed = f"{JOIN}{'+'.join(starts)}:{end}"
    if renamed in plan.channels:
        return renamed
    same = (c for c in plan.channels if c.startswith(JOIN) and members(c)[-1] == end)
    return next((c for c in same if sorted(members(c)[:-1]) == sorted(starts)), renamed)


def rename(plan: Plan, checkpoint: Checkpoint) -> None:
    """Give the saved traces of renamed nodes and of joins the names that they have in this graph."""
    values = checkpoint["channel_values"]
    for channel in [c for c in values if c.startswith(JOIN)]:
        values[channel] = renamed_arrivals(plan.renames, values[channel])
    checkpoint["channel_values"] = {home(plan, k): v for k, v in values.items()}
    checkpoint["channel_versions"] = {home(plan, k): v for k, v in checkpoint["channel_versions"].items()}
    checkpoint["versions_seen"] = {
        plan.renames.get(node, node): {home(plan, k): v for k, v in seen.items()}
        for node, seen in checkpoint["versions_seen"].items()
    }


def renamed_arrivals(names: Mapping[str, str], saved: Any) -> Any:
    """Return what a join has saved, with the nodes that it has heard of under their new names."""
    arrived = {names.get(node, node) for node in arrivals(saved)}
    return (arrived, saved[1]) if isinstance(saved, tuple) else arrived


def migrate(plan: Plan, saved: CheckpointTuple, values: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return the saved values in the shape of the graph's version, and which of them changed."""
    found: Any = saved.metadata.get("state_version", 1)
    if found == plan.version:
        return values, set()
    if found > plan.version:
        raise GraphError(
            f"The state was saved by version {found} of the graph, this is version {plan.version}. Run the "
            f"newer program."
        )
    state = {k: v for k, v in values.items() if k in plan.state_keys or is_state(k)}
    rest = {k: v for k, v in values.items() if k not in state}
    for version in range(found, plan.version):
        step = plan.migrate.get(version)
        if step is None:
            raise GraphError(
                f"State of version {version} cannot be read. Pass migrate={{{version}: function}} to the "
                f"graph."
            )
        state = step(dict(state))
    return {**rest, **state}, {k for k in state if k in plan.channels}


def is_state(channel: str) -> bool:
    """Tell whether a channel belongs to the user's state rather than to the engine."""
    return not channel.startswith((BRANCH, JOIN, "__"))


def is_lost(plan: Plan, channel: str) -> bool:
    """Tell whether a saved channel says what runs next, but not in this graph."""
    return channel.startswith((BRANCH, JOIN)) and channel not in plan.channels


def members(join: str) -> list[str]:
    """Return the nodes that the channel of a join names: those it waits for, and the one it wakes."""
    starts, _, end = join[len(JOIN) :].rpartition(":")
    return [*starts.split("+"), end]


def refuse_lost_nodes(plan: Plan, checkpoint: Checkpoint, written: Collection[str]) -> None:
    """Refuse to go on from a checkpoint that waits for what this graph does not have.

    Args:
        plan: The graph.
        checkpoint: The checkpoint, with its channels named as in this graph.
        written: The channels that its finished tasks have written to.

    Raises:
        GraphChangedError: It waits for a node that is gone, or has done half of a join that is gone.
    """
    values = checkpoint["channel_values"]
    held = [c for c in values if c.startswith(BRANCH) or (c.startswith(JOIN) and arrivals(values[c]))]
    lost = sorted({c for c in [*held, *written] if is_lost(plan, c)})
    joins = [members(c) for c in lost if c.startswith(JOIN)]
    waiting = {c[len(BRANCH) :] for c in lost if c.startswith(BRANCH)}
    waiting |= {send.node for send in sends_of(values.get(TASKS)) or ()} | {
        name for join in joins for name in join
    }
    nodes = sorted(waiting - plan.nodes.keys() - plan.renames.keys())
    if nodes or joins:
        raise GraphChangedError(nodes, [(tuple(starts), end) for *starts, end in joins])


def forget_lost(plan: Plan, checkpoint: Checkpoint) -> None:
    """Drop what a checkpoint waits for and this graph does not have: a new input gives it up."""
    for channel in [c for c in checkpoint["channel_versions"] if is_lost(plan, c)]:
        del checkpoint["channel_versions"][channel]
        checkpoint["channel_values"].pop(channel, None)
