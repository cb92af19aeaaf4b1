"""Reads checkpoints: the one that a config names, or a page of a listing, in a few queries each.

What belongs together is read in one read-only transaction. Nothing is held between pages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from threadmark._db.effects import Execute, Operation, Transaction
from threadmark._db.effects import Row as Found
from threadmark.checkpoint._sql.lists import Logs, Slices, Source, load_logs, read_slices
from threadmark.checkpoint._sql.pack import shorten, unpacked
from threadmark.checkpoint._sql.shapes import CHECKPOINT, LISTED, SEQ, THREAD, VALUE, WRITE, damaged
from threadmark.checkpoint._sql.standing import (
    Standing,
    find_standing,
    gone_tip,
    refuse_gone_tips,
    refuse_lost_head,
    space_of,
)
from threadmark.checkpoint._sql.statements import Statements
from threadmark.checkpoint.address import MAIN, Address, Selection, matches
from threadmark.checkpoint.decode import StoredCheckpoint, StoredWrite, gone_value
from threadmark.checkpoint.encode import Memo
from threadmark.checkpoint.lists import ListMemo, Slice
from threadmark.checkpoint.records import ChannelVersions, Checkpoint
from threadmark.checkpoint.rows import RowCodec, value_row
from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.errors import CheckpointNotFoundError, StorageCorruptError

__all__ = ["Bare", "Listing", "Opened", "Reading", "bare", "load", "next_page", "stored_values"]

_NEWEST = 2**62


class Bare(NamedTuple):
    """A checkpoint's row, decoded, without values and writes."""

    seq: int
    space: int
    ns: str
    id: str
    parent_id: str | None
    created: int
    checkpoint: Checkpoint
    absent: Sequence[str]
    metadata: Any


class Opened(NamedTuple):
    """What `load` found: where the thread stands, the checkpoint, and what later commits need."""

    standing: Standing
    stored: StoredCheckpoint | None
    memo: Memo


@dataclass(slots=True)
class Reading:
    """What every step of reading needs, and what was read of lists so far."""

    sql: Statements
    rows: RowCodec
    now: int
    logs: Logs = field(default_factory=Logs)


@dataclass(slots=True)
class Listing:
    """How far a listing has come. `wanted.thread_id` is `None` for a listing of all threads.

    Attributes:
        wanted: What was asked for.
        size: How many checkpoints to read at once.
        seq: Checkpoints before this number come next.
        threads: The threads that come next, as thread and thread id.
        after: Threads that changed before this one come after those, as time and thread.
        done: Nothing is left.
    """

    wanted: Selection
    size: int
    seq: int | None = None
    threads: list[tuple[int, str]] = field(default_factory=list)
    after: tuple[int, int] = (_NEWEST, _NEWEST)
    done: bool = False


# One checkpoint


def load(reading: Reading, address: Address) -> Operation[Opened]:
    """Read the checkpoint at an address, with what later commits of a run need."""
    opened: Opened = yield Transaction(_load(reading, address), read_only=True)
    return opened


def _load(reading: Reading, address: Address) -> Operation[Opened]:
    sql = reading.sql
    at = yield from find_standing(sql, address.thread_id, address.ns, address.branch, reading.now)
    seq = at.seq
    if at.thread is not None and address.checkpoint_id not in (None, at.tip):
        space = at.space if at.space is not None else (yield from space_of(sql, at.thread, address.ns))
        rows = SEQ.of((yield Execute(sql.find_number, (at.thread, space, address.checkpoint_id))))
        seq = rows[0][0] if rows else None
    if at.thread is None or seq is None:
        yield from refuse_lost_head(sql, at, address)
        return Opened(at, None, Memo())
    rows = CHECKPOINT.of((yield Execute(sql.get_checkpoint, (at.thread, seq))), address.thread_id)
    if not rows or (rows[0][2], rows[0][3]) != (address.ns, address.checkpoint_id or at.tip):
        raise gone_tip(address.thread_id, address.checkpoint_id or at.tip)
    found = bare(reading, address.thread_id, rows[0])
    (stored,), slices = yield from _complete(reading, at.thread, address.thread_id, [found])
    return Opened(at, stored, _memo(stored, slices[0]))


def stored_values(
    reading: Reading, address: Address, versions: ChannelVersions
) -> Operation[dict[str, Encoded | list[bytes]]]:
    """Read what is stored under versions of channels in a namespace."""
    found: dict[str, Encoded | list[bytes]] = yield Transaction(
        _stored_values(reading, address, versions), read_only=True
    )
    return found


