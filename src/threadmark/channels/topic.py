"""The channel that collects all writes of a superstep into a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from threadmark.channels.base import MISSING, BaseChannel, Value
from threadmark.errors import StorageCorruptError

__all__ = ["Topic"]


def flatten(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the values, and the items of those that are lists."""
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


class Topic(BaseChannel[Value]):
    """Collects the writes of a superstep.

    Args:
        typ: The declared type of one item.
        accumulate: Keep the items of earlier supersteps.
    """

    __slots__ = ("accumulate",)
    forgets = True

    def __init__(self, typ: Any, accumulate: bool = False, key: str = "") -> None:
        super().__init__(typ, key)
        self.accumulate = accumulate

    def restore(self, saved: Any) -> None:
        # A topic that was saved as a pair (from other writers) has its items in second place.
        if isinstance(saved, tuple):
            saved = saved[-1] if saved else []
        if saved is not MISSING and not isinstance(saved, list):
            raise StorageCorruptError(
                f"The topic {self.key!r} was saved as {type(saved).__name__}, not as a list. Restore a "
                f"backup.",
                channel=self.key,
            )
        self.value = saved[:] if saved is not MISSING and saved else MISSING

    def update(self, values: Sequence[Any]) -> bool:
        before = self.value
        items = list(before) if self.accumulate and before is not MISSING else []
        items.extend(flatten(values))
        self.value = items or MISSING
        self.kept = None
        return bool(values) or (before is not MISSING and not self.accumulate)
