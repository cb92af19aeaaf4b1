"""The dicts that `InMemorySaver` shows, which know a little more than dicts do.

They print, compare and iterate as plain dicts of the documented shapes. A thread's dict also knows the
thread's birth mark and settings, a namespace's dict its heads and the order of its checkpoints, and the
dict of blobs keeps the versions of a list as slices of shared logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from threadmark.checkpoint.lists import Recipe, Slice, cut, extend, joined, merges
from threadmark.checkpoint.serde.base import Encoded, Row

__all__ = ["BlobKey", "Blobs", "Entry", "Space", "StoredList", "Thread"]

Entry: TypeAlias = tuple[Encoded, Encoded, "str | None"]
"""A checkpoint, its metadata, and its parent's id."""

BlobKey: TypeAlias = tuple[str, str, str, Any]
"""Thread, namespace, channel, version."""

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


class Space(dict[str, Entry]):
    """The checkpoints of one namespace, in the order in which they were saved.

    Attributes:
        heads: Branch to checkpoint id.
        automatic: The branches that nobody gave a name.
        numbers: Checkpoint id to its sequence number in the thread.
        blobs: The keys of the values that belong to the namespace.
    """

    __slots__ = ("automatic", "blobs", "heads", "numbers")

    def __init__(self) -> None:
        super().__init__()
        self.heads: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.automatic: set[str] = set()
        self.blobs: set[BlobKey] = set()

    def move_head(self, branch: str, checkpoint_id: str, parent_id: str | None) -> None:
        """Make a new checkpoint the tip of a branch. A tip that is left behind becomes a branch."""
        tip = self.heads.get(branch)
        self.heads[branch] = checkpoint_id
        if tip is None or tip == parent_id or tip in self.heads.values():
            return
        if all(entry[2] != tip for entry in self.values()):
            name = f"fork-{self.numbers[tip]}"
            while name in self.heads:
                name += "+"
            self.heads[name] = tip
            self.automatic.add(name)


class Thread(dict[str, Space]):
    """The namespaces of one thread.

    Attributes:
        incarnation: Tells this thread from an earlier one of the same id.
        last: The sequence number of the last checkpoint.
        updated: When it was saved.
    """

    __slots__ = ("incarnation", "last", "updated")

    def __init__(self, incarnation: str) -> None:
        super().__init__()
        self.incarnation = incarnation
        self.last = 0
        self.updated = 0.0


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
        super().__setitem__(key, stored)

    def stored(self, key: BlobKey) -> Encoded | StoredList | None:
        """Return a value as it is kept."""
        return super().get(key)

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
