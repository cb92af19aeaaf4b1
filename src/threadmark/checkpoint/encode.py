"""Encodes a commit: everything that a saver does before it touches its storage.

The result holds bytes and plain data only, so that nothing that happens to the live values later can
reach it. All refusals happen here. What it needs to know about the state of the storage it takes from
the run's `Memo`, which it brings up to date; it does no I/O and knows no backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from threadmark.checkpoint.address import MAIN, check_name, thread_id_of
from threadmark.checkpoint.labels import About, about
from threadmark.checkpoint.lists import ListMemo, Piece, Recipe, diff, recipe_from
from threadmark.checkpoint.records import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    Commit,
    Head,
    TaskCommit,
    ThreadStatus,
)
from threadmark.checkpoint.rows import RowCodec, value_row, write_row
from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.errors import InvalidArgumentError, SerializationError

__all__ = ["EncodedCommit", "EncodedValue", "EncodedWrite", "Memo", "Surroundings", "encode"]

_STATUS_OF: Mapping[str, ThreadStatus] = {"__interrupt__": "paused", "__error__": "failed"}
_TELLING = frozenset(WRITES_IDX_MAP[channel] for channel in _STATUS_OF)

_OF_ONE_CHECKPOINT = frozenset({"source", "step", "parents", "writes", "run_id", "graph", "state_version"})
"""Metadata that speaks of one checkpoint; the rest is the thread's as well."""


@dataclass(slots=True)
class Memo:
    """What a run knows about what is stored.

    Attributes:
        base_id: The checkpoint whose values are known to be stored.
        versions: Its versions.
        lists: Its lists, by channel.
        keys: What the backend wants to remember.
        about: The metadata that the run has already added to the thread's.
        run_id: The run whose work on the thread is noted already.
    """

    base_id: str | None = None
    versions: ChannelVersions = field(default_factory=dict)
    lists: dict[str, ListMemo] = field(default_factory=dict)
    keys: Any = None
    about: Mapping[str, Any] = field(default_factory=dict)
    run_id: str | None = None


class EncodedValue(NamedTuple):
    """A channel's value on its way to storage.

    Attributes:
        channel: The channel.
        version: The version that names the value.
        data: The encoded value, or the recipe of a list.
        certain: Whether the version is new. If not, it may be stored already and is then left alone.
    """

    channel: str
    version: Any
    data: Encoded | Recipe
    certain: bool


class EncodedWrite(NamedTuple):
    """A write of a task on its way to storage. A negative index replaces an earlier write."""

    task_id: str
    idx: int
    channel: str
    data: Encoded
    task_path: str


Seen: TypeAlias = "dict[int, Encoded]"
"""What was encoded in this commit, by the value's identity: a write is often the channel's value too."""

Body: TypeAlias = "Callable[[Checkpoint, Surroundings], Encoded]"


class Surroundings(NamedTuple):
    """What is stored with a checkpoint beside itself.

    Attributes:
        parents: The checkpoints of the graphs around it, by namespace.
        run_id: The run that saved it.
        absent: The channels that hold nothing.
    """

    parents: Mapping[str, str]
    run_id: str | None
    absent: Sequence[str]


_ALONE = Surroundings(MappingProxyType({}), None, ())


@dataclass(slots=True)
class EncodedCommit:
    """A commit in bytes. `checkpoint_id` is `None` when it only brings writes."""

    thread_id: str
    ns: str
    parent_id: str | None
    checkpoint_id: str | None
    head: Head | None
    branch: str
    durable: bool
    status: ThreadStatus | None
    memo: Memo
    writes: Sequence[EncodedWrite] = ()
    body: Encoded = ("null", b"")
    metadata: Encoded = ("null", b"")
    about: About | None = None
    values: Sequence[EncodedValue] = ()
    surroundings: Surroundings = _ALONE
    base_id: str | None = None
    lease: str | None = None

    @property
    def run_id(self) -> str | None:
        """The run that saves the commit."""
        return self.surroundings.run_id


