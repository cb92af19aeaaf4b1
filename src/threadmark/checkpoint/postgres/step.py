"""One superstep as one statement: the usual commit, in one round trip.

Usual is a commit that follows the tip of its branch and needs nothing read: every value is new, and every
list only grows at its end or begins. The statement locks the thread, compares and sets the head, and
writes all rows, or nothing at all: where anything is not as expected it returns no row or breaks a key,
and the ordinary commit takes over, which can tell what is the matter. After a broken connection the head
tells whether it was carried out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from threadmark._db.effects import Execute, Operation
from threadmark._db.postgres_errors import ContendedError
from threadmark._db.postgres_session import Once
from threadmark._db.postgres_tables import Names
from threadmark.checkpoint._sql.commit import Committing
from threadmark.checkpoint._sql.lists import ListPlace, Slices, Source, store_list, write_slices
from threadmark.checkpoint._sql.pack import shorten
from threadmark.checkpoint.encode import EncodedCommit, EncodedValue
from threadmark.checkpoint.lists import Recipe
from threadmark.checkpoint.postgres.hints import hint
from threadmark.checkpoint.records import Head
from threadmark.checkpoint.rows import value_row
from threadmark.checkpoint.threads import FRESH_MS

__all__ = ["carried_out", "step"]

_MOST_ROWS = 60
"""Of one kind. More are better sent one by one."""

_WRITE = ("text", "bigint", "text", "text", "bytea", "text")
_VALUE = ("text", "text", "boolean", "text", "bytea", "text")
_CHUNK = ("text", "text", "bigint", "bigint", "bytea", "text", "bytea")

_STEP = """
WITH t AS (
    SELECT t.thread, t.thread_id, o.space, o.seq AS parent,
        t.status <> coalesce($6, t.status) OR t.updated < $7 - {fresh} AS stale
    FROM tm_threads t JOIN tm_heads o ON o.thread = t.thread AND o.ns = $2 AND o.branch = $3
    WHERE t.thread = $1 AND o.id = $4 AND (t.expires IS NULL OR t.expires > $7)
        AND (t.labels IS NULL OR t.status = coalesce($6, t.status) AND t.updated >= $7 - {fresh})
        {ends}
    FOR UPDATE OF t
) {lease}, h AS (
    UPDATE tm_heads h
    SET seq = (SELECT max(c.seq) FROM tm_checkpoints c WHERE c.thread = $1) + 1, id = $5
    FROM {locked} WHERE h.thread = $1 AND h.ns = $2 AND h.branch = $3 AND h.id = $4
    RETURNING h.seq, {locked}.space, {locked}.parent, {locked}.stale
), u AS (
    UPDATE tm_threads u
    SET status = coalesce($6, u.status), updated = $7,
        expires = CASE WHEN u.ttl IS NOT NULL AND $8 THEN $7 + u.ttl ELSE u.expires END
    FROM h WHERE u.thread = $1 AND h.stale
), c AS (
    INSERT INTO tm_checkpoints
        (thread, seq, space, id, parent, created, body_tag, body, metadata_tag, metadata)
    SELECT $1, h.seq, h.space, $5, h.parent, $7, $9, $10, $11, $12 FROM h
) {rest}
SELECT h.seq FROM h
"""
# Whoever locks a thread and its lease locks the thread first.
_LEASE = """, k AS (
    SELECT t.* FROM t JOIN tm_leases l ON l.thread_id = t.thread_id AND l.token = {token}::text FOR SHARE OF l
)"""
_RUN = """, r AS (
    INSERT INTO tm_runs (thread, run_id) SELECT $1, {run}::text FROM h ON CONFLICT DO NOTHING
)"""
# The log must end where the new rows begin: another branch may have grown it.
_ENDS = """
        AND NOT EXISTS (
            SELECT 1 FROM (VALUES {ends}) AS e (channel, log, start)
            WHERE e.start IS DISTINCT FROM (
                SELECT l.start + l.count FROM tm_logs l
                WHERE l.thread = $1 AND l.space = o.space AND l.channel = e.channel AND l.log = e.log
                ORDER BY l.start DESC LIMIT 1
            )
        )
