"""Saves commits in one transaction: compares the head, writes what is new, moves the head.

Several commits of one run that follow each other are saved together: what the first finds out about the
thread holds for the next, and rows of one kind wait in line until something has to be read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from threadmark._db.effects import Execute, ExecuteMany, Operation, Transaction
from threadmark.checkpoint._sql.leases import check_lease
from threadmark.checkpoint._sql.lists import ListPlace, Slices, Source, read_slices, store_list, write_slices
from threadmark.checkpoint._sql.pack import shorten
from threadmark.checkpoint._sql.shapes import VALUE
from threadmark.checkpoint._sql.standing import (
    Standing,
    check_head,
    find_standing,
    name_tip,
    number_of,
    space_of,
)
from threadmark.checkpoint._sql.statements import Statements
from threadmark.checkpoint._sql.threads import Index, create_thread, touch_thread
from threadmark.checkpoint._sql.upkeep import delete_rows, prune_rows
from threadmark.checkpoint.encode import EncodedCommit, EncodedValue
from threadmark.checkpoint.lists import Recipe
from threadmark.checkpoint.options import SaverOptions
from threadmark.checkpoint.records import Head
from threadmark.checkpoint.retention import LATEST, HeadNode, Node, Plan, plan
from threadmark.checkpoint.rows import RowCodec, value_row
from threadmark.checkpoint.threads import FRESH_MS

__all__ = ["Committing", "commit"]


@dataclass(slots=True)
class Committing:
    """What every step of saving a commit needs."""

    index: Index
    work: EncodedCommit
    options: SaverOptions

    @property
    def sql(self) -> Statements:
        """The statements."""
        return self.index.sql

    @property
    def rows(self) -> RowCodec:
        """How rows are encoded."""
        return self.index.rows


@dataclass(slots=True)
class Batch:
    """A transaction that saves commits.

    Attributes:
        place: Thread, namespace and branch of the last commit.
        at: Where that branch stands once what is in line is written.
        waiting: Rows in line, by statement.
        head: The move of the head that is in line.
        lists: Where the lists of this transaction are, by channel and version.
        noted: The run whose work on the thread was noted in this transaction.
    """

    place: tuple[str, str, str] | None = None
    at: Standing = field(default_factory=Standing)
    waiting: dict[str, list[Any]] = field(default_factory=dict)
    head: tuple[str, tuple[Any, ...]] | None = None
    lists: dict[Any, Slices] = field(default_factory=dict)
    noted: str | None = None

    def add(self, statement: str, row: tuple[Any, ...]) -> None:
        """Put a row in line."""
        rows = self.waiting.get(statement)
        if rows is None:
            self.waiting[statement] = [row]
        else:
            rows.append(row)

    def flush(self) -> Operation[None]:
        """Write what is in line. Whoever reads what a commit may have changed does this first."""
        for statement, rows in self.waiting.items():
            yield ExecuteMany(statement, rows) if len(rows) > 1 else Execute(statement, rows[0])
        self.waiting = {}
        if self.head is not None:
            yield Execute(*self.head)
            self.head = None


def commit(tasks: Sequence[Committing]) -> Operation[Head | None]:
    """Save commits of one run that follow each other: all of them, or none.

    Returns:
        The head that the next commit must find; `None` when only writes were saved.

    Raises:
        ThreadConflictError: The head is not the one that the first commit expects.
        ThreadDeletedError: The thread, or the checkpoint that a commit follows, is not there.
    """
    moved, lists = yield Transaction(_commit_all(tasks), any(task.work.durable for task in tasks))
    # Only now is it certain what is stored.
    for task in tasks:
        task.work.memo.run_id = task.work.run_id
    if lists:
        memo = next(task.work.memo for task in reversed(tasks) if task.work.checkpoint_id is not None)
        memo.keys = _without_followed(tasks, {**(memo.keys or {}), **lists})
    return moved  # type: ignore[no-any-return]


def _without_followed(tasks: Sequence[Committing], known: dict[Any, Slices]) -> dict[Any, Slices]:
    values = (value for task in tasks for value in task.work.values)
    followed = {(v.channel, v.data.follows) for v in values if isinstance(v.data, Recipe)}
    return {key: slices for key, slices in known.items() if key not in followed}


def _commit_all(tasks: Sequence[Committing]) -> Operation[tuple[Head | None, dict[Any, Slices]]]:
    batch = Batch()
    moved: Head | None = None
    for task in tasks:
        moved = (yield from _commit(task, batch)) or moved
    yield from batch.flush()
    last = tasks[-1]
    if moved is not None and last.options.history == "latest":
        yield from prune_rows(last.index, batch.at.thread or 0, last.work.thread_id, _latest)
    return moved, batch.lists


def _commit(task: Committing, batch: Batch) -> Operation[Head | None]:
    # The usual superstep is saved here; what is not usual has functions of its own below.
    sql, work = task.sql, task.work
    at = yield from _standing(task, batch)
    check_head(work, at)
    parent = None
    if work.parent_id is not None:
        parent = at.seq if work.parent_id == at.tip else (yield from _number(task, batch, work.parent_id))
    if work.base_id is not None and work.base_id != work.parent_id and work.base_id != at.tip:
        yield from _number(task, batch, work.base_id)
    if parent is not None and work.writes:
        _save_writes(task, batch, parent)
    if at.thread is None:
        at = Standing(thread=(yield from _create_thread(task, at)))
    elif _is_stale(task, at):
        yield from _touch(task, at)
        at = at._replace(updated=task.index.now, status=_status(task, at))
    batch.at = at
    if work.checkpoint_id is None:
        return None
    seq, space = at.last + 1, at.space
    if space is None:
        space = (yield from space_of(sql, at.thread or 0, work.ns)) or seq
    if work.head is not None or not (yield from _replace(task, batch, parent, space)):
        row = (at.thread, seq, space, work.checkpoint_id, parent, task.index.now, *work.body, *work.metadata)
        batch.add(sql.create_checkpoint, row)
        yield from _move_head(task, batch, parent, seq, space)
    yield from _save_values(task, batch, space)
    if work.run_id is not None and work.run_id not in (work.memo.run_id, batch.noted):
        yield Execute(sql.note_run, (at.thread, work.run_id))
        batch.noted = work.run_id
    return Head(at.incarnation, work.checkpoint_id, work.branch)


def _standing(task: Committing, batch: Batch) -> Operation[Standing]:
    """Find where the branch of a commit stands, and make sure that the run may write to it."""
    work = task.work
    place = (work.thread_id, work.ns, work.branch)
    if batch.place == place:
        return batch.at
    yield from batch.flush()
    at = yield from find_standing(task.sql, *place, task.index.now)
    if work.lease is not None:
        yield from check_lease(task.sql, work.thread_id, work.lease)
    batch.place, batch.at, batch.lists = place, at, {}
    return at


def _number(task: Committing, batch: Batch, checkpoint_id: str) -> Operation[int]:
    yield from batch.flush()
    return (yield from number_of(task.sql, task.work, batch.at, checkpoint_id))


def _latest(nodes: Sequence[Node], heads: Sequence[HeadNode]) -> Plan:
    return plan(nodes, heads, LATEST, 0)


# The thread


def _create_thread(task: Committing, at: Standing) -> Operation[int]:
    work = task.work
    if at.expired is not None:
        yield from delete_rows(task.index, at.expired)
    status, ttl = work.status or "idle", task.options.ttl_ms
    return (yield from create_thread(task.index, work.thread_id, status, ttl, work.about or {}))


def _status(task: Committing, at: Standing) -> str:
    """Return the status that the thread has after the commit. Sub-graphs have no say in it, nor has what ran
    from a checkpoint that is not the tip any more.
    """
    work = task.work
    if work.ns or work.status is None or (work.checkpoint_id is None and work.parent_id != at.tip):
        return at.status
    return work.status


def _is_stale(task: Committing, at: Standing) -> bool:
    """Tell whether the thread's row must be renewed."""
    fresh = task.index.now - at.updated <= FRESH_MS
    return not fresh or _status(task, at) != at.status or bool(task.work.about)


