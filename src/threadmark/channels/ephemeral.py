"""Channels whose value is gone after the next superstep, or is never saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadmark.channels.base import MISSING, BaseChannel, Value
from threadmark.channels.last_value import only

__all__ = ["EphemeralValue", "UntrackedValue"]


class EphemeralValue(BaseChannel[Value]):
    """Holds a value for one superstep.

    Args:
        typ: The declared type.
        guard: Refuse several writes in one superstep; without it the last one counts.
    """

    __slots__ = ("guard",)
    forgets = True

    def __init__(self, typ: Any, guard: bool = True, key: str = "") -> None:
        super().__init__(typ, key)
        self.guard = guard

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            changed = self.value is not MISSING
            self.value = MISSING
            return changed
        self.value = only(self.key, values) if self.guard else values[-1]
        return True


class UntrackedValue(BaseChannel[Value]):
    """Holds the last value during a run and is never saved.

    Args:
        typ: The declared type.
        guard: Refuse several writes in one superstep; without it the last one counts.
    """

    __slots__ = ("guard",)
    saved = False

    def __init__(self, typ: Any, guard: bool = True, key: str = "") -> None:
        super().__init__(typ, key)
        self.guard = guard

    def checkpoint(self) -> Any:
        return MISSING

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        self.value = only(self.key, values) if self.guard else values[-1]
        return True
