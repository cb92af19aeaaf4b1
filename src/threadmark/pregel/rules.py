"""Which tasks run next, what their writes do, when to pause. Pure functions over plain data.

A superstep follows from the last checkpoint alone:

- A node is *awake* when one of its trigger channels holds a value of a version that the node has not
  seen. Every awake node is a task; so is every `Send` that waits in the `__pregel_tasks` channel.
- When all tasks are done, their writes are applied together, ordered by task path: triggers are
  consumed, each written channel takes all its writes at once and gets the superstep's new version, and
  the channels that forget are told that nothing came.
- When nothing is awake then, the channels that wait for the end are told so; they may wake nodes again.

Nothing here knows of threads, time, storage or streams.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from threadmark.channels.base import MISSING
from threadmark.checkpoint.base import Checkpoint, TaskWrites
from threadmark.constants import (
    ERROR,
    INTERRUPT,
    NO_WRITES,
    NS_END,
    NS_SEP,
    NULL_TASK_ID,
    PULL,
    PUSH,
    RESERVED,
    RESUME,
    RETURN,
    TASKS,
)
from threadmark.errors import GraphChangedError, InvalidUpdateError
from threadmark.pregel.plan import Channels, Node, Plan, Write
from threadmark.types import Interrupt, Send

try:
    # What `hashlib.blake2b` is, without OpenSSL, which takes longer to load than the rest of this package.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["Task", "apply_writes", "next_tasks", "pauses", "preview"]

SPECIAL = frozenset({ERROR, INTERRUPT, RESUME, RETURN, NO_WRITES})
"""The channels of writes that say something about the task and change no state."""


@dataclass(slots=True, eq=False)
class Task:
    """One execution of a node in one superstep.

    Attributes:
        node: The node.
        path: How the task came to be; tasks are ordered by it.
        triggers: The channels that woke it.
        seed: What the id is made from: checkpoint id, namespace, step.
        input: What the node gets.
        writes: What the node wrote; `None` until it has finished.
        answers: The answers to its questions so far, in order.
        interrupts: The questions that it paused with.
        error: What it failed with.
        cached: The writes come from storage or a cache, not from a call.
        stalled: Its questions were not answered, so it does not run.
        send: The `Send` that it carries out.
        former: In a fork: the same task of the checkpoint that was forked.
        ahead: The channels as they are with the node's own writes, if its branches had to see them.
        was: The name that the node had when work of this task was saved, if it was renamed since.
    """

    node: Node
    path: tuple[Any, ...]
    triggers: tuple[str, ...]
    seed: tuple[str, str, int]
    input: Any = None
    writes: list[Write] | None = None
    answers: Sequence[Any] = ()
    interrupts: tuple[Interrupt, ...] = ()
    error: BaseException | None = None
    cached: bool = False
    stalled: bool = False
    send: Send | None = None
    former: Task | None = None
    ahead: Channels | None = None
    was: str = ""
    _id: str = ""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def id(self) -> str:
        """The task's id: the same for the same task of the same checkpoint, always."""
        if not self._id:
            checkpoint_id, ns, step = self.seed
            # Names hold no `|`, so the parts cannot be mistaken for each other.
            text = f"{checkpoint_id}|{ns}|{step}|{path_text(self.path)}|{self.was or self.node.name}"
            self._id = as_uuid(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest())
        return self._id

    @property
    def namespace(self) -> str:
        """The namespace of a sub-graph that runs inside this task."""
        parent = self.seed[1]
        own = f"{self.was or self.node.name}{NS_END}{self.id}"
        return f"{parent}{NS_SEP}{own}" if parent else own

    @property
    def saved_writes(self) -> TaskWrites:
        """The task's writes as they are saved."""
        writes = self.writes or [(NO_WRITES, None)]
        return TaskWrites(self.id, path_text(self.path), writes)

    def question_id(self, index: int) -> str:
        """Return the id of the task's question number `index`, counted from 0."""
        return digest_id(self.namespace, index).replace("-", "")

    def unanswered(self) -> list[Interrupt]:
        """Return the questions of this unfinished task that wait for an answer."""
        if self.writes is not None:
            return []
        answered = {self.question_id(i) for i in range(len(self.answers))}
        return [i for i in self.interrupts if i.id not in answered]


def digest_id(*parts: Any) -> str:
    """Return a UUID-like text that depends on nothing but the parts."""
    return as_uuid(blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest())


def as_uuid(text: str) -> str:
    """Return 32 hexadecimal digits in the form of a UUID."""
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@lru_cache(maxsize=4096)
def path_text(path: Any) -> str:
    """Return a task path as it is saved: `~__pregel_pull, node`, numbers padded so that they sort."""
    if isinstance(path, tuple):
        return "~" + ", ".join(map(path_text, path))
    return f"{path:010d}" if isinstance(path, int) else str(path)


