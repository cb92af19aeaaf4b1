"""Stores and reads lists as slices of logs (see `threadmark.checkpoint.lists`) in SQL tables.

A value's row holds the slices, `[[log, from, to], …]`; the rows of a log hold runs of items that were
appended together. A log that another branch has grown is left alone, and a new one is begun.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import ormsgpack

from threadmark._db.effects import Execute, ExecuteMany, Operation
from threadmark.checkpoint._sql.pack import shorten
from threadmark.checkpoint._sql.shapes import CHUNK, LAST, LOG_END, damaged
from threadmark.checkpoint._sql.statements import Statements
from threadmark.checkpoint.lists import MOST_SLICES, Recipe, Slice, cut, extend, merges
from threadmark.checkpoint.rows import RowCodec, parts
from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.errors import StorageCorruptError

__all__ = ["ListPlace", "Logs", "Slices", "Source", "load_logs", "log_row", "read_slices", "store_list"]

_CHUNK_BYTES = 1_000_000
_FOLD = 64
_FOLD_BYTES = 100_000

Slices: TypeAlias = "list[Slice[str]]"
LogKey: TypeAlias = tuple[int, str, str]
"""Namespace's number, channel, log."""


_KEY_OF_CHUNK = itemgetter(0, 1, 2, 3)
_OF_SLICE = [str, int, int]

ListKey: TypeAlias = tuple[int, str, str]
"""Namespace's number, namespace, channel."""


class Source(NamedTuple):
    """A thread whose lists are meant, and how its rows are encoded."""

    sql: Statements
    rows: RowCodec
    thread: int
    thread_id: str


class ListPlace(NamedTuple):
    """Where a list is stored."""

    source: Source
    space: int
    ns: str
    channel: str

    @property
    def key(self) -> tuple[int, int, str]:
        """The first columns of the list's rows."""
        return self.source.thread, self.space, self.channel


def log_row(thread_id: str, ns: str, channel: str, log: str, start: int) -> Row:
    """Return the identity of a row of a log."""
    return Row("log", thread_id, ns, "", channel, f"{log}:{start}")


@dataclass(slots=True)
class Logs:
    """Runs of items that were read from logs: for each log where they begin, and the items."""

    runs: dict[LogKey, list[tuple[int, list[bytes]]]] = field(default_factory=dict)

    def run(self, key: LogKey, low: int, high: int) -> tuple[int, list[bytes]] | None:
        """Return a run that holds the items from `low` to `high`, if one was read."""
        for start, items in self.runs.get(key, ()):
            if start <= low and high <= start + len(items):
                return start, items
        return None

    def items(self, space: int, channel: str, slices: Iterable[Slice[str]], thread_id: str) -> list[bytes]:
        """Return the items of slices.

        Raises:
            StorageCorruptError: Not all of them were there to be read.
        """
        found: list[bytes] = []
        for log, low, high in slices:
            run = self.run((space, channel, log), low, high)
            if run is None:
                raise StorageCorruptError(
                    f"Items {low} to {high} of a list in channel {channel!r} of thread {thread_id!r} "
                    f"are gone.",
                    thread_id=thread_id,
                    table="tm_logs",
                    channel=channel,
                )
            start, items = run
            found += items[low - start : high - start]
        return found


