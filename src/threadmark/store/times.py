"""Moments as whole microseconds since 1970, which is how all backends keep them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["as_datetime", "as_moment"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_moment(seconds: float) -> int:
    """Return a time in seconds since 1970 as a moment."""
    return int(seconds * 1_000_000)


def as_datetime(moment: int) -> datetime:
    """Return a moment as a time in UTC."""
    return _EPOCH + timedelta(0, 0, moment)