def _stored_values(
    reading: Reading, address: Address, versions: ChannelVersions
) -> Operation[dict[str, Encoded | list[bytes]]]:
    rows = THREAD.of((yield Execute(reading.sql.find_thread, (address.thread_id,))), address.thread_id)
    space = (yield from space_of(reading.sql, rows[0][0], address.ns)) if rows else None
    if space is None:
        return {}
    checkpoint: Any = {"channel_versions": versions}
    alone = Bare(0, space, address.ns, "", None, 0, checkpoint, list(versions), {})
    (stored,), _ = yield from _complete(reading, rows[0][0], address.thread_id, [alone])
    return dict(stored.values)


def _memo(stored: StoredCheckpoint, slices: dict[str, Slices]) -> Memo:
    versions = stored.checkpoint["channel_versions"]
    return Memo(
        stored.id,
        dict(versions),
        {
            channel: ListMemo(versions[channel], len(items), items[:])
            for channel, items in stored.values.items()
            if isinstance(items, list)
        },
        {(channel, versions[channel]): where for channel, where in slices.items()},
    )


# Pages of a listing


def next_page(reading: Reading, listing: Listing) -> Operation[Sequence[StoredCheckpoint]]:
    """Read the next checkpoints of a listing, and note how far it has come."""
    # Only what was read to its end counts: a page may have to be read again.
    going = replace(listing, threads=listing.threads[:])
    found: Sequence[StoredCheckpoint] = yield Transaction(_next_page(reading, going), read_only=True)
    listing.seq, listing.threads = going.seq, going.threads
    listing.after, listing.done = going.after, going.done
    return found


def _next_page(reading: Reading, listing: Listing) -> Operation[Sequence[StoredCheckpoint]]:
    if not listing.threads:
        yield from _next_threads(reading, listing)
    if not listing.threads:
        listing.done = True
        return []
    thread, thread_id = listing.threads[0]
    if listing.seq is None:
        yield from refuse_gone_tips(reading.sql, thread, thread_id, listing.wanted.ns)
        listing.seq = yield from _first_seq(reading, listing.wanted, thread)
    wanted = listing.wanted
    found = yield Execute(
        reading.sql.page_of_thread,
        (thread, listing.seq, wanted.checkpoint_id, wanted.ns, listing.size),
    )
    rows = CHECKPOINT.of(found, thread_id)
    if len(rows) < listing.size:
        listing.threads.pop(0)
        listing.seq = None
        listing.done = wanted.thread_id is not None
    else:
        listing.seq = rows[-1][0]
    bares = [bare(reading, thread_id, row) for row in rows]
    chosen = [each for each in bares if matches(each.metadata, wanted.filter)]
    stored, _ = yield from _complete(reading, thread, thread_id, chosen)
    return stored


def _next_threads(reading: Reading, listing: Listing) -> Operation[None]:
    thread_id = listing.wanted.thread_id
    if thread_id is not None:
        ns = listing.wanted.ns
        at = yield from find_standing(reading.sql, thread_id, ns or "", MAIN, reading.now)
        if ns is not None and at.tip is None:
            yield from refuse_lost_head(reading.sql, at, Address(thread_id, ns, None, MAIN))
        listing.threads = [] if at.thread is None else [(at.thread, thread_id)]
        return
    page = yield Execute(reading.sql.page_of_threads, (reading.now, *listing.after, listing.size))
    rows = LISTED.of(page)
    listing.threads = [(thread, found_id) for thread, found_id, _ in rows]
    if rows:
        listing.after = (rows[-1][2], rows[-1][0])


def _first_seq(reading: Reading, wanted: Selection, thread: int) -> Operation[int]:
    before = wanted.before
    if before is None:
        return _NEWEST
    space = yield from space_of(reading.sql, thread, before.ns)
    rows = SEQ.of((yield Execute(reading.sql.find_number, (thread, space, before.checkpoint_id))))
    if not rows:
        raise CheckpointNotFoundError(before.thread_id, before.checkpoint_id or "")
    return int(rows[0][0])


# From rows to checkpoints