def _touch(task: Committing, at: Standing) -> Operation[None]:
    work, refresh = task.work, task.options.refresh_ttl
    return touch_thread(
        task.index, at.thread or 0, work.thread_id, _status(task, at), work.about or {}, refresh
    )


# The rows


def _save_writes(task: Committing, batch: Batch, seq: int) -> None:
    thread, sql = batch.at.thread, task.sql
    for w in task.work.writes:
        statement = sql.add_write if w.idx >= 0 else sql.replace_write
        batch.add(statement, (thread, seq, w.task_id, w.idx, w.channel, *w.data, w.task_path))


def _replace(task: Committing, batch: Batch, parent: int | None, space: int) -> Operation[bool]:
    """Put a checkpoint in the place of an earlier one of its id; tell whether there is one."""
    yield from batch.flush()
    sql, work, thread = task.sql, task.work, batch.at.thread
    for (seq,) in (yield Execute(sql.find_number, (thread, space, work.checkpoint_id))):
        yield Execute(sql.replace_checkpoint, (parent, *work.body, *work.metadata, thread, seq))
        return True
    return False


def _move_head(task: Committing, batch: Batch, parent: int | None, seq: int, space: int) -> Operation[None]:
    sql, work, at = task.sql, task.work, batch.at
    assert at.thread is not None
    batch.at = at._replace(last=seq, space=space, seq=seq, tip=work.checkpoint_id)
    if at.tip is None:
        row = (at.thread, work.ns, work.branch, space, seq, work.checkpoint_id, False)
        yield Execute(sql.create_head, row)
        return
    batch.head = (sql.move_head, (seq, work.checkpoint_id, at.thread, work.ns, work.branch))
    if at.seq is not None and at.seq != parent:
        yield from batch.flush()
        yield from name_tip(sql, at.thread, work.ns, (space, at.seq, at.tip))


