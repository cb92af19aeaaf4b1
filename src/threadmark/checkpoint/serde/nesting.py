"""A bound on how deep encoded data nests, measured without decoding it.

`ormsgpack` limits the nesting of one MessagePack value; data that alternates arrays and extensions
could exhaust the stack all the same. Below a few extensions, `check_nesting` walks the bytes with a
list as its stack. It judges shape only: what the bytes mean, and whether they are well formed, is for
the decoder to say.
"""

from __future__ import annotations

from threadmark.checkpoint.serde import wire
from threadmark.errors import SerializationError

__all__ = ["check_nesting"]

_RAW = frozenset(
    (
        wire.TEXT, wire.INTEGER, wire.BYTEARRAY, wire.DATE, wire.ZONE, wire.DECIMAL, wire.COMPLEX,
        wire.UUID, wire.CONSTANT, wire.CLASS,
    )
)  # fmt: skip
"""Extensions whose content is not MessagePack. That of the others is one value, then perhaps more."""
_BEFORE = {wire.DATETIME: 12, wire.TIME: 8}
"""Extensions with so many other bytes before the value."""

_FIXED = {
    0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
}  # fmt: skip
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_MANY = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_EXT_FIXED = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_EXT_SIZED = {0xC7: 1, 0xC8: 2, 0xC9: 4}


def check_nesting(data: bytes, limit: int = wire.MAX_INNER_DEPTH) -> None:
    """Refuse data that nests deeper than `limit`, arrays, maps and extensions together.

    Raises:
        SerializationError: It does.
    """
    if len(data) <= limit:
        return
    at = 0
    left, ends, resume = [1], [len(data)], [-1]
    while left:
        if not left[-1] or at >= ends[-1]:
            left.pop()
            ends.pop()
            after = resume.pop()
            at = at if after < 0 else after
            continue
        left[-1] -= 1
        inside, at, after = _step(data, at)
        if inside:
            left.append(inside)
            resume.append(after)
            ends.append(ends[-1] if after < 0 else min(after, ends[-1]))
            if len(left) > limit:
                raise SerializationError(f"Values nest more than {limit} deep in each other. Store them flat")


def _step(data: bytes, at: int) -> tuple[int, int, int]:
    """Look at the value that begins at `at`.

    Returns:
        How many values are inside it, where the next value begins, and where to go on after those
        inside (-1: where they end).
    """
    first = data[at]
    at += 1
    if first < 0x80 or first >= 0xE0:
        return 0, at, -1
    if first < 0x90:
        return 2 * (first & 15), at, -1
    if first < 0xA0:
        return first & 15, at, -1
    if first < 0xC0:
        return 0, at + (first & 31), -1
    if first in _SIZED:
        width = _SIZED[first]
        return 0, at + width + _number(data, at, width), -1
    if first in _MANY:
        width, each = _MANY[first]
        return each * _number(data, at, width), at + width, -1
    if first in _EXT_FIXED:
        return _extension(data, at, _EXT_FIXED[first])
    if first in _EXT_SIZED:
        width = _EXT_SIZED[first]
        return _extension(data, at + width, _number(data, at, width))
    return 0, at + _FIXED.get(first, 0), -1


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "big")


def _extension(data: bytes, at: int, length: int) -> tuple[int, int, int]:
    code = data[at] if at < len(data) else 0
    at += 1
    if code in _RAW:
        return 0, at + length, -1
    return 1, at + _BEFORE.get(code, 0), at + length
