"""The rows of threads: created and kept up to date by commits, and found by the thread index.

Labels make metadata searchable. They are kept in the order in which their threads changed, so that a
page of a search is a short walk, and where the serializer encrypts they are
written only for the keys that it names as searchable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from threadmark._db.effects import Execute, ExecuteMany, Operation, Transaction
from threadmark._db.effects import Row as Found
from threadmark.checkpoint._sql.shapes import INFO, THREAD, UPKEEP, damaged
from threadmark.checkpoint._sql.statements import Statements
from threadmark.checkpoint.address import matches
from threadmark.checkpoint.labels import About, about, label_of, read_about, values_of, write_about
from threadmark.checkpoint.rows import RowCodec
from threadmark.checkpoint.threads import (
    STATUSES,
    ThreadInfo,
    ThreadPage,
    ThreadQuery,
    moment,
    read_cursor,
    write_cursor,
)
from threadmark.errors import StorageCorruptError

__all__ = ["Index", "count_threads", "find_threads", "get_thread", "update_thread"]

_LAST = 2**62
_SCAN = 500
"""How many threads to look through at once for metadata that has no label."""
_COMMON = 10_000
"""A label with this many threads counts as common: there are sure to be some among those of a status."""


@dataclass(slots=True)
class Index:
    """What every operation on threads needs."""

    sql: Statements
    rows: RowCodec
    now: int


# For commits


def create_thread(
    index: Index, thread_id: str, status: str, ttl: int | None, entries: About
) -> Operation[int]:
    """Create a thread's row and return its key."""
    expires = None if ttl is None else index.now + ttl
    labels = _labels(index, entries)
    data = write_about(thread_id, entries, index.rows) if entries else (None, None)
    yield Execute(
        index.sql.create_thread,
        (thread_id, index.now, index.now, status, expires, ttl, _text(labels), *data),
    )
    rows = THREAD.of((yield Execute(index.sql.find_thread, (thread_id,))), thread_id)
    thread = int(rows[0][0])
    yield from _add_labels(index, thread, labels, index.now)
    return thread


def touch_thread(
    index: Index, thread: int, thread_id: str, status: str, entries: About, refresh: bool = True
) -> Operation[None]:
    """Renew a thread's row: its status, when it changed, when it expires, and what is added to it."""
    rows = UPKEEP.of((yield Execute(index.sql.get_upkeep, (thread,))), thread_id)
    updated, expires, ttl, old, tag, data = rows[0]
    labels = _read_labels(old, thread_id)
    if entries:
        known = _about(index, thread_id, tag, data)
        known.update(entries)
        tag, data = write_about(thread_id, known, index.rows)
        new = _labels(index, known)
    else:
        new = labels
    if ttl is not None and refresh:
        expires = index.now + ttl
    yield from _drop_labels(index, thread, labels, updated)
    yield Execute(index.sql.touch_thread, (status, index.now, expires, ttl, _text(new), tag, data, thread))
    yield from _add_labels(index, thread, new, index.now)


def relabel(index: Index, thread: int, thread_id: str) -> Operation[bool]:
    """Label a thread by what may stand in clear now, and tell whether it was by something else before."""
    rows = UPKEEP.of((yield Execute(index.sql.get_upkeep, (thread,))), thread_id)
    updated, _, _, text, tag, data = rows[0]
    old, new = _read_labels(text, thread_id), _labels(index, _about(index, thread_id, tag, data))
    if old == new:
        return False
    yield from _drop_labels(index, thread, old, updated)
    yield Execute(index.sql.set_labels, (_text(new), thread))
    yield from _add_labels(index, thread, new, updated)
    return True


def forget_labels(index: Index, thread: int) -> Operation[None]:
    """Delete the labels of a thread that is about to go."""
    try:
        rows = UPKEEP.of((yield Execute(index.sql.get_upkeep, (thread,))))
        found = [(_read_labels(row[3]), row[0]) for row in rows]
    except StorageCorruptError:
        # Where the row does not say which they are, they are looked for: a damaged thread can go, too.
        yield Execute(index.sql.forget_labels, (thread,))
        return
    for labels, updated in found:
        yield from _drop_labels(index, thread, labels, updated)


def _labels(index: Index, entries: About) -> list[tuple[str, str]]:
    return [
        (name, entry.label)
        for name, entry in entries.items()
        if entry.label is not None and _may_be_searched(index, name)
    ]


def _may_be_searched(index: Index, name: str) -> bool:
    return not index.rows.seals or name in index.rows.searchable


def _text(labels: list[tuple[str, str]]) -> str | None:
    return json.dumps(labels) if labels else None


def _read_labels(text: str | None, thread_id: str | None = None) -> list[tuple[str, str]]:
    if text is None:
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if type(found) is not list or not all(map(_is_label, found)):
        raise damaged("threads", "labels holds no list of keys and labels", thread_id, "labels")
    return [(name, value) for name, value in found]


def _is_label(found: Any) -> bool:
    return type(found) is list and list(map(type, found)) == [str, str]


def _about(index: Index, thread_id: str, tag: str | None, data: bytes | None) -> About:
    if tag is None and data is None:
        return {}
    if tag is None or data is None:
        raise damaged("threads", "metadata is there by half", thread_id, "metadata")
    return read_about(thread_id, (tag, data), index.rows)