def sort_key(task: Task) -> str:
    """Order tasks: pulled ones by name, then pushed ones in the order of their `Send`s."""
    return path_text(task.path)


# What runs next


def next_tasks(
    plan: Plan,
    checkpoint: Checkpoint,
    channels: Channels,
    seed: tuple[str, str, int],
    news: Collection[str] | None = None,
) -> list[Task]:
    """Return the tasks of the superstep that follows a checkpoint, without their inputs.

    Args:
        plan: The graph.
        checkpoint: The last checkpoint.
        channels: Its channels.
        seed: The checkpoint's id, the namespace, and the number of the superstep.
        news: The channels that the last superstep updated, if that is known: only the nodes that they
            trigger are looked at.
    """
    topic = channels.get(TASKS)
    tasks = [] if topic is None or topic.value is MISSING else pushed(plan, topic.value, seed)
    if news is None:
        names: Iterable[str] = sorted(plan.nodes)
    elif len(news) == 1:
        names = plan.triggered.get(next(iter(news)), ())
    else:
        names = sorted({name for channel in news for name in plan.triggered.get(channel, ())})
    versions, seen = checkpoint["channel_versions"], checkpoint["versions_seen"]
    for name in names:
        node = plan.nodes[name]
        if awake(node, versions, seen.get(name, {}), channels):
            tasks.append(Task(node, (PULL, name), node.triggers, seed))
    return tasks


def pushed(plan: Plan, sends: Sequence[Send], seed: tuple[str, str, int]) -> list[Task]:
    """Return a task for each `Send` that waits."""
    tasks = []
    for index, send in enumerate(sends):
        node = plan.nodes.get(plan.renames.get(send.node, send.node))
        if node is None:
            raise GraphChangedError([send.node])
        tasks.append(Task(node, (PUSH, index, False), (PUSH,), seed, send=send))
    return tasks


def awake(node: Node, versions: Any, seen: Any, channels: Channels) -> bool:
    """Tell whether one of a node's triggers holds something that the node has not seen."""
    for trigger in node.triggers:
        if channels[trigger].value is not MISSING and trigger in versions:
            last = seen.get(trigger)
            if last is None or versions[trigger] > last:
                return True
    return False


# What writes do


def apply_writes(
    plan: Plan,
    checkpoint: Checkpoint,
    channels: Channels,
    tasks: Sequence[Task],
    version: Any,
    holding: set[str],
) -> tuple[set[str], set[str]]:
    """Apply the writes of a superstep's tasks to the checkpoint and its channels.

    Args:
        plan: The graph.
        checkpoint: The checkpoint; its `channel_versions` and `versions_seen` are changed.
        channels: The channels; they are changed.
        tasks: The tasks, each with its writes.
        version: The superstep's version for every channel that changes.
        holding: The channels that forget and hold a value now; kept up to date, so that not every channel
            has to be looked at.

    Returns:
        The channels that changed, and those of them that hold something new (they may wake nodes).

    Raises:
        InvalidUpdateError: A channel cannot take its writes. The channels are then in between; a run
            does not go on from there.
    """
    if len(tasks) > 1:
        tasks = sorted(tasks, key=sort_key)
    changed: set[str] = set()
    ran = False
    for task in tasks:
        if task.triggers:
            ran = True
            consume(task, checkpoint, channels, changed)
    writes = by_channel(tasks)
    news: set[str] = set()
    # What the only task of a superstep has already worked out for its branches is not worked out again.
    ahead = tasks[0].ahead or {} if len(tasks) == 1 else {}
    for channel, values in writes.items():
        if channel in ahead:
            channels[channel] = ahead[channel]
        elif not update(channels, channel, values, tasks):
            continue
        changed.add(channel)
        if channels[channel].value is not MISSING:
            news.add(channel)
    if ran:
        for channel in holding - writes.keys():
            if channels[channel].update(()):
                changed.add(channel)
        if plan.finishers and plan.triggered.keys().isdisjoint(news):
            ends = [c for c in plan.finishers if channels[c].finish()]
            changed.update(ends)
            news.update(ends)
    remember(plan, channels, changed, holding)
    # In the order of the writes, which is also the order in which saved versions are listed.
    versions = checkpoint["channel_versions"]
    for channel in writes:
        if channel in changed:
            versions[channel] = version
    for channel in sorted(changed - writes.keys()):
        versions[channel] = version
    return changed, news