def _save_values(task: Committing, batch: Batch, space: int) -> Operation[None]:
    for value in task.work.values:
        short = shorten(value.version)
        if not value.certain and (yield from _is_stored(task, batch, space, value)):
            continue
        sliced = isinstance(value.data, Recipe)
        if isinstance(value.data, tuple):
            data = value.data
            if data[0] == "empty":
                continue
        else:
            slices = yield from _save_list(task, batch, space, value, value.data)
            batch.lists[value.channel, value.version] = slices
            data = write_slices(slices)
            if task.rows.seals:
                row = value_row(task.work.thread_id, task.work.ns, value.channel, value.version)
                data = task.rows.seal(row, data)
        batch.add(task.sql.create_value, (batch.at.thread, space, short, value.channel, sliced, *data))


def _is_stored(task: Committing, batch: Batch, space: int, value: EncodedValue) -> Operation[bool]:
    yield from batch.flush()
    wanted = json.dumps([[space, shorten(value.version), value.channel]])
    rows = yield Execute(task.sql.get_values, (wanted, batch.at.thread))
    return bool(VALUE.of(rows, task.work.thread_id))


def _save_list(
    task: Committing, batch: Batch, space: int, value: EncodedValue, recipe: Recipe
) -> Operation[Slices]:
    source = Source(task.sql, task.rows, batch.at.thread or 0, task.work.thread_id)
    place = ListPlace(source, space, task.work.ns, value.channel)
    key = (value.channel, recipe.follows)
    old = batch.lists.get(key) or (task.work.memo.keys or {}).get(key, [])
    if not old and recipe.follows is not None:
        yield from batch.flush()
        old = yield from stored_slices(place, recipe.follows)
    return (yield from store_list(place, value.version, recipe, old))


def stored_slices(place: ListPlace, version: Any) -> Operation[Slices]:
    """Read the slices of a stored version of a list."""
    wanted = json.dumps([[place.space, shorten(version), place.channel]])
    rows = yield Execute(place.source.sql.get_values, (wanted, place.source.thread))
    for *_, sliced, tag, data in VALUE.of(rows, place.source.thread_id):
        if sliced:
            row = value_row(place.source.thread_id, place.ns, place.channel, version)
            return read_slices(place.source.rows.opened(row, (tag, data))[1])
    return []