def bare(reading: Reading, thread_id: str, row: Found) -> Bare:
    """Decode a checkpoint's row.

    Raises:
        StorageCorruptError: It does not hold a checkpoint, or follows one that is gone.
    """
    seq, space, ns, checkpoint_id, parent_id, created, body_tag, body, metadata_tag, metadata = row
    address = (thread_id, ns, checkpoint_id)
    stored = reading.rows.loads(Row("checkpoint", *address), (body_tag, body))
    opened = unpacked(stored, checkpoint_id, thread_id)
    about = reading.rows.loads(Row("metadata", *address), (metadata_tag, metadata))
    if not isinstance(about, dict):
        raise damaged("checkpoints", "metadata holds no dict", thread_id, "metadata")
    if parent_id == "":
        raise StorageCorruptError(
            f"Checkpoint {checkpoint_id!r} of thread {thread_id!r} follows one that is gone. To do without "
            f"what came before it, call prune([{thread_id!r}]).",
            thread_id=thread_id,
            table="tm_checkpoints",
            checkpoint_id=checkpoint_id,
        )
    return Bare(
        seq,
        space,
        ns,
        checkpoint_id,
        parent_id,
        created,
        opened.checkpoint,
        opened.around.absent,
        about,
    )


def _complete(
    reading: Reading, thread: int, thread_id: str, bare: Sequence[Bare]
) -> Operation[tuple[list[StoredCheckpoint], list[dict[str, Slices]]]]:
    """Read the values and writes of checkpoints of one thread.

    Returns:
        The checkpoints, and where the lists of each are.
    """
    values = yield from _values(reading, thread, thread_id, bare)
    slices = [_slices(reading, thread_id, each, found) for each, found in zip(bare, values, strict=True)]
    wanted: dict[tuple[int, str, str], list[Slice[str]]] = {}
    for each, where in zip(bare, slices, strict=True):
        for channel, pieces in where.items():
            wanted.setdefault((each.space, each.ns, channel), []).extend(pieces)
    source = Source(reading.sql, reading.rows, thread, thread_id)
    yield from load_logs(source, reading.logs, wanted)
    writes = yield from _writes(reading, thread, thread_id, bare)
    stored = [
        StoredCheckpoint(
            thread_id,
            each.ns,
            each.id,
            each.parent_id,
            each.checkpoint,
            each.metadata,
            _put_together(reading, thread_id, each, found, where),
            writes.get(each.seq, []),
        )
        for each, found, where in zip(bare, values, slices, strict=True)
    ]
    return stored, slices


Values = dict[str, tuple[bool, Encoded]]
"""By channel: whether it is a list, and the data of its row."""


def _values(reading: Reading, thread: int, thread_id: str, bare: Sequence[Bare]) -> Operation[list[Values]]:
    named = [
        {c: (each.space, shorten(v), c) for c, v in each.checkpoint["channel_versions"].items()}
        for each in bare
    ]
    wanted = {key for keys in named for key in keys.values()}
    if not wanted:
        return [{} for _ in bare]
    rows = yield Execute(reading.sql.get_values, (json.dumps(sorted(wanted)), thread))
    stored = {
        (space, version, channel): (bool(sliced), (tag, data))
        for space, version, channel, sliced, tag, data in VALUE.of(rows, thread_id)
    }
    return [{c: stored[key] for c, key in keys.items() if key in stored} for keys in named]


def _slices(reading: Reading, thread_id: str, each: Bare, values: Values) -> dict[str, Slices]:
    found = {}
    for channel, (sliced, data) in values.items():
        if sliced:
            version = each.checkpoint["channel_versions"][channel]
            _, content = reading.rows.opened(value_row(thread_id, each.ns, channel, version), data)
            found[channel] = read_slices(content)
    return found


def _put_together(
    reading: Reading, thread_id: str, each: Bare, values: Values, slices: dict[str, Slices]
) -> dict[str, Encoded | list[bytes]]:
    found: dict[str, Encoded | list[bytes]] = {}
    for channel in each.checkpoint["channel_versions"]:
        if channel in slices:
            found[channel] = reading.logs.items(each.space, channel, slices[channel], thread_id)
        elif channel in values:
            found[channel] = values[channel][1]
        elif channel not in each.absent:
            raise gone_value(thread_id, channel, each.id)
    return found


def _writes(
    reading: Reading, thread: int, thread_id: str, bare: Sequence[Bare]
) -> Operation[dict[int, list[StoredWrite]]]:
    numbers = json.dumps([each.seq for each in bare])
    found: dict[int, list[StoredWrite]] = {}
    rows = yield Execute(reading.sql.get_writes, (numbers, thread))
    for seq, task_id, idx, channel, tag, data, path in WRITE.of(rows, thread_id):
        found.setdefault(seq, []).append(StoredWrite(task_id, idx, channel, (tag, data), path))
    return found