def consume(task: Task, checkpoint: Checkpoint, channels: Channels, changed: set[str]) -> None:
    """Note that a task has seen its triggers, and tell them."""
    versions, seen = checkpoint["channel_versions"], checkpoint["versions_seen"]
    saw = seen.setdefault(task.node.name, {})
    for trigger in task.triggers:
        if trigger in versions:
            saw[trigger] = versions[trigger]
        if trigger in channels and channels[trigger].consume():
            changed.add(trigger)


def remember(plan: Plan, channels: Channels, changed: set[str], holding: set[str]) -> None:
    """Bring up to date which of the channels that forget hold a value."""
    for channel in changed & plan.forgets:
        if channels[channel].value is MISSING:
            holding.discard(channel)
        else:
            holding.add(channel)


def by_channel(tasks: Iterable[Task]) -> dict[str, list[Any]]:
    """Return all writes to each channel, in the order of the tasks."""
    written: dict[str, list[Any]] = {}
    for task in tasks:
        for channel, value in task.writes or ():
            if channel in written:
                written[channel].append(value)
            elif channel not in SPECIAL:
                written[channel] = [value]
    return written


def update(channels: Channels, channel: str, values: list[Any], tasks: Sequence[Task]) -> bool:
    """Let a channel take its writes; an error names the nodes that wrote."""
    try:
        return channels[channel].update(values)
    except KeyError:
        if channel not in channels:
            raise InvalidUpdateError(
                f"Channel {channel!r} does not exist in this graph. If it did, bring it back until the "
                f"thread has come to its end."
            ) from None
        raise
    except InvalidUpdateError as error:
        writers = [t.node.name for t in tasks if any(c == channel for c, _ in t.writes or ())]
        raise InvalidUpdateError(f"{error} Written by: {', '.join(sorted(writers))}.") from None


def written(channels: Channels, writes: Iterable[Write]) -> Channels:
    """Return copies of the channels that some writes go to, with the writes applied. A write that cannot be
    applied is left out: this is for looking ahead, the superstep itself will tell.
    """
    values_of: dict[str, list[Any]] = {}
    for channel, value in writes:
        values_of.setdefault(channel, []).append(value)
    copies: Channels = {}
    for channel, values in values_of.items():
        if channel not in channels or channel in RESERVED:
            continue
        copy = channels[channel].copy()
        copy.kept = channels[channel].kept
        try:
            copy.update(values)
        except InvalidUpdateError:
            continue
        copies[channel] = copy
    return copies


def preview(channels: Channels, writes: Iterable[Write]) -> Channels:
    """Return the channels as they would be with some writes; those given stay as they are."""
    return {**channels, **written(channels, writes)}


# When to pause


def pauses(checkpoint: Checkpoint, names: Collection[str] | str, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks that a static breakpoint stops, if the state changed since the last stop."""
    versions = checkpoint["channel_versions"]
    seen = checkpoint["versions_seen"].get(INTERRUPT, {})
    if not any(c not in seen or v > seen[c] for c, v in versions.items()):  # type: ignore[operator]
        return []
    return [t for t in tasks if (not t.node.hidden if names == "*" else t.node.name in names)]


# What was saved of tasks


def match_writes(
    tasks: Sequence[Task],
    pending: Sequence[tuple[str, str, Any]],
    renames: Mapping[str, str] = MappingProxyType({}),
) -> list[Write]:
    """Give tasks the writes that were saved for them, under their node's old name too; return the writes of
    no task.
    """
    if renames:
        saved = {task_id for task_id, _, _ in pending}
        for task in tasks:
            recognise(task, saved, renames)
    by_id = {task.id: task for task in tasks}
    loose: list[Write] = []
    for task_id, channel, value in pending:
        if task_id == NULL_TASK_ID:
            loose.append((channel, value))
        elif task_id in by_id:
            match_write(by_id[task_id], channel, value)
    for task in tasks:
        if task.writes is not None:
            task.cached = True
    return loose


def recognise(task: Task, saved: set[str], renames: Mapping[str, str]) -> None:
    """Give a task the id that it had before its node was renamed, if work was saved under that."""
    path = task.path
    for old in ["", *(old for old, new in renames.items() if new == task.node.name)]:
        task.was, task._id = old, ""
        task.path = (PULL, old) if old and path[0] == PULL else path
        if task.id in saved:
            return
    task.was, task._id, task.path = "", "", path


def match_write(task: Task, channel: str, value: Any) -> None:
    """Give a task one saved write."""
    if channel == INTERRUPT:
        task.interrupts = tuple(value)
    elif channel == RESUME:
        task.answers = list(value)
    elif channel == ERROR:
        task.error = value
    else:
        if task.writes is None:
            task.writes = []
        if channel != NO_WRITES:
            task.writes.append((channel, value))
