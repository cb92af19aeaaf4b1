"""Plans and checkpoints written down by hand, for tests that call the rules."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from threadmark.channels import (
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    Topic,
)
from threadmark.channels.base import MISSING
from threadmark.checkpoint.base import Checkpoint, empty_checkpoint
from threadmark.constants import TASKS
from threadmark.pregel.call import make_func
from threadmark.pregel.plan import Channels, Node, Plan
from threadmark.pregel.rules import Task
from threadmark.types import Send

__all__ = ["SEED", "checkpoint_of", "live", "plan_of", "task_of"]

SEED = ("1ef00000-0000-6000-8000-000000000000", "", 3)
CHANNELS: Channels = {
    "plain": LastValue(str, key="plain"),
    "list": BinaryOperatorAggregate(list, operator.add, key="list"),
    "wake:a": EphemeralValue(Any, guard=False, key="wake:a"),
    "wake:b": EphemeralValue(Any, guard=False, key="wake:b"),
    "late": LastValueAfterFinish(Any, key="late"),
    "both": NamedBarrierValue(str, {"a", "b"}, key="both"),
    TASKS: Topic(Send, accumulate=False, key=TASKS),
}
TRIGGERS = {"a": ("wake:a",), "b": ("wake:b",), "c": ("late",), "d": ("both",), "e": ("wake:a", "both")}


def node(name: str, triggers: tuple[str, ...]) -> Node:
    """Return a node that does nothing."""
    return Node(name, make_func(lambda state: state, name), triggers, lambda c, m: None, lambda out: [])


def plan_of(renames: Mapping[str, str] | None = None) -> Plan:
    """Return a plan with one channel of each kind and a node for each kind of trigger."""
    return Plan(
        name="table",
        named=False,
        nodes={name: node(name, triggers) for name, triggers in TRIGGERS.items()},
        channels=CHANNELS,
        managed={},
        input_channel="plain",
        output_keys=("plain", "list"),
        state_keys=("plain", "list"),
        trim=lambda given: given,
        updates=lambda given: list(given.items()),
        renames=renames or {},
    )


def live(values: Mapping[str, Any]) -> Channels:
    """Return the channels with these saved values."""
    return {name: channel.from_checkpoint(values.get(name, MISSING)) for name, channel in CHANNELS.items()}


def checkpoint_of(versions: Mapping[str, int], seen: Mapping[str, Mapping[str, int]]) -> Checkpoint:
    """Return a checkpoint with these versions."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_versions"] = dict(versions)
    checkpoint["versions_seen"] = {name: dict(saw) for name, saw in seen.items()}
    return checkpoint


def task_of(plan: Plan, name: str, *writes: tuple[str, Any], path: tuple[Any, ...] | None = None) -> Task:
    """Return a task of a node that has written something."""
    found = plan.nodes[name]
    return Task(found, path or ("__pregel_pull", name), found.triggers, SEED, writes=list(writes))
