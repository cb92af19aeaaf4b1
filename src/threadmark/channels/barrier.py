"""The channels of a join: open once every named writer has written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from threadmark.channels.base import MISSING, BaseChannel
from threadmark.errors import InvalidUpdateError

__all__ = ["NamedBarrierValue", "NamedBarrierValueAfterFinish", "arrivals"]


def arrivals(saved: Any) -> Collection[Any]:
    """Return the writers that a join has heard of. A join that waits for the end of the run notes that beside
    them; a graph may have changed from one kind to the other since it was saved.
    """
    return saved[0] if isinstance(saved, tuple) else saved  # type: ignore[no-any-return]


class NamedBarrierValue(BaseChannel[Any]):
    """Available once all of `names` were written; closed again when the join has run.

    Args:
        typ: The declared type.
        names: The names to wait for.
    """

    __slots__ = ("names", "seen")

    def __init__(self, typ: Any, names: set[str], key: str = "") -> None:
        super().__init__(typ, key)
        self.names = names
        self.seen: set[str] = set()

    def checkpoint(self) -> Any:
        return set(self.seen)

    def restore(self, saved: Any) -> None:
        self.seen = set() if saved is MISSING else set(arrivals(saved))
        self.value = None if self.seen == self.names else MISSING

    def update(self, values: Sequence[Any]) -> bool:
        before = len(self.seen)
        for name in values:
            if name not in self.names:
                raise InvalidUpdateError(
                    f"{name!r} is not one of {sorted(self.names)} that the join waits for."
                )
            self.seen.add(name)
        if len(self.seen) == len(self.names):
            self.value = None
        return len(self.seen) > before

    def consume(self) -> bool:
        if self.value is MISSING:
            return False
        self.restore(MISSING)
        return True


class NamedBarrierValueAfterFinish(NamedBarrierValue):
    """Like `NamedBarrierValue`, but opens only once the run has nothing else left to do."""

    __slots__ = ("finished",)

    def __init__(self, typ: Any, names: set[str], key: str = "") -> None:
        self.finished = False
        super().__init__(typ, names, key)

    def checkpoint(self) -> Any:
        return (set(self.seen), self.finished)

    def restore(self, saved: Any) -> None:
        self.seen = set() if saved is MISSING else set(arrivals(saved))
        # Saved before the graph deferred this node, the names stand alone.
        self.finished = saved[1] if isinstance(saved, tuple) else self.seen == self.names
        self.value = None if self.finished else MISSING

    def update(self, values: Sequence[Any]) -> bool:
        changed = super().update(values)
        self.value = None if self.finished else MISSING
        return changed

    def finish(self) -> bool:
        if self.finished or len(self.seen) < len(self.names):
            return False
        self.restore((self.seen, True))
        return True
