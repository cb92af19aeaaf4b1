"""What one run is asked to do (`Spec`), what it asks of its driver (the commands), and what it hears back.

Plain data, shared by the state machine in `run.py` and the two drivers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from threadmark.checkpoint.base import Commit, TaskCommit
from threadmark.config import RunnableConfig
from threadmark.pregel.rules import Task
from threadmark.pregel.stream import Chunk
from threadmark.types import Durability, Interrupt

__all__ = ["Command", "Emit", "Execute", "Finished", "Mark", "Outcome", "Spec", "Stop", "Wait"]


@dataclass(slots=True)
class Spec:
    """What one run is asked to do.

    Attributes:
        input: The input, a `Command`, or `None` to go on.
        thread_id: The thread; `None` without a saver.
        ns: The namespace; `""` for the root graph.
        saves: Whether there is a saver.
        modes: The stream modes that somebody listens to.
        output_keys: The channels of the output.
        interrupt_before: Nodes to pause before, or `"*"`.
        interrupt_after: Nodes to pause after, or `"*"`.
        durability: When supersteps are saved.
        recursion_limit: The largest number of supersteps.
        metadata: Saved with every checkpoint.
        nested: The run belongs to a task of another graph.
        lasting: A nested run that keeps its state from one parent superstep to the next.
        answers: Answers to questions by interrupt id.
        parents: The checkpoints of the graphs around this one, by namespace.
        at_tip: The loaded checkpoint is the branch's tip.
        copies: The loaded checkpoint belongs to another namespace and is copied into this one.
        asked_before: The questions that the parent's task paused with.
    """

    input: Any
    thread_id: str | None = None
    ns: str = ""
    saves: bool = False
    modes: Collection[str] = ()
    output_keys: str | Sequence[str] = ()
    interrupt_before: Collection[str] | str = ()
    interrupt_after: Collection[str] | str = ()
    durability: Durability = "async"
    recursion_limit: int = 10_007
    metadata: Mapping[str, Any] = field(default_factory=dict)
    nested: bool = False
    lasting: bool = False
    answers: Mapping[str, Any] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    at_tip: bool = True
    copies: bool = False
    asked_before: Sequence[str] = ()


@dataclass(slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        output: The values of the output channels.
        interrupts: The pending questions, when it paused.
        paused: It stopped before its end, at a question or a breakpoint.
    """

    output: Any = None
    interrupts: tuple[Interrupt, ...] = ()
    paused: bool = False


# Commands, and what the driver sends back


@dataclass(slots=True)
class Execute:
    """Start these tasks. Answer: a list of `Finished`, at least one."""

    tasks: list[Task]


@dataclass(slots=True)
class Wait:
    """Wait for tasks that were started. Answer: a list of `Finished`, at least one."""


@dataclass(slots=True)
class Stop:
    """Cancel the tasks that still run. Answer: a list of `Finished` for all of them.

    Attributes:
        patient: Let what cannot be stopped come to its end, so that what it did is not done again.
    """

    patient: bool = False


@dataclass(slots=True)
class Mark:
    """Tell the time. Answer: a `Moment`, with the version that follows `version`."""

    version: Any


@dataclass(slots=True)
class Emit:
    """Show these chunks to whoever listens. No answer."""

    chunks: Sequence[Chunk]


Command: TypeAlias = Execute | Wait | Stop | Mark | Emit | Commit | TaskCommit


class Finished(NamedTuple):
    """A task came to its end; its `writes` are set if there was no error."""

    task: Task
    error: BaseException | None = None


def address(thread_id: str, ns: str, checkpoint_id: str, parents: Mapping[str, str]) -> RunnableConfig:
    """Return the config of a checkpoint; inside a sub-graph it also names those of the graphs around."""
    configurable: dict[str, Any] = {
        "thread_id": thread_id,
        "checkpoint_ns": ns,
        "checkpoint_id": checkpoint_id,
    }
    if ns:
        configurable["checkpoint_map"] = {**parents, ns: checkpoint_id}
    return {"configurable": configurable}
