"""Lists as slices of logs: how a list channel is stored at the price of what changed in it.

A *log* is a run of encoded items that only grows. A version of a list is a sequence of slices of logs,
so a longer list costs the items that are new, and a shorter one costs nothing. How a version is made
from the one before is a *recipe*: runs of old items, and new items. Pure functions; what a log is, and
where it lives, is the backend's business.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from threadmark.checkpoint.records import Kept

__all__ = [
    "ListMemo",
    "Piece",
    "Recipe",
    "Slice",
    "array",
    "cut",
    "diff",
    "extend",
    "joined",
    "merges",
    "recipe_from",
]

MOST_SLICES = 16
"""A version with more slices than this is made shorter, by merging small neighbours in a new log."""

Piece: TypeAlias = "tuple[int, int] | list[bytes]"
"""A run `(from, to)` of the items of the version before, or encoded items that are new."""

L = TypeVar("L")
Slice: TypeAlias = tuple[L, int, int]


@dataclass(slots=True)
class Recipe:
    """How a version of a list is made.

    Attributes:
        follows: The version whose items the runs speak of; `None` when there is none.
        pieces: Runs of old items and new items, in order.
    """

    follows: Any
    pieces: list[Piece]


@dataclass(slots=True)
class ListMemo:
    """What a run knows about a list as it was last saved.

    Attributes:
        version: Its version.
        length: How many items it has.
    """

    version: Any
    length: int
    _items: list[bytes] | Callable[[], list[bytes]] = field(default_factory=list)
    _later: list[list[Piece]] = field(default_factory=list)

    def advance(self, version: Any, pieces: list[Piece], length: int) -> None:
        """Note that a next version was made."""
        self._later.append(pieces)
        self.version, self.length = version, length

    def items(self) -> list[bytes]:
        """Return the encoded items. They are put together only when somebody must compare."""
        items = self._items if isinstance(self._items, list) else self._items()
        for pieces in self._later:
            items = _made(items, pieces)
        self._items, self._later = items, []
        return items


def array(count: int) -> bytes:
    """Return the MessagePack header of an array."""
    if count < 16:
        return bytes((0x90 | count,))
    if count < 65_536:
        return struct.pack(">BH", 0xDC, count)
    return struct.pack(">BI", 0xDD, count)


def joined(items: Sequence[bytes]) -> bytes:
    """Return the MessagePack encoding of a list whose items are encoded already."""
    return array(len(items)) + b"".join(items)


def recipe_from(kept: Kept, old: int, new: int) -> list[tuple[int, int]] | None:
    """Check what the engine says about a list against its lengths.

    Args:
        kept: What it says.
        old: How many items the version before has.
        new: How many the new one has.

    Returns:
        The runs of `kept`, with `(-1, n)` for `n` new items; `None` if the lengths do not add up.
    """
    runs: list[tuple[int, int]] = []
    total = 0
    for entry in kept:
        start, stop, most = (0, entry, new) if isinstance(entry, int) else (*entry, old)
        if not 0 <= start <= stop <= most:
            return None
        total += stop - start
        if stop > start:
            runs.append((-1, stop) if isinstance(entry, int) else (start, stop))
    return runs if total == new else None


def diff(old: Sequence[bytes], new: Sequence[bytes]) -> list[Piece]:
    """Find runs of old items in a new list. Equal ends are found first, then what moved forward."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    pieces: list[Piece] = [(0, head)] if head else []
    pieces += _moved(old, head, len(old) - tail, new[head : len(new) - tail])
    if tail:
        pieces.append((len(old) - tail, len(old)))
    return pieces


def cut(slices: Iterable[Slice[L]], start: int, stop: int) -> list[Slice[L]]:
    """Return the slices that hold the items from `start` to `stop` of what `slices` hold."""
    found: list[Slice[L]] = []
    passed = 0
    for log, low, high in slices:
        first, last = max(start - passed, 0), min(stop - passed, high - low)
        if first < last:
            found.append((log, low + first, low + last))
        passed += high - low
    return found


def extend(slices: list[Slice[L]], more: Iterable[Slice[L]]) -> None:
    """Add slices at the end, joining those that touch."""
    for log, start, stop in more:
        if slices:
            last, first, end = slices[-1]
            if end == start and (last is log or (type(log) is str and last == log)):
                slices[-1] = (log, first, stop)
                continue
        slices.append((log, start, stop))


def merges(lengths: Sequence[int], most: int = MOST_SLICES) -> list[tuple[int, int]]:
    """Choose which neighbouring slices to merge when there are too many.

    The cheapest neighbours go first, until half of what is allowed is left, so that merging costs
    little for each change that made it necessary.

    Returns:
        The groups, as `(first, last + 1)` positions, of all slices; a group of one stays as it is.
    """
    groups = [(i, i + 1) for i in range(len(lengths))]
    if len(groups) <= most:
        return groups
    sizes = list(lengths)
    while len(groups) > most // 2:
        i = min(range(len(sizes) - 1), key=lambda i: sizes[i] + sizes[i + 1])
        groups[i : i + 2] = [(groups[i][0], groups[i + 1][1])]
        sizes[i : i + 2] = [sizes[i] + sizes[i + 1]]
    return groups


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))


def _moved(old: Sequence[bytes], at: int, end: int, new: Sequence[bytes]) -> list[Piece]:
    places: dict[bytes, list[int]] = {}
    for i in range(end - 1, at - 1, -1):
        places.setdefault(old[i], []).append(i)
    pieces: list[Piece] = []
    for item in new:
        found = _next(places.get(item), at)
        last = pieces[-1] if pieces else None
        if found is None:
            if isinstance(last, list):
                last.append(item)
            else:
                pieces.append([item])
        else:
            at = found + 1
            if isinstance(last, tuple) and last[1] == found:
                pieces[-1] = (last[0], at)
            else:
                pieces.append((found, at))
    return pieces


def _next(places: list[int] | None, at: int) -> int | None:
    """Return the first place from `at` on. The places descend, and what is passed is dropped."""
    while places and places[-1] < at:
        places.pop()
    return places[-1] if places else None


def _made(items: list[bytes], pieces: list[Piece]) -> list[bytes]:
    if pieces and pieces[0] == (0, len(items)):
        made, pieces = items, pieces[1:]
        old = items[:] if any(isinstance(piece, tuple) for piece in pieces) else items
    else:
        made, old = [], items
    for piece in pieces:
        made.extend(old[piece[0] : piece[1]] if isinstance(piece, tuple) else piece)
    return made
