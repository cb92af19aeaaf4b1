"""What each stream mode shows: the payloads of chunks, and the form in which chunks reach the caller.

Pure functions over tasks and channels. When chunks are made is decided in `run.py`, who gets them in the
drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from threadmark.channels.base import MISSING
from threadmark.checkpoint.base import CheckpointMetadata
from threadmark.config import RunnableConfig
from threadmark.constants import INTERRUPT, ROOT
from threadmark.pregel.plan import Channels, Plan, Write
from threadmark.pregel.rules import Task
from threadmark.types import Interrupt, StreamMode

__all__ = ["Chunk", "read_values", "render", "updates_of"]

MODES: frozenset[str] = frozenset(
    {"values", "updates", "checkpoints", "tasks", "debug", "messages", "custom"}
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stream before it is rendered.

    Attributes:
        ns: The namespace it comes from, `""` for the root graph.
        mode: The stream mode that shows it.
        data: What it shows.
        interrupts: The pending questions, for `values` chunks.
    """

    ns: str
    mode: StreamMode
    data: Any
    interrupts: tuple[Interrupt, ...] = ()


def read_values(channels: Channels, keys: str | Sequence[str]) -> Any:
    """Return the values of channels: a dict without the empty ones, or the one value that is asked for."""
    if isinstance(keys, str):
        value = channels[keys].value
        return None if value is MISSING else value
    return {k: v for k in keys if (v := channels[k].value) is not MISSING}


def updates_of(writes: Iterable[Write], keys: str | Sequence[str]) -> Any:
    """Return a task's writes to state keys: a dict, a list of dicts if a key was written repeatedly, the
    value itself for a graph with one channel, or `None`.
    """
    if isinstance(keys, str):
        values = [value for channel, value in writes if channel == keys]
        return values[0] if len(values) == 1 else values or None
    updates: list[dict[str, Any]] = []
    wanted = frozenset(keys)
    for channel, value in writes:
        if channel not in wanted:
            continue
        if not updates or channel in updates[-1]:
            updates.append({})
        updates[-1][channel] = value
    return updates[0] if len(updates) == 1 else updates or None


def update_chunk(task: Task, keys: str | Sequence[str]) -> dict[str, Any]:
    """Return what `updates` shows of a finished task."""
    chunk = {task.name: updates_of(task.writes or (), keys)}
    if task.cached:
        chunk["__metadata__"] = {"cached": True}
    return chunk


def task_start(task: Task) -> dict[str, Any]:
    """Return what `tasks` shows of a task that begins."""
    return {"id": task.id, "name": task.name, "input": task.input, "triggers": task.triggers}


def task_end(keys: str | Sequence[str], task: Task) -> dict[str, Any]:
    """Return what `tasks` shows of a task that ended, with its writes to these keys."""
    return {
        "id": task.id,
        "name": task.name,
        "error": task.error,
        "result": result_of(task.writes or (), keys),
        "interrupts": [show_interrupt(i) for i in task.interrupts],
    }


def result_of(writes: Sequence[Write], keys: str | Sequence[str]) -> Any:
    """Return a task's writes to state keys as its result: by key, also where there is only one."""
    updates = updates_of(writes, keys)
    if isinstance(keys, str):
        return {keys: updates} if any(channel == keys for channel, _ in writes) else {}
    return {} if updates is None else updates


def show_interrupt(question: Interrupt) -> dict[str, Any]:
    """Return an interrupt as plain data."""
    return {"value": question.value, "id": question.id}


def checkpoint_chunk(
    plan: Plan,
    channels: Channels,
    config: RunnableConfig,
    parent_config: RunnableConfig | None,
    metadata: CheckpointMetadata,
    tasks: Sequence[Task],
) -> dict[str, Any]:
    """Return what `checkpoints` shows of a checkpoint."""
    return {
        "config": config,
        "parent_config": parent_config,
        "values": read_values(channels, plan.state_keys),
        "metadata": metadata,
        "next": [task.name for task in tasks],
        "tasks": [checkpoint_task(plan, task, config) for task in tasks],
    }


def checkpoint_task(plan: Plan, task: Task, config: RunnableConfig) -> dict[str, Any]:
    """Return what a `checkpoints` chunk shows of a task of the next superstep."""
    shown: dict[str, Any] = {"id": task.id, "name": task.name}
    if task.error is not None:
        shown["error"] = task.error
    if task.writes is not None:
        shown["result"] = updates_of(task.writes, plan.state_keys)
    shown["interrupts"] = tuple(show_interrupt(i) for i in task.interrupts)
    shown["state"] = None
    if task.node.subgraphs:
        thread_id = config["configurable"]["thread_id"]
        shown["state"] = {"configurable": {"thread_id": thread_id, "checkpoint_ns": task.namespace}}
    return shown


def debug_chunk(step: int, kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `debug` shows: any other payload with its step and time."""
    now = datetime.now(UTC).isoformat()
    return {"step": step, "timestamp": now, "type": kind, "payload": payload}


def with_interrupts(values: Any, interrupts: tuple[Interrupt, ...]) -> Any:
    """Return output values that also say what questions are pending."""
    if isinstance(values, dict):
        return {**values, INTERRUPT: interrupts}
    return {INTERRUPT: interrupts} if values is None else {ROOT: values, INTERRUPT: interrupts}


def render(
    chunk: Chunk,
    *,
    many: bool,
    subgraphs: bool,
    version: str,
    shape: Callable[[Any], Any] = lambda values: values,
) -> Any:
    """Return a chunk as the caller sees it.

    Args:
        chunk: The chunk.
        many: The caller asked for a list of modes, so each chunk says which it is.
        subgraphs: The caller asked for chunks of sub-graphs, so each says where it comes from.
        version: `"v1"` for bare chunks and tuples, `"v2"` for dicts.
        shape: Makes an instance of the state's class, which `values` show in `"v2"`.
    """
    ns = tuple(chunk.ns.split("|")) if chunk.ns else ()
    if version == "v2":
        if chunk.mode != "values":
            return {"type": chunk.mode, "ns": ns, "data": chunk.data}
        data = shape(chunk.data) if not ns else chunk.data
        return {"type": chunk.mode, "ns": ns, "data": data, "interrupts": chunk.interrupts}
    data = chunk.data
    if chunk.interrupts:
        data = with_interrupts(data, chunk.interrupts)
    if subgraphs:
        return (ns, chunk.mode, data) if many else (ns, data)
    return (chunk.mode, data) if many else data
