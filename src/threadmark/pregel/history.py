"""Reading and editing saved state: snapshots, histories, updates. Written once over a saver's operations.

An operation is a generator that yields `Ask`s (a method of the saver and its arguments, or user code to be
called) and is sent the answers; `perform` and `aperform` carry them out, sync and async. Nothing here runs a
superstep.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from collections.abc import Iterator as SyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from threadmark.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from threadmark.config import RunnableConfig, current_scope
from threadmark.constants import INPUT
from threadmark.errors import CheckpointNotFoundError, InvalidArgumentError
from threadmark.pregel.body import Call
from threadmark.pregel.given import namespace_of, owner
from threadmark.pregel.launch import refuse_unknown_branch
from threadmark.pregel.plan import Channels, Plan
from threadmark.pregel.rules import Task, digest_id, match_writes, next_tasks, preview
from threadmark.pregel.saved import hydrate
from threadmark.pregel.scope import TaskScope, thread_of
from threadmark.pregel.stream import read_values, updates_of
from threadmark.types import PregelTask, StateSnapshot

if TYPE_CHECKING:
    from threadmark.pregel.main import Pregel

__all__ = ["Ask", "alist_states", "aperform", "get_state", "list_states", "perform"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """Call a method of the saver, or its async twin. Answer: what it returned."""

    method: str
    arguments: tuple[Any, ...]


Operation: TypeAlias = Generator[Ask | Call, Any, T]


def perform(saver: BaseCheckpointSaver[Any], operation: Operation[T]) -> T:
    """Carry out an operation in this thread."""
    answer: Any = None
    try:
        while True:
            ask = operation.send(answer)
            if isinstance(ask, Call):
                answer = ask.func.call(NO_TASK, ask.value)
            else:
                answer = getattr(saver, ask.method)(*ask.arguments)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def aperform(saver: BaseCheckpointSaver[Any], operation: Operation[T]) -> T:
    """Carry out an operation on this event loop."""
    answer: Any = None
    try:
        while True:
            ask = operation.send(answer)
            if isinstance(ask, Ask):
                answer = await getattr(saver, "a" + ask.method)(*ask.arguments)
            elif ask.func.run_async is not None:
                answer = await ask.func.acall(NO_TASK, ask.value)
            else:
                answer = ask.func.call(NO_TASK, ask.value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


class NoTask:
    """Stands for the running task where user code is called outside of a run."""

    config: RunnableConfig = {"configurable": {}}  # noqa: RUF012 - never changed

    @property
    def runtime(self) -> Any:
        """A runtime with nothing in it."""
        from threadmark.runtime import Runtime

        return Runtime()

    def ask(self, value: Any) -> Any:
        """Refuse a question: there is nobody to ask."""
        raise InvalidArgumentError("interrupt() cannot be called while the state is edited.")


NO_TASK: Any = NoTask()


# Reading


@dataclass(slots=True)
class View:
    """A saved checkpoint with all that can be told of it without asking storage again.

    Attributes:
        saved: The checkpoint.
        channels: Its channels.
        tasks: The tasks of its next superstep, with what was saved of them.
        loose: Writes that were saved under it and belong to no task.
    """

    saved: CheckpointTuple
    channels: Channels
    tasks: list[Task]
    loose: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def config(self) -> dict[str, Any]:
        """The checkpoint's address."""
        return self.saved.config["configurable"]


def view(plan: Plan, saved: CheckpointTuple) -> View:
    """Return a view of a saved checkpoint."""
    state = hydrate(plan, saved)
    ns = saved.config["configurable"].get("checkpoint_ns") or ""
    step = saved.metadata.get("step", -1) + 1
    tasks = next_tasks(plan, state.checkpoint, state.channels, (saved.checkpoint["id"], ns, step))
    loose = match_writes(tasks, saved.pending_writes or (), plan.renames)
    return View(saved, state.channels, tasks, loose)


def snapshot(
    plan: Plan, seen: View, parent: View | None, states: dict[str, Any], *, latest: bool
) -> StateSnapshot:
    """Return the snapshot of a checkpoint.

    Args:
        plan: The graph.
        seen: The checkpoint.
        parent: The checkpoint before it, for `metadata["writes"]`.
        states: The states of sub-graphs by task id.
        latest: Show what finished tasks of an unfinished superstep have already written.
    """
    finished = [write for task in seen.tasks for write in task.writes or ()] if latest else []
    written = [*seen.loose, *finished]
    channels = preview(seen.channels, written) if written else seen.channels
    tasks = tuple(show_task(plan, task, states.get(task.id), latest) for task in seen.tasks)
    waiting = [task for task in seen.tasks if not latest or task.writes is None]
    return StateSnapshot(
        values=read_values(channels, plan.state_keys),
        next=tuple(task.name for task in waiting),
        config=show_config(seen.saved),
        metadata=show_metadata(plan, seen, parent),  # type: ignore[arg-type]
        created_at=seen.saved.checkpoint["ts"],
        parent_config=seen.saved.parent_config,
        tasks=tasks,
        interrupts=tuple(i for task in tasks for i in task.interrupts),
    )


