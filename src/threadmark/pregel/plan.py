"""A compiled graph: everything that every run of it shares, made once and never changed.

A `Plan` names the channels, the nodes and what triggers them. It does not know how the graph was written
down; `threadmark.graph` and `threadmark.func` both make plans. It does no I/O and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from threadmark.channels.base import BaseChannel
from threadmark.pregel.call import Func
from threadmark.types import CachePolicy, RetryPolicy

__all__ = ["Branch", "Channels", "Node", "Plan", "Write"]

Channels: TypeAlias = dict[str, BaseChannel[Any]]
Write: TypeAlias = tuple[str, Any]
"""A channel and a value for it."""
Reader: TypeAlias = Callable[[Channels, Mapping[str, Any]], Any]
"""Makes a node's input from the channels and the managed values."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A choice that is made after a node has run.

    Attributes:
        path: The user's code; its input is the state with the node's writes applied.
        route: Turns the code's answer into writes.
        read: Makes the code's input.
    """

    path: Func
    route: Callable[[Any], Sequence[Write]]
    read: Reader


@dataclass(frozen=True, slots=True)
class Node:
    """A node: what wakes it, what it reads, what it calls and what it writes.

    Attributes:
        name: The node's name.
        func: The user's code.
        triggers: The channels whose news wake it.
        read: Makes its input.
        coerce: Makes its input from what a `Send` carries.
        writes: Turns its output into writes.
        branches: Choices made after it has run, in order.
        retry: The first policy that matches an error decides.
        cache: Reuse of results.
        timeout: Seconds for one attempt.
        idle_timeout: Seconds without a sign of life.
        subgraphs: The compiled graphs that the code holds.
        on_error: Code whose output replaces that of a node that failed for good.
        hidden: The node is the graph's own and not shown in streams.
        cache_namespace: Where a cache keeps its results.
    """

    name: str
    func: Func
    triggers: tuple[str, ...]
    read: Reader
    writes: Callable[[Any], list[Write]]
    coerce: Callable[[Any], Any] | None = None
    branches: tuple[Branch, ...] = ()
    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy | None = None
    timeout: float | None = None
    idle_timeout: float | None = None
    subgraphs: tuple[Any, ...] = ()
    on_error: Func | None = None
    hidden: bool = False
    cache_namespace: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled graph.

    Attributes:
        name: The graph's name.
        named: Whether the user gave that name.
        nodes: The nodes by name.
        channels: An empty channel for each name.
        managed: The computed values that nodes can read, by key: functions of (step, stop).
        input_channel: The channel that takes a run's input.
        output_keys: The channels (or the one channel) that make a run's output.
        state_keys: The channels that make a snapshot's values.
        triggered: Channel to the nodes that it wakes.
        forgets: The channels that must hear of supersteps without writes.
        finishers: The channels that must hear that nothing is left to run.
        trim: Turns an input into the value for `input_channel`, or raises.
        updates: Turns an update that comes from no node into writes.
        shape: Makes an instance of the state's class from its values.
        output_shape: Makes an instance of the output's class from its values.
        version: The version of the state's shape.
        migrate: From version n to a function that makes state of version n + 1.
        renames: Old node names to new ones.
        known_types: The classes that the schemas name.
        calls: The nodes are there to call tasks, which are shown while a node runs.
    """

    name: str
    named: bool
    nodes: dict[str, Node]
    channels: Channels
    managed: Mapping[str, Callable[[int, int], Any]]
    input_channel: str
    output_keys: str | tuple[str, ...]
    state_keys: str | tuple[str, ...]
    trim: Callable[[Any], Any]
    updates: Callable[[Any], list[Write]]
    shape: Callable[[Any], Any] = field(default=lambda values: values)
    output_shape: Callable[[Any], Any] = field(default=lambda values: values)
    version: int = 1
    migrate: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)
    known_types: frozenset[type] = frozenset()
    calls: bool = False
    triggered: dict[str, tuple[str, ...]] = field(init=False)
    forgets: frozenset[str] = field(init=False)
    finishers: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        woken: dict[str, list[str]] = {}
        for node in self.nodes.values():
            for channel in node.triggers:
                woken.setdefault(channel, []).append(node.name)
        put = object.__setattr__
        put(self, "triggered", {channel: tuple(sorted(names)) for channel, names in woken.items()})
        put(self, "forgets", frozenset(k for k, c in self.channels.items() if c.forgets))
        ends = (k for k, c in self.channels.items() if type(c).finish is not BaseChannel.finish)
        put(self, "finishers", tuple(ends))