"""
_WRITES = """, w AS (
    INSERT INTO tm_writes AS w (thread, seq, task_id, idx, channel, tag, data, path)
    SELECT $1, h.parent, n.* FROM h, (VALUES {writes}) AS n
    ON CONFLICT (thread, seq, task_id, idx) DO UPDATE
    SET channel = excluded.channel, tag = excluded.tag, data = excluded.data, path = excluded.path
    WHERE excluded.idx < 0
)"""
_VALUES = """, v AS (
    INSERT INTO tm_values (thread, space, version, channel, sliced, tag, data, slices)
    SELECT $1, h.space, n.* FROM h, (VALUES {values}) AS n
)"""
_CHUNKS = """, l AS (
    INSERT INTO tm_logs (thread, space, channel, log, start, count, sizes, tag, data)
    SELECT $1, h.space, n.* FROM h, (VALUES {chunks}) AS n
)"""


class _Shape(NamedTuple):
    """What a statement is made of, beside the checkpoint: how many rows of each kind."""

    lease: bool
    run: bool
    ends: int
    writes: int
    values: int
    chunks: int


def step(task: Committing, names: Names) -> Operation[Head | None]:
    """Try to save a commit in one statement.

    Returns:
        The head that is next; `None` when nothing was written and the ordinary commit is needed.

    Raises:
        StorageUnavailableError: The connection broke, and it is not known whether it was carried out.
    """
    work = task.work
    if not _is_usual(task):
        return None
    lists = _lists(task)
    if lists is None:
        return None
    rows = _Rows(task, lists)
    if rows.most > _MOST_ROWS:
        return None
    try:
        found = yield Once(_worded(names, rows.shape), rows.params)
    except ContendedError:
        return None
    if not found:
        return None
    _remember(task, lists)
    return Head(work.head.incarnation, work.checkpoint_id, work.branch)  # type: ignore[union-attr]


def carried_out(task: Committing) -> Operation[Head | None]:
    """Tell whether a commit whose answer was lost is there after all."""
    work, head = task.work, task.work.head
    if head is None or head.incarnation is None or work.checkpoint_id is None:
        return None
    thread = int(head.incarnation)
    spaces = yield Execute(task.sql.find_space, (thread, work.ns))
    if not spaces or not (yield Execute(task.sql.find_number, (thread, spaces[0][0], work.checkpoint_id))):
        return None
    lists = _lists(task)
    if lists is not None:
        _remember(task, lists)
    return Head(head.incarnation, work.checkpoint_id, work.branch)


def _is_usual(task: Committing) -> bool:
    work = task.work
    head = work.head
    return (
        head is not None
        and head.incarnation is not None
        and head.checkpoint_id is not None
        and head.checkpoint_id == work.parent_id
        and work.checkpoint_id is not None
        and work.base_id in (None, work.parent_id)
        and not work.about
        and task.options.history == "all"
        and all(value.certain for value in work.values)
    )


# Lists


class _List(NamedTuple):
    """A list that grows: the slices of its new version, its new rows, and the logs that must end there."""

    value: EncodedValue
    slices: Slices
    chunks: list[tuple[Any, ...]]
    ends: list[tuple[str, str, int]]


def _lists(task: Committing) -> list[_List] | None:
    """Work out what is new of the lists; `None` if something must be read for that."""
    found = []
    for value in task.work.values:
        if isinstance(value.data, Recipe):
            one = _list(task, value, value.data)
            if one is None:
                return None
            found.append(one)
    return found


def _list(task: Committing, value: EncodedValue, recipe: Recipe) -> _List | None:
    work, sql = task.work, task.sql
    known: dict[Any, Slices] = work.memo.keys or {}
    old = known.get((value.channel, recipe.follows), [])
    if not old and recipe.follows is not None:
        return None
    # Where a log ends as far as this branch knows; the statement makes sure.
    ends = {log: high for log, _, high in sorted(old, key=lambda piece: piece[2])}
    place = ListPlace(Source(sql, task.rows, 0, work.thread_id), 0, work.ns, value.channel)
    storing = store_list(place, value.version, recipe, old)
    chunks: list[tuple[Any, ...]] = []
    checks: list[tuple[str, str, int]] = []
    answer: list[tuple[Any, ...]] = []
    try:
        effect = next(storing)
        while isinstance(effect, Execute):
            if effect.sql == sql.find_log_end:
                log = effect.params[-1]
                answer = [(ends[log],)] if log in ends else []
                checks += [(value.channel, log, end) for (end,) in answer]
            elif effect.sql == sql.create_chunk:
                chunks.append(tuple(effect.params[2:]))
                _, log, start, count = chunks[-1][:4]
                ends[log], answer = start + count, []
            else:
                return None
            effect = storing.send(answer)
    except StopIteration as stop:
        grown = {chunk[1:3] for chunk in chunks}
        return _List(value, stop.value, chunks, [end for end in checks if end[1:] in grown])
    finally:
        storing.close()
    return None


def _remember(task: Committing, lists: Sequence[_List]) -> None:
    memo = task.work.memo
    memo.run_id = task.work.run_id
    followed = {(one.value.channel, one.value.data.follows) for one in lists}  # type: ignore[union-attr]
    known = {key: slices for key, slices in (memo.keys or {}).items() if key not in followed}
    memo.keys = {**known, **{(one.value.channel, one.value.version): one.slices for one in lists}}


# The statement


class _Rows:
    """The rows of a commit, as parameters of its statement."""

    def __init__(self, task: Committing, lists: Sequence[_List]) -> None:
        work = task.work
        writes = _writes(work)
        run_id = work.run_id if work.run_id != work.memo.run_id else None
        values = [*_plain(work), *(_sliced(task, one) for one in lists)]
        chunks = [chunk for one in lists for chunk in one.chunks]
        ends = [end for one in lists for end in one.ends]
        self.shape = _Shape(
            work.lease is not None,
            run_id is not None,
            len(ends),
            len(writes),
            len(values),
            len(chunks),
        )
        self.most = max(self.shape)
        head = work.head
        self.params: list[Any] = [
            int(head.incarnation or 0) if head else 0,
            work.ns,
            work.branch,
            work.parent_id,
            work.checkpoint_id,
            None if work.ns else work.status,
            task.index.now,
            task.options.refresh_ttl,
            *work.body,
            *work.metadata,
        ]
        self.params += [one for one in (work.lease, run_id) if one is not None]
        for rows in (ends, writes, values, chunks):
            for row in rows:
                self.params += row


def _writes(work: EncodedCommit) -> list[tuple[Any, ...]]:
    """Return the rows of writes, one for each place, as they would be after one another."""
    found: dict[tuple[str, int], tuple[Any, ...]] = {}
    for w in work.writes:
        row = (w.task_id, w.idx, w.channel, *w.data, w.task_path)
        if w.idx < 0:
            found[w.task_id, w.idx] = row
        else:
            found.setdefault((w.task_id, w.idx), row)
    return list(found.values())


def _plain(work: EncodedCommit) -> list[tuple[Any, ...]]:
    return [
        (shorten(value.version), value.channel, False, *value.data, None)
        for value in work.values
        if isinstance(value.data, tuple) and value.data[0] != "empty"
    ]


def _sliced(task: Committing, one: _List) -> tuple[Any, ...]:
    channel, version = one.value.channel, one.value.version
    row = value_row(task.work.thread_id, task.work.ns, channel, version)
    data = task.rows.sealed(row, write_slices(one.slices))
    return (shorten(version), channel, True, *data, hint(one.slices))


@lru_cache(maxsize=512)
def _worded(names: Names, shape: _Shape) -> str:
    marks = _Marks(13)
    lease = _LEASE.format(token=marks.one()) if shape.lease else ""
    run = _RUN.format(run=marks.one()) if shape.run else ""
    ends = _ENDS.format(ends=marks.rows(shape.ends, ("text", "text", "bigint"))) if shape.ends else ""
    rest = run
    if shape.writes:
        rest += _WRITES.format(writes=marks.rows(shape.writes, _WRITE))
    if shape.values:
        rest += _VALUES.format(values=marks.rows(shape.values, _VALUE))
    if shape.chunks:
        rest += _CHUNKS.format(chunks=marks.rows(shape.chunks, _CHUNK))
    locked = "k" if shape.lease else "t"
    typed = _typed(_STEP.format(fresh=FRESH_MS, lease=lease, locked=locked, ends=ends, rest=rest))
    return names.worded(typed)


_COMMON = re.compile(r"\$([1-9]|1[0-2])\b")
_TYPES = {"1": "bigint", "7": "bigint", "8": "boolean", "10": "bytea", "12": "bytea"}


def _typed(text: str) -> str:
    """Say which types the parameters of every step have."""
    return _COMMON.sub(lambda mark: f"{mark[0]}::{_TYPES.get(mark[1], 'text')}", text)


class _Marks:
    """Hands out the marks of parameters in order."""

    def __init__(self, first: int) -> None:
        self._next = first

    def one(self) -> str:
        self._next += 1
        return f"${self._next - 1}"

    def rows(self, count: int, types: Sequence[str]) -> str:
        return ", ".join(
            "(" + ", ".join(f"{self.one()}::{kind}" for kind in types) + ")" for _ in range(count)
        )
