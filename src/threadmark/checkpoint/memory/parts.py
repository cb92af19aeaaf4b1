"""The dicts that `InMemorySaver` shows, which know a little more than dicts do.

They print, compare and iterate as plain dicts of the documented shapes. A thread's dict also knows the
thread's birth mark and settings, a namespace's dict its heads and the order of its checkpoints, and the
dict of blobs keeps the versions of a list as slices of shared logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from threadmark.checkpoint.labels import About
from threadmark.checkpoint.lists import Recipe, Slice, cut, extend, joined, merges
from threadmark.checkpoint.records import ThreadStatus
from threadmark.checkpoint.serde.base import Encoded, Row

__all__ = [
    "BlobKey",
    "Blobs",
    "CheckpointEntry",
    "Fact",
    "Space",
    "StoredList",
    "Thread",
    "Writes",
    "moved",
    "trimmed",
]

CheckpointEntry: TypeAlias = tuple[Encoded, Encoded, "str | None"]
"""A checkpoint, its metadata, and its parent's id."""

BlobKey: TypeAlias = tuple[str, str, str, Any]
"""Thread, namespace, channel, version."""

Writes: TypeAlias = "dict[tuple[str, str, str], dict[tuple[str, int], tuple[str, str, Encoded, str]]]"
"""Thread, namespace, checkpoint id → task id, index → task id, channel, value, task path."""

Log: TypeAlias = "list[bytes]"


class StoredList(NamedTuple):
    """A version of a list: slices of logs, which are lists of encoded items."""

    slices: tuple[Slice[Log], ...]

    @property
    def length(self) -> int:
        """How many items there are."""
        return sum(stop - start for _, start, stop in self.slices)

    def items(self) -> list[bytes]:
        """Return the encoded items."""
        return [item for log, start, stop in self.slices for item in log[start:stop]]


class Fact(NamedTuple):
    """What is known about a checkpoint beside its bytes: its place in the order, who saved it when, and which
    of its channels hold nothing.
    """

    seq: int
    created: int
    parents: Mapping[str, str]
    run_id: str | None
    absent: Sequence[str]


class Space(dict[str, CheckpointEntry]):
    """The checkpoints of one namespace, in the order in which they were saved.

    Attributes:
        heads: Branch to checkpoint id.
        automatic: The branches that nobody gave a name.
        facts: What is known about each checkpoint.
        blobs: The keys of the values that belong to the namespace.
    """

    __slots__ = ("automatic", "blobs", "facts", "heads")

    def __init__(self) -> None:
        super().__init__()
        self.heads: dict[str, str] = {}
        self.automatic: set[str] = set()
        self.facts: dict[str, Fact] = {}
        self.blobs: set[BlobKey] = set()

    def move_head(self, branch: str, checkpoint_id: str, parent_id: str | None) -> None:
        """Make a checkpoint the tip of a branch. A tip that is left behind becomes a branch."""
        tip = self.heads.get(branch)
        self.heads[branch] = checkpoint_id
        if tip is not None and tip != parent_id:
            self.name_tip(tip)

    def name_tip(self, tip: str) -> None:
        """Give a tip that was left behind an automatic name, unless it can be reached as it is."""
        if tip in self.heads.values() or any(entry[2] == tip for entry in self.values()):
            return
        name = f"fork-{self.facts[tip].seq}"
        while name in self.heads:
            name += "+"
        self.heads[name] = tip
        self.automatic.add(name)

    def drop_head(self, branch: str) -> None:
        """Forget a branch's name."""
        del self.heads[branch]
        self.automatic.discard(branch)


class Thread(dict[str, Space]):
    """The namespaces of one thread, and what its row holds where there are tables.

    Attributes:
        number: Tells this thread from an earlier one of the same id, and newer threads from older ones.
        last: The sequence number of the last checkpoint.
        created: When the thread was created, in milliseconds.
        updated: When it changed, to the second.
        status: What the thread index shows.
        expires: When it is gone.
        ttl: How long it lives from the last commit on, in milliseconds.
        about: Its metadata.
    """

    __slots__ = ("about", "created", "expires", "last", "number", "status", "ttl", "updated")

    def __init__(self, number: int, now: int, ttl: int | None) -> None:
        super().__init__()
        self.number = number
        self.last = 0
        self.created = self.updated = now
        self.status: ThreadStatus = "idle"
        self.ttl = ttl
        self.expires = None if ttl is None else now + ttl
        self.about: About = {}

    @property
    def incarnation(self) -> str:
        """The thread's birth mark."""
        return str(self.number)