def encode(
    commit: Commit | TaskCommit,
    rows: RowCodec,
    body: Body,
    existing: Mapping[str, Encoded | list[bytes]] = MappingProxyType({}),
) -> EncodedCommit:
    """Encode a commit and bring its memo up to date.

    Args:
        commit: The commit.
        rows: How values are encoded.
        body: Encodes a checkpoint without its values.
        existing: Values that are stored under versions of the commit already, by channel.

    Raises:
        SerializationError: A value cannot be kept.
        ValueTooLargeError: A value is over the limit.
        InvalidArgumentError: An id or a name cannot be kept, or a version names another value already.
    """
    follows = commit.parent_id if isinstance(commit, Commit) else commit.checkpoint_id
    head, status = commit.head, commit.status
    seen: Seen = {}
    writes: Sequence[EncodedWrite] = ()
    if follows is not None and commit.writes:
        writes = _writes(commit, follows, rows, seen)
        if status is None:
            status = next((_STATUS_OF[w.channel] for w in writes if w.idx in _TELLING), None)
    encoded = EncodedCommit(
        thread_id_of(commit.thread_id),
        check_name(commit.checkpoint_ns),
        follows,
        None,
        head,
        MAIN if head is None else head.branch,
        commit.durability == "sync",
        status,
        commit.memo if isinstance(commit, Commit) and commit.memo is not None else Memo(),
        writes,
        lease=commit.lease,
    )
    if isinstance(commit, Commit):
        memo = encoded.memo
        _add_checkpoint(encoded, commit, rows, body)
        encoded.values = _values(commit, memo, rows, seen)
        if existing:
            encoded.values = [v for v in encoded.values if not _is_stored(v, existing, commit, rows)]
        memo.base_id = encoded.checkpoint_id
        memo.versions = commit.checkpoint["channel_versions"].copy()
    return encoded


def _add_checkpoint(encoded: EncodedCommit, commit: Commit, rows: RowCodec, body: Body) -> None:
    checkpoint, metadata = commit.checkpoint, commit.metadata
    encoded.checkpoint_id = checkpoint_id = check_name(checkpoint["id"])
    encoded.base_id = encoded.memo.base_id
    run_id = metadata.get("run_id")
    encoded.surroundings = Surroundings(
        _parents(metadata.get("parents")),
        None if run_id is None else check_name(str(run_id)),
        _absent(commit),
    )
    encoded.body = body(_without_stored(checkpoint), encoded.surroundings)
    encoded.metadata = rows.dumps(metadata, "metadata")
    if rows.seals:
        address = (encoded.thread_id, encoded.ns, checkpoint_id)
        encoded.body = rows.seal(Row("checkpoint", *address), encoded.body)
        encoded.metadata = rows.seal(Row("metadata", *address), encoded.metadata)
    if not encoded.ns and not metadata.keys() <= _OF_ONE_CHECKPOINT:
        encoded.about = _about(metadata, encoded.memo, rows)


def _is_stored(
    value: EncodedValue, existing: Mapping[str, Encoded | list[bytes]], commit: Commit, rows: RowCodec
) -> bool:
    """Tell whether a value is stored already, and raise if another is: a version names one for ever."""
    stored = existing.get(value.channel)
    if stored is None:
        return False
    if not isinstance(stored, list):
        row = value_row(commit.thread_id, commit.checkpoint_ns, value.channel, value.version)
        stored = rows.opened(row, stored)
    if value.certain and stored != _plain(value, commit, rows, isinstance(stored, list)):
        raise InvalidArgumentError(
            f"Version {value.version!r} of channel {value.channel!r} already names another value. Take "
            f"versions from get_next_version()."
        )
    return True


def _plain(value: EncodedValue, commit: Commit, rows: RowCodec, split: bool) -> Encoded | list[bytes] | None:
    """Encode a value once more, as it is before it is compressed or sealed."""
    if isinstance(value.data, tuple) and value.data[0] == "empty":
        return value.data
    given = commit.checkpoint["channel_values"][value.channel]
    if not split:
        return rows.inner.dumps_typed(given)
    return rows.dumps_items(given, value.channel) if type(given) is list else None


def _about(metadata: Mapping[str, Any], memo: Memo, rows: RowCodec) -> About:
    """Encode the metadata that is the thread's as well, unless this run has added it already."""
    given = {k: v for k, v in metadata.items() if k not in _OF_ONE_CHECKPOINT}
    new = {k: v for k, v in given.items() if k not in memo.about or memo.about[k] is not v}
    if not new:
        return {}
    memo.about = {**memo.about, **new}
    return about(new, rows)


def _parents(given: Any) -> Mapping[str, str]:
    if not given or not isinstance(given, Mapping):
        return {}
    return {ns: found for ns, found in given.items() if type(ns) is str and type(found) is str}


