"""Deletion, pruning, copying and sweeping. Each thread is dealt with in a transaction of its own.

What a thread still needs is worked out from the rows of its checkpoints, without reading values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from threadmark._db.effects import Execute, ExecuteMany, Operation, Transaction
from threadmark.checkpoint._sql.lists import Slices, log_row, read_slices
from threadmark.checkpoint._sql.pack import Unpacked, expand, shorten, unpacked
from threadmark.checkpoint._sql.shapes import (
    ABOUT,
    BODY,
    HEAD,
    INFO,
    LISTED,
    LISTED_CHUNK,
    LISTED_VALUE,
    NAMED,
    SEALED_CHECKPOINT,
    SEALED_CHUNK,
    SEALED_WRITE,
    THREAD,
    damaged,
)
from threadmark.checkpoint._sql.standing import gone_tip
from threadmark.checkpoint._sql.threads import Index, forget_labels, relabel
from threadmark.checkpoint.retention import HeadNode, Node, Plan, Rule, kept_for_runs, plan
from threadmark.checkpoint.rows import RowCodec, value_row, write_row
from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.errors import InvalidArgumentError

__all__ = [
    "copy_thread",
    "delete_for_runs",
    "delete_rows",
    "delete_thread",
    "prune",
    "prune_rows",
    "rotate",
    "sweep",
]

_WORTH_GIVING_BACK = 64
"""How many free pages are left in the file for what comes next."""

_LAST = 2**62
_PAGE = 1_000

Reseal: TypeAlias = Callable[[Row, Encoded], Encoded | None]
Decide: TypeAlias = Callable[[Sequence[Node], Sequence[HeadNode]], Plan]


# Whole threads


def delete_thread(index: Index, thread_id: str) -> Operation[None]:
    """Delete everything of a thread. A thread of the same id that comes later is another one."""
    yield Transaction(_delete_thread(index, thread_id))
    yield from give_back(index)


def _delete_thread(index: Index, thread_id: str) -> Operation[None]:
    for (thread,) in (yield Execute(index.sql.find_thread, (thread_id,))):
        yield from delete_rows(index, thread)
    yield Execute(index.sql.forget_lease, (thread_id,))


def delete_rows(index: Index, thread: int) -> Operation[None]:
    """Delete every row of a thread."""
    yield from forget_labels(index, thread)
    for statement in index.sql.delete_thread:
        yield Execute(statement, (thread,))


def sweep(index: Index, batch: int) -> Operation[int]:
    """Delete threads that have expired."""
    total = 0
    while True:
        swept: int = yield Transaction(_sweep(index, batch))
        total += swept
        if swept < batch:
            yield from give_back(index)
            return total


def _sweep(index: Index, batch: int) -> Operation[int]:
    expired = yield Execute(index.sql.find_expired, (index.now, batch))
    for (thread,) in expired:
        yield from delete_rows(index, thread)
    return len(expired)


def give_back(index: Index) -> Operation[None]:
    """Give free space back to the file system, a little at a time so that others can write."""
    if index.sql.free_space is None or index.sql.give_back is None:
        return
    left = None
    while True:
        ((free,),) = yield Execute(index.sql.free_space)
        if free <= _WORTH_GIVING_BACK or free == left:
            return
        left = free
        yield Transaction(_one(index.sql.give_back))


def _one(statement: str) -> Operation[None]:
    yield Execute(statement)


# Parts of threads


def prune(index: Index, thread_ids: Iterable[str], rule: Rule | None) -> Operation[None]:
    """Delete the checkpoints of threads that a rule does not keep; without a rule, all of them."""
    for thread_id in thread_ids:
        body = _delete_thread(index, thread_id) if rule is None else _prune(index, thread_id, rule)
        yield Transaction(body)
    yield from give_back(index)


def _prune(index: Index, thread_id: str, rule: Rule) -> Operation[None]:
    for (thread,) in (yield Execute(index.sql.find_thread, (thread_id,))):
        yield from prune_rows(index, thread, thread_id, lambda n, h: plan(n, h, rule, index.now))


def delete_for_runs(index: Index, run_ids: Sequence[str]) -> Operation[None]:
    """Delete the checkpoints that runs saved."""
    threads: dict[int, str] = {}
    for run_id in run_ids:
        threads.update(NAMED.of((yield Execute(index.sql.threads_of_run, (run_id,)))))
    for thread, thread_id in threads.items():
        yield Transaction(_delete_for_runs(index, thread, thread_id, run_ids))
    yield from give_back(index)


def _delete_for_runs(index: Index, thread: int, thread_id: str, run_ids: Sequence[str]) -> Operation[None]:
    left = yield from prune_rows(
        index, thread, thread_id, lambda nodes, heads: kept_for_runs(nodes, heads, set(run_ids))
    )
    if not left:
        yield from delete_rows(index, thread)
        return
    yield ExecuteMany(index.sql.forget_run, [(thread, run_id) for run_id in run_ids])


def prune_rows(index: Index, thread: int, thread_id: str, decide: Decide) -> Operation[int]:
    """Delete what is decided, and what nobody needs then; return how many checkpoints are left."""
    sql = index.sql
    found = {}
    bodies = yield Execute(sql.list_bodies, (thread,))
    for seq, space, ns, checkpoint_id, parent, created, tag, body in BODY.of(bodies, thread_id):
        if parent is not None and parent >= seq:
            raise damaged("checkpoints", "parent is not before it", thread_id, "parent")
        row = Row("checkpoint", thread_id, ns, checkpoint_id)
        opened = unpacked(index.rows.loads(row, (tag, body)), checkpoint_id, thread_id)
        node = Node(seq, ns, checkpoint_id, parent, created, opened.around.parents, opened.around.run_id)
        found[seq] = (node, space, opened)
    heads = []
    rows = HEAD.of((yield Execute(sql.list_heads, (thread,))), thread_id)
    for ns, branch, _, seq, tip, automatic in rows:
        if seq not in found:
            raise gone_tip(thread_id, tip)
        heads.append(HeadNode(ns, branch, seq, bool(automatic)))
    decided = decide([node for node, _, _ in found.values()], heads)
    if not decided.dropped and not decided.parents:
        return len(found)
    yield from _apply(index, thread, decided)
    for node in decided.dropped:
        del found[node.seq]
    yield from _collect(index, thread, thread_id, [(s, node.ns, o) for node, s, o in found.values()])
    return len(found)


def _apply(index: Index, thread: int, decided: Plan) -> Operation[None]:
    sql = index.sql
    for head, end in decided.heads.items():
        if end is None:
            yield Execute(sql.drop_head, (thread, head.ns, head.branch))
        else:
            yield Execute(sql.move_head, (end.seq, end.id, thread, head.ns, head.branch))
    gone = [(thread, node.seq) for node in decided.dropped]
    yield ExecuteMany(sql.drop_writes, gone)
    yield ExecuteMany(sql.drop_checkpoint, gone)
    yield ExecuteMany(sql.set_parent, [(parent, thread, seq) for seq, parent in decided.parents.items()])


def _collect(
    index: Index, thread: int, thread_id: str, left: Sequence[tuple[int, str, Unpacked]]
) -> Operation[None]:
    """Delete the values that no checkpoint names, and the items of lists that no value holds."""
    needed = {
        (space, shorten(version), channel): ns
        for space, ns, opened in left
        for channel, version in opened.checkpoint["channel_versions"].items()
    }
    slices: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    useless = []
    values = yield Execute(index.sql.list_values, (thread,))
    for space, short, channel, tag, data in LISTED_VALUE.of(values, thread_id):
        ns = needed.get((space, short, channel))
        if ns is None:
            useless.append((thread, space, short, channel))
        elif tag is not None and data is not None:
            for log, low, high in _opened_slices(index.rows, thread_id, ns, channel, short, (tag, data)):
                slices.setdefault((space, channel, log), []).append((low, high))
    yield ExecuteMany(index.sql.drop_value, useless)
    chunks = LISTED_CHUNK.of((yield Execute(index.sql.list_chunks, (thread,))), thread_id)
    yield ExecuteMany(
        index.sql.drop_chunk,
        [
            (thread, space, channel, log, start)
            for space, channel, log, start, count in chunks
            if not _overlaps(slices.get((space, channel, log), ()), start, start + count)
        ],
    )


def _opened_slices(rows: RowCodec, thread_id: str, ns: str, channel: str, short: str, data: Any) -> Slices:
    _, content = rows.opened(value_row(thread_id, ns, channel, expand(short)), data)
    return read_slices(content)


def _overlaps(ranges: Iterable[tuple[int, int]], start: int, stop: int) -> bool:
    return any(low < stop and start < high for low, high in ranges)


# Copies


def copy_thread(index: Index, source: str, target: str) -> Operation[None]:
    """Copy a thread with its whole history to an id that is free."""
    yield Transaction(_copy_thread(index, source, target))


def _copy_thread(index: Index, source: str, target: str) -> Operation[None]:
    sql = index.sql
    there = {}
    for thread_id in sorted({source, target}):
        # Where threads are locked one by one, everybody locks them in this order, and no others later.
        there[thread_id] = yield Execute(sql.find_thread, (thread_id,))
    found = INFO.of((yield Execute(sql.get_thread, (source, index.now)))) if there[source] else []
    if not found:
        raise InvalidArgumentError(f"There is no thread {source!r} to copy.")
    if there[target] and (yield Execute(sql.get_thread, (target, index.now))):
        raise InvalidArgumentError(f"Thread {target!r} exists already. Copy to an id that is free.")
    for (expired,) in there[target]:
        yield from delete_rows(index, expired)
    old = found[0][0]
    yield Execute(sql.copy_thread_row, (target, index.now, index.now, old))
    ((new,),) = THREAD.of((yield Execute(sql.find_thread, (target,))), target)
    yield Execute(sql.copy_labels, (index.now, new, old))
    for statement in sql.copy_rows:
        yield Execute(statement, (new, old))
    if index.rows.seals:
        yield from _seal_again(index, new, source, target)


def _seal_again(index: Index, thread: int, source: str, target: str) -> Operation[None]:
    """Protect the rows of a copied thread for where they are now."""
    rows = index.rows
    for key, row, data in (yield from _sealed_rows(index, thread, source)):
        opened = rows.open(row._replace(thread_id=source), data)
        moved = rows.seal(row._replace(thread_id=target), opened)
        yield Execute(index.sql.reseal[row.kind], (*moved, *key))


def rotate(index: Index, thread_ids: Iterable[str] | None, reseal: Reseal) -> Operation[int]:
    """Encrypt threads with the current key; without names, all that are there now."""
    if thread_ids is None:
        thread_ids = yield Transaction(_all_threads(index), read_only=True)
    count = 0
    for thread_id in thread_ids:
        count += yield Transaction(_rotate(index, thread_id, reseal))
    return count


def _all_threads(index: Index) -> Operation[list[str]]:
    found: list[str] = []
    after = (_LAST, _LAST)
    while True:
        rows = LISTED.of((yield Execute(index.sql.page_of_threads, (index.now, *after, _PAGE))))
        found += [thread_id for _, thread_id, _ in rows]
        if len(rows) < _PAGE:
            return found
        after = (rows[-1][2], rows[-1][0])


def _rotate(index: Index, thread_id: str, reseal: Reseal) -> Operation[int]:
    count = 0
    for (thread,) in (yield Execute(index.sql.find_thread, (thread_id,))):
        for key, row, data in (yield from _sealed_rows(index, thread, thread_id)):
            renewed = reseal(row._replace(thread_id=thread_id), data)
            if renewed is not None:
                yield Execute(index.sql.reseal[row.kind], (*renewed, *key))
                count += 1
        count += yield from relabel(index, thread, thread_id)
    return count


def _sealed_rows(
    index: Index, thread: int, thread_id: str
) -> Operation[list[tuple[tuple[Any, ...], Row, Any]]]:
    """List every protected row of a thread: its key, its identity without the thread, and its data."""
    sql = index.sql
    found: list[tuple[tuple[Any, ...], Row, Any]] = []
    heads = HEAD.of((yield Execute(sql.list_heads, (thread,))), thread_id)
    spaces = _Names("heads", {row[2]: row[0] for row in heads}, thread_id)
    places = _Names("checkpoints", {}, thread_id)
    checkpoints = yield Execute(sql.all_checkpoints, (thread,))
    for seq, space, checkpoint_id, *data in SEALED_CHECKPOINT.of(checkpoints, thread_id):
        places[seq] = (spaces[space], checkpoint_id)
        found.append(((thread, seq), Row("checkpoint", "", *places[seq]), tuple(data[:2])))
        found.append(((thread, seq), Row("metadata", "", *places[seq]), tuple(data[2:])))
    values = yield Execute(sql.all_values, (thread,))
    for space, short, channel, *data in LISTED_VALUE.of(values, thread_id):
        row = value_row("", spaces[space], channel, expand(short))
        found.append(((thread, space, short, channel), row, tuple(data)))
    chunks = yield Execute(sql.all_chunks, (thread,))
    for space, channel, log, start, *data in SEALED_CHUNK.of(chunks, thread_id):
        row = log_row("", spaces[space], channel, log, start)
        found.append(((thread, space, channel, log, start), row, tuple(data)))
    writes = yield Execute(sql.all_writes, (thread,))
    for seq, task_id, idx, channel, *data in SEALED_WRITE.of(writes, thread_id):
        row = write_row(("", *places[seq]), channel, task_id, idx)
        found.append(((thread, seq, task_id, idx), row, tuple(data)))
    for tag, data in ABOUT.of((yield Execute(sql.thread_metadata, (thread,))), thread_id):
        if tag is not None and data is not None:
            found.append(((thread,), Row("thread"), (tag, data)))
    return found


class _Names(dict[int, Any]):
    """What rows of a table stand for, by number. A number that other rows name must be there."""

    def __init__(self, table: str, found: dict[int, Any], thread_id: str) -> None:
        super().__init__(found)
        self._table = table
        self._thread_id = thread_id

    def __missing__(self, number: int) -> Any:
        raise damaged(self._table, f"number {number}, which other rows name, is gone", self._thread_id)
