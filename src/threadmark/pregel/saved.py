"""From a saved checkpoint to live channels: with renamed nodes and migrated state taken into account.

The stored past is never touched; what changes here is only how it is read. Used by runs and by the
reading of snapshots alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from threadmark.channels.base import MISSING
from threadmark.checkpoint.base import Checkpoint, CheckpointTuple, empty_checkpoint
from threadmark.constants import TASKS
from threadmark.errors import GraphChangedError, GraphError, GraphMismatchError
from threadmark.pregel.plan import Channels, Plan

__all__ = ["State", "hydrate"]

BRANCH = "branch:to:"
JOIN = "join:"


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
    """
    if saved is None:
        return State(empty_checkpoint(), {k: c.clone() for k, c in plan.channels.items()})
    check_name(plan, saved)
    checkpoint = writable(saved.checkpoint)
    if plan.renames:
        rename(plan.renames, checkpoint)
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


def rename(names: Mapping[str, str], checkpoint: Checkpoint) -> None:
    """Give the saved traces of renamed nodes their new names."""

    def new(channel: str) -> str:
        if channel.startswith(BRANCH):
            node = channel[len(BRANCH) :]
            return BRANCH + names.get(node, node)
        if channel.startswith(JOIN):
            starts, _, end = channel[len(JOIN) :].rpartition(":")
            renamed = "+".join(names.get(s, s) for s in starts.split("+"))
            return f"{JOIN}{renamed}:{names.get(end, end)}"
        return channel

    values = checkpoint["channel_values"]
    for channel in [c for c in values if c.startswith(JOIN)]:
        values[channel] = renamed_arrivals(names, values[channel])
    checkpoint["channel_values"] = {new(k): v for k, v in values.items()}
    checkpoint["channel_versions"] = {new(k): v for k, v in checkpoint["channel_versions"].items()}
    checkpoint["versions_seen"] = {
        names.get(node, node): {new(k): v for k, v in seen.items()}
        for node, seen in checkpoint["versions_seen"].items()
    }


def renamed_arrivals(names: Mapping[str, str], saved: Any) -> Any:
    """Return what a join has saved, with the nodes that it has heard of under their new names."""
    arrived = {names.get(node, node) for node in arrivals(saved)}
    return (arrived, saved[1]) if isinstance(saved, tuple) else arrived


def arrivals(saved: Any) -> Collection[str]:
    """Return the nodes that a join has heard of. A join that waits for the end notes that beside them."""
    return saved[0] if isinstance(saved, tuple) else saved  # type: ignore[no-any-return]


def migrate(plan: Plan, saved: CheckpointTuple, values: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return the saved values in the shape of the graph's version, and which of them changed."""
    found = int(saved.metadata.get("state_version", 1))  # type: ignore[call-overload]
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


def lost_nodes(plan: Plan, checkpoint: Checkpoint) -> list[str]:
    """Return the nodes that a checkpoint waits for and that the graph does not have."""
    values = checkpoint["channel_values"]
    waiting = [c[len(BRANCH) :] for c in values if c.startswith(BRANCH)]
    sends = [send.node for send in values.get(TASKS) or ()]
    joins = [name for c in values if c.startswith(JOIN) and arrivals(values[c]) for name in members(c)]
    known = plan.nodes.keys() | plan.renames.keys()
    return sorted({name for name in waiting + sends + joins if name not in known})


def members(join: str) -> list[str]:
    """Return the nodes that the channel of a join names: those it waits for, and the one it wakes."""
    starts, _, end = join[len(JOIN) :].rpartition(":")
    return [*starts.split("+"), end]


def refuse_lost_nodes(plan: Plan, checkpoint: Checkpoint) -> None:
    """Refuse to go on from a checkpoint that waits for a node which the graph does not have.

    Raises:
        GraphChangedError: It does.
    """
    lost = lost_nodes(plan, checkpoint)
    if lost:
        raise GraphChangedError(lost)