def _absent(commit: Commit) -> list[str]:
    """Return the channels that have a version and hold nothing."""
    found, cleared = commit.checkpoint["channel_values"], commit.cleared
    return [c for c in commit.checkpoint["channel_versions"] if c not in found or c in cleared]


def _without_stored(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint without the values that are stored by version."""
    versions, values = checkpoint["channel_versions"], checkpoint["channel_values"]
    bare: Any = checkpoint.copy()
    if values.keys() <= versions.keys():
        del bare["channel_values"]
    else:
        bare["channel_values"] = {c: v for c, v in values.items() if c not in versions}
    return bare  # type: ignore[no-any-return]


# Writes


def _writes(commit: Commit | TaskCommit, follows: str, rows: RowCodec, seen: Seen) -> list[EncodedWrite]:
    encoded = []
    dumps, seals = rows.dumps, rows.seals
    for task_id, path, writes in commit.writes:
        check_name(task_id)
        check_name(path)
        node = commit.nodes.get(task_id)
        for position, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, position)
            data = seen[id(value)] = dumps(value, check_name(channel), node)
            if seals:
                address = (commit.thread_id, commit.checkpoint_ns, follows)
                data = rows.seal(write_row(address, channel, task_id, index), data)
            encoded.append(EncodedWrite(task_id, index, channel, data, path))
    return encoded


# Values


def _values(commit: Commit, memo: Memo, rows: RowCodec, seen: Seen) -> list[EncodedValue]:
    found = commit.checkpoint["channel_values"]
    known, new = memo.versions, commit.new_versions
    encoded = []
    for channel, version in commit.checkpoint["channel_versions"].items():
        certain = channel in new
        if not certain and (known.get(channel) == version or channel not in found):
            continue
        check_name(channel)
        data: Encoded | Recipe
        if channel not in found or channel in commit.cleared:
            memo.lists.pop(channel, None)
            data = ("empty", b"")
        else:
            data = _value(commit, channel, version, memo, rows, seen)
        encoded.append(EncodedValue(channel, version, data, certain))
    return encoded


def _value(
    commit: Commit, channel: str, version: Any, memo: Memo, rows: RowCodec, seen: Seen
) -> Encoded | Recipe:
    value = commit.checkpoint["channel_values"][channel]
    if type(value) is list:
        recipe = _recipe(commit, channel, version, value, memo, rows)
        if recipe is not None:
            return recipe
    memo.lists.pop(channel, None)
    data = seen.get(id(value))
    if data is None:
        try:
            data = rows.dumps(value, channel)
        except SerializationError as error:
            raise error.at(node=_writer(commit, channel))
    if rows.seals:
        data = rows.seal(value_row(commit.thread_id, commit.checkpoint_ns, channel, version), data)
    return data


def _writer(commit: Commit, channel: str) -> str | None:
    """Return the node that wrote to a channel, to name it in an error."""
    writers = (t.task_id for t in commit.writes if any(c == channel for c, _ in t.writes))
    return next((commit.nodes[task_id] for task_id in writers if task_id in commit.nodes), None)


def _recipe(
    commit: Commit, channel: str, version: Any, value: list[Any], memo: Memo, rows: RowCodec
) -> Recipe | None:
    last = memo.lists.get(channel)
    pieces = _pieces(commit, channel, value, last, rows)
    if pieces is None:
        return None
    follows = last.version if last is not None else None
    if last is None:
        last = memo.lists[channel] = ListMemo(version, 0)
    last.advance(version, pieces, len(value))
    return Recipe(follows, pieces)


def _pieces(
    commit: Commit, channel: str, value: list[Any], last: ListMemo | None, rows: RowCodec
) -> list[Piece] | None:
    old = last.length if last is not None else 0
    kept = commit.kept.get(channel)
    runs = recipe_from(kept, old, len(value)) if kept is not None else None
    if runs is not None:
        return _from_runs(runs, channel, value, rows)
    items = rows.dumps_items(value, channel)
    if items is None:
        return None
    return diff(last.items(), items) if last is not None else ([items] if items else [])


def _from_runs(
    runs: list[tuple[int, int]], channel: str, value: list[Any], rows: RowCodec
) -> list[Piece] | None:
    pieces: list[Piece] = []
    at = 0
    for start, stop in runs:
        count = stop if start < 0 else stop - start
        if start < 0:
            items = rows.dumps_items(value[at : at + count], channel)
            if items is None:
                return None
            pieces.append(items)
        else:
            pieces.append((start, stop))
        at += count
    return pieces
