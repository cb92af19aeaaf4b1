"""Channels that hold the last value written: for one writer, for several, for the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadmark.channels.base import MISSING, BaseChannel, Value
from threadmark.errors import InvalidUpdateError

__all__ = ["AnyValue", "LastValue", "LastValueAfterFinish"]


def only(key: str, values: Sequence[Any]) -> Any:
    """Return the one value written in a superstep.

    Raises:
        InvalidUpdateError: There are several.
    """
    if len(values) != 1:
        raise InvalidUpdateError(
            f"{len(values)} writes to {key!r} in one superstep, which can take one. Give the key a reducer: "
            f"Annotated[<type>, <function of (old, new)>]."
        )
    return values[0]


class LastValue(BaseChannel[Value]):
    """Holds the last value; takes one write in a superstep."""

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        self.value = values[0] if len(values) == 1 else only(self.key, values)
        self.kept = None
        return True


class AnyValue(BaseChannel[Value]):
    """Holds the last of the values written in a superstep, assuming that they are equal."""

    __slots__ = ()
    forgets = True

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            changed = self.value is not MISSING
            self.value = MISSING
            return changed
        self.value = values[-1]
        self.kept = None
        return True


class LastValueAfterFinish(BaseChannel[Value]):
    """Holds the last value, but shows it only once the run has nothing else left to do."""

    __slots__ = ("finished", "pending")

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.finished = False
        self.pending: Any = MISSING

    def checkpoint(self) -> Any:
        return MISSING if self.pending is MISSING else (self.pending, self.finished)

    def restore(self, saved: Any) -> None:
        # Saved before the graph deferred this node, a value stands alone: the node's turn has come.
        alone = type(saved) is not tuple
        self.pending, self.finished = (saved, saved is not MISSING) if alone else saved
        self.value = self.pending if self.finished else MISSING

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        self.restore((values[-1], False))
        return True

    def consume(self) -> bool:
        changed = self.finished
        if changed:
            self.restore(MISSING)
        return changed

    def finish(self) -> bool:
        changed = self.pending is not MISSING and not self.finished
        if changed:
            self.restore((self.pending, True))
        return changed
