"""Where an item stands in an ordered result, and how that is written down for the next page.

Every search has one total order. A `Place` is the name of that order and the item's position in it:
numbers and texts that compare like the items do, the item's sequence number last. A cursor is a place
as text; it comes back from outside, so reading one checks every part.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple, TypeAlias

from threadmark._checks import shown
from threadmark.errors import InvalidArgumentError
from threadmark.store.namespaces import decode_text, encode_text
from threadmark.store.paths import MISSING

__all__ = ["Place", "Position", "read_cursor", "sort_position", "write_cursor"]

Position: TypeAlias = tuple[Any, ...]

_MISSING, _NULL, _BOOL, _NUMBER, _TEXT, _OTHER = range(6)
_RANKS: dict[type, int] = {
    type(None): _NULL,
    bool: _BOOL,
    int: _NUMBER,
    float: _NUMBER,
    str: _TEXT,
}


class Place(NamedTuple):
    """A position in the order of that name."""

    order: str
    position: Position


def sort_position(found: Any, seq: int) -> Position:
    """Return where an item stands when sorted by a field.

    Missing comes first, then `None`, booleans, numbers, texts, and last lists and dictionaries, which
    do not differ among themselves.

    Args:
        found: The field's value, or `MISSING`.
        seq: The item's sequence number, which decides between equals.
    """
    if found is MISSING:
        return (_MISSING, 0, seq)
    rank = _RANKS.get(type(found), _OTHER)
    return (rank, 0 if rank in (_NULL, _OTHER) else found, seq)


def write_cursor(place: Place) -> str:
    """Return a place as text."""
    text = json.dumps([place.order, *place.position], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(encode_text(text)).decode()


def read_cursor(cursor: str, order: str) -> Position:
    """Return the position that a cursor names.

    Args:
        cursor: What `SearchItem.cursor` gave.
        order: The name of the order that it must belong to.

    Raises:
        InvalidArgumentError: It is no cursor, or one of another search.
    """
    try:
        data = base64.b64decode(cursor, b"-_", validate=True)
        name, *position = json.loads(decode_text(data))
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise _refused(cursor) from error
    if name != order or not _fits(position, order):
        raise _refused(cursor)
    return tuple(position)


def _refused(cursor: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"after={shown(cursor)} does not belong to this search. Pass the cursor of an item that the same "
        f"search returned, with the same query, mode, sort and descending."
    )


def _fits(position: list[Any], order: str) -> bool:
    """Whether a position that came from outside can be compared with those of this order."""
    if not position or type(position[-1]) is not int or abs(position[-1]) >= 2**63:
        return False
    if order.startswith("sort:"):
        return len(position) == 3 and _sortable(position[0], position[1])
    return len(position) <= 3 and all(type(part) in (int, float) for part in position)


def _sortable(rank: Any, value: Any) -> bool:
    if rank in (_BOOL, _NUMBER, _TEXT) and type(rank) is int:
        return _RANKS.get(type(value)) == rank
    return type(rank) is int and _MISSING <= rank <= _OTHER and value == 0