def show_config(saved: CheckpointTuple) -> RunnableConfig:
    """Return a checkpoint's address; in a sub-graph it also names the checkpoints of the graphs around."""
    configurable = dict(saved.config["configurable"])
    ns = configurable.setdefault("checkpoint_ns", "")
    if ns:
        parents = saved.metadata.get("parents") or {}
        configurable["checkpoint_map"] = {**parents, ns: configurable["checkpoint_id"]}
    return {"configurable": configurable}


def show_task(plan: Plan, task: Task, state: Any, latest: bool) -> PregelTask:
    """Return a task as a snapshot shows it."""
    error = task.error if isinstance(task.error, Exception) else None
    asked = task.unanswered() if latest else task.interrupts
    result = None
    if task.writes is not None:
        result = updates_of(task.writes, plan.state_keys) or {}
    return PregelTask(task.id, task.name, task.path, error, tuple(asked), state, result)


def show_metadata(plan: Plan, seen: View, parent: View | None) -> dict[str, Any]:
    """Return the metadata of a checkpoint with the writes that led to it."""
    metadata = dict(seen.saved.metadata)
    shown: dict[str, Any] = {"source": metadata.pop("source", None)}
    shown["writes"] = writes_of(plan, seen, parent)
    shown["step"] = metadata.pop("step", None)
    if not metadata.get("parents"):
        metadata.pop("parents", None)
    return {**shown, **metadata}


def writes_of(plan: Plan, seen: View, parent: View | None) -> Any:
    """Return what was written on the way to a checkpoint: by node, the input, or `None`."""
    source = seen.saved.metadata.get("source")
    if source == "input":
        return input_of(plan, seen)
    if parent is None:
        return None
    if source == "loop":
        nodes = [t for t in parent.tasks if t.writes is not None and not t.node.hidden]
        return {t.name: updates_of(t.writes or (), plan.state_keys) for t in nodes} or None
    if source == "update":
        return edits_of(plan, seen, parent)
    return None


def input_of(plan: Plan, seen: View) -> Any:
    """Return the input that a checkpoint holds, without what leaves the state as it is (such as no items for
    a key that adds up items).
    """
    given = seen.saved.checkpoint["channel_values"].get(plan.input_channel)
    if not isinstance(given, dict):
        return given
    return {k: v for k, v in given.items() if not is_idle(seen.channels, k, v)} or None


def is_idle(channels: Channels, key: str, value: Any) -> bool:
    """Tell whether writing a value to a channel with a reducer changes nothing."""
    channel = channels.get(key)
    return hasattr(channel, "operator") and isinstance(value, list | tuple | dict | set) and not value


def edits_of(plan: Plan, seen: View, parent: View) -> dict[str, Any] | None:
    """Return the updates that `update_state` made a checkpoint from."""
    by_task: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in parent.saved.pending_writes or ():
        by_task.setdefault(task_id, []).append((channel, value))
    edits: dict[str, Any] = {}
    for name in [*plan.nodes, INPUT]:
        index = 0
        while (task_id := edit_id(seen.saved.checkpoint["id"], name, index)) in by_task:
            edits[name] = updates_of(by_task[task_id], plan.state_keys)
            index += 1
    if not edits:
        # An edit in the place of a node that was to run next is saved as that node's own work.
        done = [t for t in parent.tasks if t.writes is not None and not t.node.hidden]
        edits = {t.name: updates_of(t.writes or (), plan.state_keys) for t in done}
    return edits or None


def edit_id(checkpoint_id: str, node: str, index: int) -> str:
    """Return the id under which an update is saved that made a checkpoint."""
    return digest_id(checkpoint_id, "update", node, index)


def check_address(config: RunnableConfig) -> RunnableConfig:
    """Return a config whose thread and namespace are usable as an address.

    Raises:
        InvalidArgumentError: The thread is not named.
    """
    thread_id = thread_of(config)
    if thread_id is None:
        raise InvalidArgumentError("Name the thread: config={'configurable': {'thread_id': ...}}.")
    namespace_of(config["configurable"])
    return {**config, "configurable": {**config["configurable"], "thread_id": thread_id}}


def location(config: RunnableConfig) -> RunnableConfig:
    """Return only what savers look at."""
    keys = ("thread_id", "checkpoint_ns", "checkpoint_id", "branch")
    given = {"checkpoint_ns": "", **config["configurable"]}
    return {"configurable": {k: given[k] for k in keys if given.get(k) is not None}}


def outer_scope() -> TaskScope | None:
    """Return the running task, if code inside a node reads or edits a state."""
    scope = current_scope()
    return scope if isinstance(scope, TaskScope) else None


