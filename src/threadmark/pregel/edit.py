"""Editing saved state: `update_state` and `bulk_update_state`.

An update makes a new checkpoint, as if a node had written it. An operation in the sense of `history.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from threadmark._checks import shown, text, wrong
from threadmark.checkpoint.base import Head, Loaded, TaskWrites
from threadmark.config import RunnableConfig
from threadmark.constants import COPY, END, INPUT, INTERRUPT, START
from threadmark.errors import InvalidArgumentError, InvalidUpdateError
from threadmark.pregel import ids
from threadmark.pregel.body import Call
from threadmark.pregel.given import owner
from threadmark.pregel.history import Ask, Operation, edit_id, location
from threadmark.pregel.launch import refuse_unknown_branch
from threadmark.pregel.plan import Write
from threadmark.pregel.rules import Task, apply_writes, match_writes, preview
from threadmark.pregel.run import Run
from threadmark.pregel.saved import home
from threadmark.pregel.spec import Spec, address
from threadmark.types import StateUpdate

if TYPE_CHECKING:
    from threadmark.checkpoint.base import BaseCheckpointSaver
    from threadmark.checkpoint.leases import Lease
    from threadmark.pregel.main import Pregel

__all__ = ["update_state"]

EDIT_PATH = (INTERRUPT, 0)
"""The task path of an update."""


def update_state(
    graph: Pregel,
    saver: BaseCheckpointSaver[Any],
    config: RunnableConfig,
    supersteps: Sequence[Sequence[StateUpdate]],
    lease: Lease | None = None,
) -> Operation[RunnableConfig]:
    """Apply updates, one checkpoint for each superstep, and return the config of the last."""
    listed = isinstance(supersteps, Sequence) and not isinstance(supersteps, str | bytes)
    if not listed or not all(isinstance(step, Sequence) and not isinstance(step, str) for step in supersteps):
        raise wrong("supersteps", supersteps, "a list of lists of StateUpdate")
    if not supersteps:
        raise InvalidArgumentError("No supersteps were given. Pass at least one list of StateUpdate.")
    if not all(supersteps):
        raise InvalidArgumentError(
            "A superstep holds no updates. Leave it out, or pass StateUpdate(None) to copy the checkpoint."
        )
    graph = owner(graph, config["configurable"].get("checkpoint_ns") or "")
    for update in (update for updates in supersteps for update in updates):
        check_update(update)
    where = location(config)
    for updates in supersteps:
        loaded: Loaded = yield Ask("load", (where,))
        refuse_unknown_branch(where, loaded.saved)
        edit = Edit(graph, saver, config, loaded)
        edit.lease = lease
        where = yield from edit.superstep([StateUpdate(*update) for update in updates])
    return where


def check_update(update: Any) -> None:
    """Refuse what is no update.

    Raises:
        InvalidArgumentError: It is none, or its node or id are no texts.
    """
    if not isinstance(update, tuple) or not 1 <= len(update) <= 3:
        raise wrong("An update of supersteps", update, "a StateUpdate")
    _, as_node, task_id = StateUpdate(*update)
    text("as_node", as_node, optional=True)
    text("task_id", task_id, optional=True)


def written_by(tasks: list[Task]) -> list[Write]:
    """Return the writes of tasks."""
    return [write for task in tasks for write in task.writes or ()]


class Edit:
    """One superstep of updates on a loaded checkpoint.

    Args:
        graph: The graph.
        saver: Where it is saved.
        config: What the caller passed.
        loaded: What was loaded.
    """

    lease: Lease | None = None

    def __init__(
        self, graph: Pregel, saver: BaseCheckpointSaver[Any], config: RunnableConfig, loaded: Loaded
    ) -> None:
        self.graph = graph
        self.plan = graph.plan
        self.saver = saver
        self.loaded = loaded
        given = config["configurable"]
        ns = given.get("checkpoint_ns") or ""
        saved = loaded.saved
        parents = (saved.metadata.get("parents") if saved is not None else None) or {}
        spec = Spec(None, thread_id=given["thread_id"], ns=ns, saves=True, parents=parents, durability="sync")
        spec.metadata = dict(config.get("metadata") or {})
        self.run = Run(self.plan, spec, saved)
        self.tasks = self.run.find_tasks()
        # What followed a checkpoint of the past belongs to another branch, not to this edit.
        head = loaded.head
        self.at_tip = saved is None or head is None or head.checkpoint_id == saved.checkpoint["id"]
        pending = saved.pending_writes if saved is not None and self.at_tip else None
        known = [(task_id, home(self.plan, channel), value) for task_id, channel, value in pending or ()]
        self.loose = match_writes(self.tasks, known, self.plan.renames)
        self.edits: list[TaskWrites] = []

    def superstep(self, updates: list[StateUpdate]) -> Operation[RunnableConfig]:
        """Apply the updates together and save the result."""
        run = self.run
        special = self.special(updates)
        if special == COPY:
            return (yield from self.copy())
        if special == INPUT:
            return (yield from self.take_input(updates[0].values))
        self.run.step = max(self.run.step, 0)
        moment = self.moment()
        run.ticks = max(moment.ticks, run.ticks + 1)
        identity = ids.checkpoint_id(run.ticks, run.step, moment.random)
        done = [task for task in self.tasks if task.writes is not None]
        if special == END:
            done = self.tasks
            for task in done:
                task.writes = task.writes or []
        edits: list[Task] = []
        if special is None:
            for update in updates:
                edits.append((yield from self.edit(update, updates, identity, edits)))
        # What an edit wakes runs again: what it had written before would count twice.
        woken = {name for c, _ in written_by(edits) for name in self.plan.triggered.get(c, ())}
        done = [task for task in done if task.send is not None or task.node.name not in woken]
        if done or edits or self.loose:
            loose = [Task(self.any_node(), (), (), ("", "", 0), writes=self.loose)] if self.loose else []
            run.version = moment.version
            changed, _ = apply_writes(
                self.plan, run.checkpoint, run.channels, [*loose, *done, *edits], moment.version, run.holding
            )
            run.changed |= changed
        run.changed |= run.migrated
        return (yield from self.save("update", identity))

    def any_node(self) -> Any:
        """Return a node to stand for writes that come from none."""
        return next(iter(self.plan.nodes.values()))

    def moment(self) -> ids.Moment:
        """Return the time, random bits and the next version."""
        version = self.saver.get_next_version(self.run.version, None)
        return ids.Moment(time.time_ns() // 100 + ids.EPOCH_TICKS, random.getrandbits(48), version)

    def special(self, updates: list[StateUpdate]) -> str | None:
        """Return which of the special edits this is: `END`, `COPY`, `INPUT`, or `""` for a plain copy."""
        first = updates[0]
        if first.as_node not in (END, COPY, INPUT) and not (first.values is None and first.as_node is None):
            return None
        if len(updates) > 1:
            raise InvalidUpdateError(
                f"An update as {shown(first.as_node)} must be the only one of its superstep."
            )
        if first.as_node in (END, COPY) and first.values is not None:
            raise InvalidUpdateError(f"An update as {shown(first.as_node)} takes no values.")
        return first.as_node or ""

    def copy(self) -> Operation[RunnableConfig]:
        """Save the same state again, beside the checkpoint rather than after it."""
        saved = self.loaded.saved
        if saved is None:
            raise InvalidUpdateError("There is no checkpoint to copy.")
        moment = self.moment()
        self.run.ticks = max(moment.ticks, self.run.ticks + 1)
        parent = saved.parent_config
        self.run.last_saved = parent["configurable"]["checkpoint_id"] if parent is not None else None
        identity = ids.checkpoint_id(self.run.ticks, self.run.step, moment.random)
        return (yield from self.save("fork", identity))

    def take_input(self, values: Any) -> Operation[RunnableConfig]:
        """Save an input as if a run had been started with it."""
        moment = self.moment()
        run = self.run
        run.ticks = max(moment.ticks, run.ticks + 1)
        run.seen_input()
        given = Task(
            self.any_node(), (), (), ("", "", 0), writes=[(self.plan.input_channel, self.plan.trim(values))]
        )
        changed, _ = apply_writes(
            self.plan, run.checkpoint, run.channels, [given], moment.version, run.holding
        )
        run.changed |= changed
        return (yield from self.save("input", ids.checkpoint_id(run.ticks, run.step, moment.random)))

    def edit(
        self, update: StateUpdate, updates: list[StateUpdate], identity: str, before: list[Task]
    ) -> Operation[Task]:
        """Return an update as the task of the node that it counts for."""
        name = update.as_node or self.guess()
        node = self.plan.nodes.get(name)
        if node is None:
            known = ", ".join(sorted(n for n in self.plan.nodes if n != START))
            raise InvalidUpdateError(f"as_node={shown(name)} names no node. Nodes: {known}.")
        task = Task(node, EDIT_PATH, (INTERRUPT,), ("", "", 0))
        task._id = update.task_id or self.id_for(name, identity, before)
        task.writes = node.writes(update.values)
        for branch in node.branches:
            written = written_by([*before, task])
            value = branch.read(preview(self.run.channels, written), self.run.managed())
            task.writes += branch.route((yield Call(branch.path, value)))
        task.path = (*EDIT_PATH[:1], len(before))
        self.edits.append(task.saved_writes)
        return task

    def id_for(self, name: str, identity: str, before: list[Task]) -> str:
        """Return the id to save an update under: that of the task whose place it takes, or one of its own."""
        taken = {task.id for task in before}
        for task in self.tasks:
            if task.name == name and task.writes is None and self.at_tip and task.id not in taken:
                return task.id
        return edit_id(identity, name, sum(task.name == name for task in before))

    def guess(self) -> str:
        """Return the node that an update counts for when the caller does not say: the one that ran last.

        Raises:
            InvalidUpdateError: Several ran last.
        """
        nodes = [name for name in self.plan.nodes if name != START]
        seen = self.run.checkpoint["versions_seen"]
        ran = [(max(v.values()), n) for n, v in seen.items() if n in self.plan.nodes and v]
        if not ran:
            return START if START in self.plan.nodes else nodes[0]
        last = max(version for version, _ in ran)
        names = sorted(name for version, name in ran if version == last)
        if len(names) > 1:
            raise InvalidUpdateError(f"{', '.join(names)} ran last, all of them: say which with as_node=...")
        return names[0]

    def save(self, source: str, identity: str) -> Operation[RunnableConfig]:
        """Save the new checkpoint."""
        run = self.run
        run.checkpoint["id"], run.checkpoint["ts"] = identity, ids.timestamp(run.ticks)
        run.checkpoint["updated_channels"] = None
        run.source = source
        run.unsaved = self.edits
        run.step += 1
        run.tasks = None
        run.find_tasks()
        commit = run.take_commit()
        commit.head, commit.memo = self.loaded.head, self.loaded.memo
        commit.lease = self.lease.token if self.lease is not None else None
        commit.status = "paused" if run.tasks else "idle"
        head: Head | None = yield Ask("commit", (self.saver.prepare(commit),))
        assert head is None or head.checkpoint_id == identity
        return address(run.spec.thread_id or "", run.spec.ns, identity, run.spec.parents)
