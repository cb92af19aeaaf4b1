"""Notes on what stayed the same in a list, in the form of `threadmark.checkpoint.base.Kept`.

A reducer can have an attribute `changes(left, right, result)` that returns such a note; the one for
`operator.add` is here. Without it, storage compares. Pure functions on small tuples.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from threadmark.checkpoint.base import Kept

__all__ = ["changes_of", "compose"]

Changes = Callable[[Any, Any, Any], Kept | None]


def appended(left: Any, right: Any, result: Any) -> Kept | None:
    """Return the note of `left + right` for lists."""
    if type(left) is list and type(result) is list and len(result) == len(left) + len(right):
        return ((0, len(left)), len(right))
    return None


def changes_of(reducer: Callable[..., Any]) -> Changes | None:
    """Return the function that tells what a reducer keeps, or `None` if nobody knows."""
    if reducer is operator.add or reducer is operator.iadd or reducer is operator.concat:
        return appended
    return getattr(reducer, "changes", None)


def compose(first: Kept, second: Kept) -> Kept:
    """Return the note of two changes in a row: `second` speaks of the list that `first` made."""
    pieces: list[tuple[int, int] | int] = []
    for piece in second:
        if isinstance(piece, int):
            add(pieces, piece)
        else:
            cut(pieces, first, *piece)
    return tuple(pieces)


def cut(pieces: list[tuple[int, int] | int], first: Kept, start: int, stop: int) -> None:
    """Add to `pieces` what `first` says of the items `start` to `stop` of the list that it made."""
    at = 0
    for piece in first:
        size = piece if isinstance(piece, int) else piece[1] - piece[0]
        low, high = max(start - at, 0), min(stop - at, size)
        if low < high:
            add(pieces, high - low if isinstance(piece, int) else (piece[0] + low, piece[0] + high))
        at += size


def add(pieces: list[tuple[int, int] | int], piece: tuple[int, int] | int) -> None:
    """Add a piece, joining it with the last one where they touch."""
    if pieces:
        last = pieces[-1]
        if isinstance(last, int) and isinstance(piece, int):
            pieces[-1] = last + piece
            return
        if isinstance(last, tuple) and isinstance(piece, tuple) and last[1] == piece[0]:
            pieces[-1] = (last[0], piece[1])
            return
    if piece != 0:
        pieces.append(piece)