def get_state(graph: Pregel, config: RunnableConfig, subgraphs: bool) -> Operation[StateSnapshot]:
    """Read a snapshot."""
    return (
        yield from read_state(
            owner(graph, config["configurable"].get("checkpoint_ns") or ""), config, subgraphs
        )
    )


def read_state(graph: Pregel, config: RunnableConfig, subgraphs: bool) -> Operation[StateSnapshot]:
    """Read a snapshot of the graph that the config's namespace belongs to."""
    saved: CheckpointTuple | None = yield Ask("get_tuple", (location(config),))
    if saved is None:
        refuse_unknown_branch(config, saved)
        return empty_snapshot(config)
    seen = view(graph.plan, saved)
    parent = yield from parent_view(graph.plan, saved)
    states = yield from child_states(seen, subgraphs)
    latest = not config["configurable"].get("checkpoint_id")
    return snapshot(graph.plan, seen, parent, states, latest=latest or (yield from is_tip(saved)))


def is_tip(saved: CheckpointTuple) -> Operation[bool]:
    """Tell whether a checkpoint is the last of its branch."""
    address = {k: v for k, v in saved.config["configurable"].items() if k != "checkpoint_id"}
    tip: CheckpointTuple | None = yield Ask("get_tuple", ({"configurable": address},))
    return tip is not None and tip.checkpoint["id"] == saved.checkpoint["id"]


def empty_snapshot(config: RunnableConfig) -> StateSnapshot:
    """Return the snapshot of a thread that has no checkpoints.

    Raises:
        CheckpointNotFoundError: The config names one.
    """
    configurable = config["configurable"]
    if configurable.get("checkpoint_id"):
        raise CheckpointNotFoundError(configurable["thread_id"], configurable["checkpoint_id"])
    return StateSnapshot({}, (), config, None, None, None, ())


def parent_view(plan: Plan, saved: CheckpointTuple) -> Operation[View | None]:
    """Read the checkpoint before another one."""
    if saved.parent_config is None:
        return None
    parent: CheckpointTuple | None = yield Ask("get_tuple", (saved.parent_config,))
    return view(plan, parent) if parent is not None else None


def child_states(seen: View, subgraphs: bool) -> Operation[dict[str, Any]]:
    """Read the states of the sub-graphs that belong to the tasks of a checkpoint: their addresses, or with
    `subgraphs` their snapshots.
    """
    states: dict[str, Any] = {}
    for task in seen.tasks:
        for graph in task.node.subgraphs[:1]:
            if graph.checkpointer is False:
                continue
            ns = task.namespace
            if graph.checkpointer is True:
                ns = "|".join(part.partition(":")[0] for part in ns.split("|"))
            address: RunnableConfig = {
                "configurable": {"thread_id": seen.config["thread_id"], "checkpoint_ns": ns}
            }
            if not subgraphs:
                states[task.id] = address
                continue
            found = yield from read_state(graph, address, True)
            states[task.id] = found if found.metadata is not None else address
    return states


def list_states(
    graph: Pregel,
    saver: BaseCheckpointSaver[Any],
    config: RunnableConfig,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> SyncIterator[StateSnapshot]:
    """Yield the snapshots of a thread, newest first."""
    graph = owner(graph, config["configurable"].get("checkpoint_ns") or "")
    last: View | None = None
    for saved in saver.list(location(config), filter=filter, before=before, limit=limit):
        seen = view(graph.plan, saved)
        if last is not None:
            yield perform(saver, listed(graph, last, seen))
        last = seen
    if last is not None:
        yield perform(saver, listed(graph, last, None))


async def alist_states(
    graph: Pregel,
    saver: BaseCheckpointSaver[Any],
    config: RunnableConfig,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> AsyncIterator[StateSnapshot]:
    """Async `list_states`."""
    graph = owner(graph, config["configurable"].get("checkpoint_ns") or "")
    last: View | None = None
    async for saved in saver.alist(location(config), filter=filter, before=before, limit=limit):
        seen = view(graph.plan, saved)
        if last is not None:
            yield await aperform(saver, listed(graph, last, seen))
        last = seen
    if last is not None:
        yield await aperform(saver, listed(graph, last, None))


def listed(graph: Pregel, seen: View, older: View | None) -> Operation[StateSnapshot]:
    """Return the snapshot of a listed checkpoint. The next older one of the list is mostly its parent."""
    parent_config = seen.saved.parent_config
    parent = None
    if parent_config is not None:
        wanted = parent_config["configurable"]["checkpoint_id"]
        if older is not None and older.saved.checkpoint["id"] == wanted:
            parent = older
        else:
            parent = yield from parent_view(graph.plan, seen.saved)
    states = yield from child_states(seen, False)
    return snapshot(graph.plan, seen, parent, states, latest=False)