def read_slices(data: bytes) -> Slices:
    """Return the slices that a value's row holds.

    Raises:
        StorageCorruptError: It holds none.
    """
    flat = parts(("msgpack", data))
    if type(flat) is list and list(map(type, flat)) == _OF_SLICE * (len(flat) // 3):
        slices = list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
        if all(0 <= low <= high < LAST for _, low, high in slices):
            return slices
    raise damaged("values", "data holds no slices of a list", None, "data")


def write_slices(slices: Slices) -> Encoded:
    """Return slices as they are kept in a value's row."""
    return "msgpack", ormsgpack.packb([part for piece in slices for part in piece])


def store_list(place: ListPlace, version: Any, recipe: Recipe, old: Slices) -> Operation[Slices]:
    """Store the items of a list that are new.

    Args:
        place: Where.
        version: The version of the list that is being made.
        recipe: How it is made.
        old: The slices of the version that it follows.

    Returns:
        The slices of the new version.
    """
    slices: Slices = []
    name = shorten(version)
    for piece in recipe.pieces:
        if isinstance(piece, tuple):
            extend(slices, cut(old, *piece))
        else:
            yield from _append(place, f"{name}.{len(slices)}", slices, piece)
    if len(slices) <= MOST_SLICES:
        return slices
    groups = merges([high - low for _, low, high in slices])
    return (yield from _merge(place, name, slices, groups))


def _append(place: ListPlace, log: str, slices: Slices, items: list[bytes]) -> Operation[None]:
    start = 0
    if slices:
        last, _, high = slices[-1]
        rows = LOG_END.of((yield Execute(place.source.sql.find_log_end, (*place.key, last))))
        if rows and rows[0][0] == high:
            log, start = last, high
    yield from _write(place, log, start, items)
    end = start + len(items)
    extend(slices, [(log, start, end)])
    if len(items) < _FOLD // 2 <= start and start % _FOLD + len(items) >= _FOLD:
        yield from _fold(place, log, end // _FOLD * _FOLD)


def _fold(place: ListPlace, log: str, end: int) -> Operation[None]:
    """Put the rows of a log that end at `end` together in one, if they are many and small.

    A list that grew item by item is read in few rows then. No slice changes by it.
    """
    source = place.source
    start = end - _FOLD
    wanted = json.dumps([[place.space, place.channel, log, start, end]])
    chunks = CHUNK.of((yield Execute(source.sql.get_chunks, (wanted, source.thread))), source.thread_id)
    found = sorted(chunks, key=_KEY_OF_CHUNK)
    rows = [row for row in found if start <= row[3] and row[3] + row[4] <= end]
    whole = sum(row[4] for row in rows) == _FOLD
    if not whole or len(rows) < _FOLD // 2 or sum(len(row[7]) for row in rows) > _FOLD_BYTES:
        return
    logs = Logs()
    take_chunks(source, logs, {place.space: place.ns}, rows)
    items = logs.items(place.space, place.channel, [(log, start, end)], source.thread_id)
    yield ExecuteMany(source.sql.drop_chunk, [(*place.key, log, row[3]) for row in rows])
    yield from _write(place, log, start, items)


def _write(place: ListPlace, log: str, start: int, items: list[bytes]) -> Operation[None]:
    sql, rows, _, thread_id = place.source
    for run in [items] if len(items) == 1 else _runs(items):
        sizes = ormsgpack.packb([len(item) for item in run]) if len(run) > 1 else None
        data = rows.packed(("msgpack", b"".join(run)))
        if rows.seals:
            data = rows.seal(log_row(thread_id, place.ns, place.channel, log, start), data)
        yield Execute(sql.create_chunk, (*place.key, log, start, len(run), sizes, *data))
        start += len(run)


def _runs(items: list[bytes]) -> Iterable[list[bytes]]:
    """Split items so that no row becomes very large."""
    run: list[bytes] = []
    size = 0
    for item in items:
        if run and size + len(item) > _CHUNK_BYTES:
            yield run
            run, size = [], 0
        run.append(item)
        size += len(item)
    if run:
        yield run


def _merge(
    place: ListPlace, version: str, slices: Slices, groups: list[tuple[int, int]]
) -> Operation[Slices]:
    """Put neighbouring slices together in new logs."""
    logs = Logs()
    small = [piece for first, end in groups if end - first > 1 for piece in slices[first:end]]
    yield from load_logs(place.source, logs, {(place.space, place.ns, place.channel): small})
    merged: Slices = []
    for first, end in groups:
        if end - first == 1:
            merged.append(slices[first])
            continue
        items = logs.items(place.space, place.channel, slices[first:end], place.source.thread_id)
        log = f"{version}+{first}"
        yield from _write(place, log, 0, items)
        merged.append((log, 0, len(items)))
    return merged


def load_logs(source: Source, logs: Logs, wanted: Mapping[ListKey, Iterable[Slice[str]]]) -> Operation[None]:
    """Read the items of slices, by list, unless they were read before."""
    spaces = {space: ns for space, ns, _ in wanted}
    ranges = [
        (space, channel, log, low, high)
        for (space, _, channel), slices in wanted.items()
        for log, low, high in _united(slices)
        if logs.run((space, channel, log), low, high) is None
    ]
    if not ranges:
        return
    found = yield Execute(source.sql.get_chunks, (json.dumps(ranges), source.thread))
    rows = CHUNK.of(found, source.thread_id)
    take_chunks(source, logs, spaces, sorted(rows, key=_KEY_OF_CHUNK))


def take_chunks(source: Source, logs: Logs, spaces: Mapping[int, str], rows: Iterable[Any]) -> None:
    """Open rows of logs, given in order, and note the items in them."""
    last: LogKey | None = None
    end = 0
    for space, channel, log, start, count, sizes, tag, data in rows:
        key = (space, channel, log)
        if key == last and start < end:
            continue  # Two ranges touched the same row.
        if key != last or start > end:
            items: list[bytes] = []
            logs.runs.setdefault(key, []).append((start, items))
        if source.rows.seals:
            row = log_row(source.thread_id, spaces[space], channel, log, start)
            tag, data = source.rows.open(row, (tag, data))
        if tag != "msgpack":
            _, data = source.rows.plain((tag, data))
        if sizes is None and count == 1:
            items.append(data)
        else:
            items += _split(data, count, sizes, source.thread_id)
        last, end = key, start + count


def _united(slices: Iterable[Slice[str]]) -> list[Slice[str]]:
    """Return the ranges that slices cover, without overlaps."""
    united: list[Slice[str]] = []
    for log, low, high in sorted(slices):
        if united and united[-1][0] == log and low <= united[-1][2]:
            united[-1] = (log, united[-1][1], max(high, united[-1][2]))
        else:
            united.append((log, low, high))
    return united


def _split(content: bytes, count: int, sizes: bytes | None, thread_id: str) -> list[bytes]:
    lengths = parts(("msgpack", sizes or b""))
    if type(lengths) is not list or len(lengths) != count or not set(map(type, lengths)) <= {int}:
        raise damaged("logs", "it does not hold the items that it says", thread_id, "sizes")
    items = []
    start = 0
    for size in lengths:
        items.append(content[start : start + size])
        start += size
    if start != len(content) or min(lengths, default=0) < 0:
        raise damaged("logs", "it does not hold the items that it says", thread_id, "data")
    return items