class Blobs(dict[BlobKey, Encoded]):
    """The values of channels by version. Lists are put together when somebody looks.

    Args:
        seal: Protects what is shown, as the serializer would.
    """

    __slots__ = ("_seal",)

    def __init__(self, seal: Callable[[Row, Encoded], Encoded]) -> None:
        super().__init__()
        self._seal = seal

    def add(self, key: BlobKey, data: Encoded | Recipe) -> None:
        """Keep a value under a new version."""
        stored: Any = data if isinstance(data, tuple) else self._listed(key, data)
        dict.__setitem__(self, key, stored)

    def stored(self, key: BlobKey) -> Encoded | StoredList | None:
        """Return a value as it is kept."""
        return super().get(key)

    def keep(self, key: BlobKey, stored: Encoded | StoredList) -> None:
        """Keep a value as it was kept elsewhere."""
        kept: Any = stored
        super().__setitem__(key, kept)

    def _listed(self, key: BlobKey, recipe: Recipe) -> StoredList:
        before = self.stored((*key[:3], recipe.follows))
        old = before.slices if isinstance(before, StoredList) else ()
        slices: list[Slice[Log]] = []
        for piece in recipe.pieces:
            if isinstance(piece, tuple):
                extend(slices, cut(old, *piece))
            else:
                _append(slices, piece)
        return StoredList(tuple(_compact(slices)))

    def _shown(self, key: BlobKey, stored: Encoded | StoredList) -> Encoded:
        if not isinstance(stored, StoredList):
            return stored
        thread_id, ns, channel, version = key
        row = Row("value", thread_id, ns, "", channel, str(version))
        return self._seal(row, ("msgpack", joined(stored.items())))

    def __getitem__(self, key: BlobKey) -> Encoded:
        return self._shown(key, super().__getitem__(key))

    def get(self, key: BlobKey, default: Any = None) -> Any:
        """Return a value as type tag and bytes."""
        try:
            return self[key]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[BlobKey]:
        # Defined so that dict(blobs) looks values up rather than copying how they are kept.
        return super().__iter__()

    def values(self) -> Any:
        """Return the values as type tags and bytes."""
        return [self[key] for key in self]

    def items(self) -> Any:
        """Return keys and values."""
        return [(key, self[key]) for key in self]

    def copy(self) -> dict[BlobKey, Encoded]:
        """Return a plain dict."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return self.copy() == (other.copy() if isinstance(other, Blobs) else other)

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.copy())


def _append(slices: list[Slice[Log]], items: list[bytes]) -> None:
    """Add new items: to the log of the last slice if that ends there, else to a log of their own."""
    if slices:
        log, start, stop = slices[-1]
        if len(log) == stop:
            log.extend(items)
            slices[-1] = (log, start, len(log))
            return
    slices.append((list(items), 0, len(items)))


def _compact(slices: list[Slice[Log]]) -> list[Slice[Log]]:
    groups = merges([stop - start for _, start, stop in slices])
    return [_merged(slices[first:end]) for first, end in groups]


def _merged(slices: list[Slice[Log]]) -> Slice[Log]:
    if len(slices) == 1:
        return slices[0]
    items = StoredList(tuple(slices)).items()
    return items, 0, len(items)


def trimmed(lists: Iterable[StoredList]) -> dict[int, tuple[Log, int]]:
    """Copy logs without what none of these lists needs.

    Returns:
        By the old log's identity: the new one, and where in the old one it begins.
    """
    hulls: dict[int, tuple[Log, int, int]] = {}
    for stored in lists:
        for log, start, stop in stored.slices:
            _, low, high = hulls.get(id(log), (log, start, stop))
            hulls[id(log)] = (log, min(low, start), max(high, stop))
    return {key: (log[low:high], low) for key, (log, low, high) in hulls.items()}


def moved(stored: StoredList, logs: Mapping[int, tuple[Log, int]]) -> StoredList:
    """Return a list whose slices are those of trimmed logs."""
    slices = []
    for log, start, stop in stored.slices:
        new, low = logs[id(log)]
        slices.append((new, start - low, stop - low))
    return StoredList(tuple(slices))
