"""Checkpoint ids: UUIDs of version 6 that sort by time, and after their parent's when clocks step back.

Pure functions of a moment; whoever calls them brings the time and the random bits. Format: RFC 9562.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

__all__ = ["Moment", "checkpoint_id", "ticks_of", "timestamp"]

EPOCH_TICKS = 0x01B21DD213814000
"""The Unix epoch, counted in 100 ns since 1582-10-15."""


class Moment(NamedTuple):
    """What a run learns from outside when it makes a checkpoint.

    Attributes:
        ticks: Time since 1582-10-15 in units of 100 ns.
        random: 48 random bits.
        version: The version for the channels that change.
    """

    ticks: int
    random: int
    version: Any


def checkpoint_id(ticks: int, step: int, random: int) -> str:
    """Return the id of a checkpoint. The superstep stands in the clock sequence, so `bfff` is step -1."""
    time = f"{ticks:015x}"
    return f"{time[:8]}-{time[8:12]}-6{time[12:]}-{0x8000 | step & 0x3FFF:04x}-{random:012x}"


def ticks_of(identifier: str) -> int:
    """Return the time in a version 6 id, or 0 for any other text."""
    parts = identifier.split("-")
    if [*map(len, parts)] != [8, 4, 4, 4, 12] or parts[2][:1] != "6":
        return 0
    try:
        return int(parts[0] + parts[1] + parts[2][1:], 16)
    except ValueError:
        return 0


def timestamp(ticks: int) -> str:
    """Return a time as ISO 8601 text in UTC, with microseconds."""
    seconds, micros = divmod((ticks - EPOCH_TICKS) // 10, 1_000_000)
    return f"{second_text(seconds)}.{micros:06d}+00:00"


@lru_cache(maxsize=8)
def second_text(seconds: int) -> str:
    """Return a whole second as text. Consecutive supersteps mostly share it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
