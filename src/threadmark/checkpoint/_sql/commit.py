"""Saves a commit in one transaction: compares the head, writes what is new, moves the head."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from threadmark._db.effects import Execute, ExecuteMany, Operation, Transaction
from threadmark.checkpoint._sql.leases import check_lease
from threadmark.checkpoint._sql.lists import ListPlace, Slices, Source, read_slices, store_list, write_slices
from threadmark.checkpoint._sql.pack import shorten
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


def commit(task: Committing) -> Operation[Head | None]:
    """Save a commit.

    Returns:
        The head that the next commit must find; `None` when only writes were saved.

    Raises:
        ThreadConflictError: The head is not the one that the commit expects.
        ThreadDeletedError: The thread, or the checkpoint that the commit follows, is not there.
    """
    moved, lists = yield Transaction(_commit(task), task.work.durable)
    # Only now is it certain what is stored.
    memo = task.work.memo
    memo.run_id = task.work.run_id
    if lists:
        memo.keys = {**_without_followed(task.work, memo.keys or {}), **lists}
    return moved  # type: ignore[no-any-return]


def _without_followed(work: EncodedCommit, known: dict[Any, Slices]) -> dict[Any, Slices]:
    followed = {(v.channel, v.data.follows) for v in work.values if isinstance(v.data, Recipe)}
    return {key: slices for key, slices in known.items() if key not in followed}


def _commit(task: Committing) -> Operation[tuple[Head | None, dict[Any, Slices]]]:
    # The usual superstep is saved here; what is not usual has functions of its own below.
    sql, work = task.sql, task.work
    at = yield from find_standing(sql, work.thread_id, work.ns, work.branch, task.index.now)
    check_head(work, at)
    if work.lease is not None:
        yield from check_lease(sql, work.thread_id, work.lease)
    parent = None
    if work.parent_id is not None:
        parent = at.seq if work.parent_id == at.tip else (yield from number_of(sql, work, at, work.parent_id))
    if work.base_id is not None and work.base_id != work.parent_id:
        yield from number_of(sql, work, at, work.base_id)
    if parent is not None and work.writes:
        yield from _save_writes(task, at, parent)
    if at.thread is None:
        at = Standing(thread=(yield from _create_thread(task, at)))
    elif _is_stale(task, at):
        yield from _touch(task, at)
    if work.checkpoint_id is None:
        return None, {}
    seq, space = at.last + 1, at.space
    if space is None:
        space = (yield from space_of(sql, at.thread or 0, work.ns)) or seq
    if work.head is not None or not (yield from _replace(task, at, parent, space)):
        row = (at.thread, seq, space, work.checkpoint_id, parent, task.index.now, *work.body, *work.metadata)
        yield Execute(sql.create_checkpoint, row)
        yield from _move_head(task, at, parent, seq, space)
    lists = yield from _save_values(task, at, space)
    if work.run_id is not None and work.run_id != work.memo.run_id:
        yield Execute(sql.note_run, (at.thread, work.run_id))
    if task.options.history == "latest":
        yield from prune_rows(task.index, at.thread or 0, work.thread_id, _latest)
    return Head(at.incarnation, work.checkpoint_id, work.branch), lists


def _latest(nodes: Sequence[Node], heads: Sequence[HeadNode]) -> Plan:
    return plan(nodes, heads, LATEST, 0)


# The thread


def _create_thread(task: Committing, at: Standing) -> Operation[int]:
    work = task.work
    if at.expired is not None:
        yield from delete_rows(task.index, at.expired)
    status, ttl = work.status or "idle", task.options.ttl_ms
    return (yield from create_thread(task.index, work.thread_id, status, ttl, work.about))


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
    return touch_thread(task.index, at.thread or 0, work.thread_id, _status(task, at), work.about, refresh)


# The rows


def _save_writes(task: Committing, at: Standing, seq: int) -> Operation[None]:
    thread = at.thread
    rows = [(thread, seq, w.task_id, w.idx, w.channel, *w.data, w.task_path) for w in task.work.writes]
    special = [row for row in rows if row[3] < 0]
    if special:
        rows = [row for row in rows if row[3] >= 0]
        yield ExecuteMany(task.sql.replace_write, special)
    if rows:
        yield ExecuteMany(task.sql.add_write, rows)


def _replace(task: Committing, at: Standing, parent: int | None, space: int) -> Operation[bool]:
    """Put a checkpoint in the place of an earlier one of its id; tell whether there is one."""
    sql, work = task.sql, task.work
    for (seq,) in (yield Execute(sql.find_number, (at.thread, space, work.checkpoint_id))):
        yield Execute(sql.replace_checkpoint, (parent, *work.body, *work.metadata, at.thread, seq))
        return True
    return False


def _move_head(task: Committing, at: Standing, parent: int | None, seq: int, space: int) -> Operation[None]:
    sql, work = task.sql, task.work
    if at.tip is None:
        row = (at.thread, work.ns, work.branch, space, seq, work.checkpoint_id, False)
        yield Execute(sql.create_head, row)
        return
    yield Execute(sql.move_head, (seq, work.checkpoint_id, at.thread, work.ns, work.branch))
    if at.seq is not None and at.seq != parent:
        yield from name_tip(sql, at.thread or 0, work.ns, (space, at.seq, at.tip))


def _save_values(task: Committing, at: Standing, space: int) -> Operation[dict[Any, Slices]]:
    """Save the values, and return where the lists among them are."""
    lists: dict[Any, Slices] = {}
    created = []
    for value in task.work.values:
        short = shorten(value.version)
        if not value.certain and (yield from _is_stored(task, at, space, value)):
            continue
        if isinstance(value.data, tuple):
            data = value.data
            if data[0] == "empty":
                continue
        else:
            slices = yield from _save_list(task, at, space, value, value.data)
            lists[value.channel, value.version] = slices
            data = write_slices(slices)
            if task.rows.seals:
                row = value_row(task.work.thread_id, task.work.ns, value.channel, value.version)
                data = task.rows.seal(row, data)
        sliced = isinstance(value.data, Recipe)
        created.append((at.thread, space, short, value.channel, sliced, *data))
    if created:
        yield ExecuteMany(task.sql.create_value, created)
    return lists


def _is_stored(task: Committing, at: Standing, space: int, value: EncodedValue) -> Operation[bool]:
    wanted = json.dumps([[space, shorten(value.version), value.channel]])
    return bool((yield Execute(task.sql.get_values, (wanted, at.thread))))


def _save_list(
    task: Committing, at: Standing, space: int, value: EncodedValue, recipe: Recipe
) -> Operation[Slices]:
    source = Source(task.sql, task.rows, at.thread or 0, task.work.thread_id)
    place = ListPlace(source, space, task.work.ns, value.channel)
    known: dict[Any, Slices] = task.work.memo.keys or {}
    old = known.get((value.channel, recipe.follows), [])
    if not old and recipe.follows is not None:
        old = yield from stored_slices(place, recipe.follows)
    return (yield from store_list(place, value.version, recipe, old))


def stored_slices(place: ListPlace, version: Any) -> Operation[Slices]:
    """Read the slices of a stored version of a list."""
    wanted = json.dumps([[place.space, shorten(version), place.channel]])
    for *_, sliced, tag, data in (yield Execute(place.source.sql.get_values, (wanted, place.source.thread))):
        if sliced:
            row = value_row(place.source.thread_id, place.ns, place.channel, version)
            return read_slices(place.source.rows.opened(row, (tag, data))[1])
    return []