def _add_labels(index: Index, thread: int, labels: list[tuple[str, str]], updated: int) -> Operation[None]:
    if labels:
        yield ExecuteMany(index.sql.add_label, [(*label, updated, thread) for label in labels])


def _drop_labels(index: Index, thread: int, labels: list[tuple[str, str]], updated: int) -> Operation[None]:
    if labels:
        yield ExecuteMany(index.sql.drop_label, [(*label, updated, thread) for label in labels])


# For the index


def get_thread(index: Index, thread_id: str) -> Operation[ThreadInfo | None]:
    """Return what is known about a thread."""
    rows = INFO.of((yield Execute(index.sql.get_thread, (thread_id, index.now))), thread_id)
    return _info(index, rows[0]) if rows else None


def update_thread(
    index: Index, thread_id: str, metadata: Mapping[str, Any] | None, ttl: timedelta | str | None
) -> Operation[ThreadInfo | None]:
    """Change what is known about a thread."""
    found: ThreadInfo | None = yield Transaction(_update_thread(index, thread_id, metadata, ttl))
    return found


def _update_thread(
    index: Index, thread_id: str, metadata: Mapping[str, Any] | None, ttl: timedelta | str | None
) -> Operation[ThreadInfo | None]:
    rows = INFO.of((yield Execute(index.sql.get_thread, (thread_id, index.now))), thread_id)
    if not rows:
        return None
    thread, status = rows[0][0], rows[0][4]
    if not isinstance(ttl, str):
        milliseconds = None if ttl is None else max(round(ttl.total_seconds() * 1000), 1)
        expires = None if milliseconds is None else index.now + milliseconds
        yield Execute(index.sql.set_ttl, (milliseconds, expires, thread))
    yield from touch_thread(index, thread, thread_id, status, about(metadata or {}, index.rows), False)
    return (yield from get_thread(index, thread_id))


def find_threads(index: Index, query: ThreadQuery, limit: int, cursor: str | None) -> Operation[ThreadPage]:
    """Return one page of the threads that a query means."""
    page: ThreadPage = yield Transaction(_find_threads(index, query, limit, cursor), read_only=True)
    return page


def _find_threads(index: Index, query: ThreadQuery, limit: int, cursor: str | None) -> Operation[ThreadPage]:
    found: list[tuple[Found, ThreadInfo]] = []
    at = read_cursor(cursor) if cursor is not None else (query.before or _LAST, 0)
    label = yield from _best_label(index, query)
    size = limit + 1 if not query.metadata else _SCAN
    while len(found) <= limit:
        rows = INFO.of((yield Execute(*_page(index, query, label, at, size))))
        infos = ((row, _info(index, row)) for row in rows)
        found += [each for each in infos if matches(each[1].metadata, query.metadata)]
        if len(rows) < size:
            break
        at = (rows[-1][3], rows[-1][0])
    more = len(found) > limit
    found = found[:limit]
    return ThreadPage(
        [info for _, info in found], write_cursor(found[-1][0][3], found[-1][0][0]) if more else None
    )


def count_threads(index: Index, query: ThreadQuery) -> Operation[int]:
    """Return how many threads a query means."""
    if not query.metadata:
        rows = yield Execute(index.sql.count_threads, (index.now, query.status))
        return int(rows[0][0])
    count = 0
    cursor: str | None = None
    while True:
        page = yield from find_threads(index, query, _SCAN, cursor)
        count += len(page.threads)
        cursor = page.cursor
        if cursor is None:
            return count


def _page(
    index: Index, query: ThreadQuery, label: tuple[str, str] | None, at: tuple[int, int], size: int
) -> tuple[str, tuple[Any, ...]]:
    """Return the statement and the parameters for the threads that come after `at`."""
    common = (*at, query.after or 0, index.now)
    if label is not None:
        return index.sql.page_by_label, (*label, *common, query.status, size)
    if query.status is not None:
        return index.sql.page_by_status, (query.status, *common, size)
    return index.sql.page_by_time, (*common, size)


def _best_label(index: Index, query: ThreadQuery) -> Operation[tuple[str, str] | None]:
    """Return the label by which to walk through the threads; `None` to walk by status or time."""
    labels = [
        (name, text)
        for name, value in query.metadata.items()
        if _may_be_searched(index, name) and (text := label_of(name, value))
    ]
    if not labels or (len(labels) == 1 and query.status is None):
        return labels[0] if labels else None
    counts = []
    for label in labels:
        rows = yield Execute(index.sql.count_label, (*label, _COMMON))
        counts.append((rows[0][0], label))
    count, rarest = min(counts)
    return None if count >= _COMMON and query.status is not None else rarest


def _info(index: Index, row: Found) -> ThreadInfo:
    _, thread_id, created, updated, status, expires, tag, data = row
    if status not in STATUSES:
        raise damaged("threads", "status holds none of its words", thread_id, "status")
    entries = _about(index, thread_id, tag, data)
    return ThreadInfo(
        thread_id,
        status,
        moment(created),
        moment(updated),
        values_of(entries, index.rows),
        None if expires is None else moment(expires),
    )
