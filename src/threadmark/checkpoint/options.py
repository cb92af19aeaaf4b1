"""The options that our own savers have in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from threadmark._checks import duration, flag, one_of, whole
from threadmark.checkpoint.rows import MAX_VALUE_BYTES, RowCodec
from threadmark.checkpoint.serde.base import SerializerProtocol

__all__ = ["History", "SaverOptions"]

History = Literal["all", "latest"]


def _clock() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class SaverOptions:
    """How checkpoints are kept.

    Attributes:
        max_value_bytes: The largest encoded value that is taken.
        compress: Whether values are compressed with zstd where it helps.
        history: `"latest"` keeps the tip of each branch and nothing before it.
        ttl: How long a new thread lives; `None` for ever.
        refresh_ttl: Whether every commit begins that time anew.
        now: The clock, in milliseconds since 1970.
    """

    max_value_bytes: int = MAX_VALUE_BYTES
    compress: bool = False
    history: History = "all"
    ttl: timedelta | None = None
    refresh_ttl: bool = True
    now: Callable[[], int] = _clock

    def __post_init__(self) -> None:
        whole("max_value_bytes", self.max_value_bytes, 1)
        flag("compress", self.compress)
        one_of("history", self.history, ("all", "latest"))
        duration("ttl", self.ttl, optional=True)
        flag("refresh_ttl", self.refresh_ttl)

    @property
    def ttl_ms(self) -> int | None:
        """How long a new thread lives, in milliseconds."""
        return None if self.ttl is None else max(round(self.ttl.total_seconds() * 1000), 1)

    def codec(self, serde: SerializerProtocol) -> RowCodec:
        """Return how rows are encoded with a serializer."""
        return RowCodec(serde, self.max_value_bytes, self.compress)
