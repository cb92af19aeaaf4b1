"""A channel whose reducer takes all writes of a superstep at once.

Storage keeps only what changed for every list channel, so this kind needs no storage of its own: it is
here for programs that name it, and for reducers that are faster over a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from threadmark.channels.base import MISSING, BaseChannel, Value
from threadmark.channels.binop import initial, overwritten
from threadmark.errors import InvalidArgumentError, InvalidUpdateError

__all__ = ["DeltaChannel"]


class DeltaChannel(BaseChannel[Value]):
    """Folds the writes of a superstep into the value with a function of (old, [writes]).

    Args:
        reducer: The function.
        typ: The type of the value; inside `Annotated[T, DeltaChannel(...)]` it is `T`.
        snapshot_frequency: Accepted and not needed: no chain of changes is replayed when reading.

    Raises:
        InvalidArgumentError: `snapshot_frequency` is not a positive number.
    """

    __slots__ = ("factory", "reducer", "snapshot_frequency")

    def __init__(
        self,
        reducer: Callable[[Any, Sequence[Any]], Any],
        typ: Any = None,
        *,
        snapshot_frequency: int = 100,
        key: str = "",
    ) -> None:
        if snapshot_frequency < 1:
            raise InvalidArgumentError("snapshot_frequency must be at least 1.")
        super().__init__(typ, key)
        self.reducer = reducer
        self.snapshot_frequency = snapshot_frequency
        self.of_type(typ)

    def of_type(self, typ: Any) -> None:
        """Set the type of the value, and with it the value to start from."""
        self.typ = typ
        self.factory = initial(typ) if typ is not None else list
        self.restore(MISSING)

    def restore(self, saved: Any) -> None:
        self.value = self.factory() if saved is MISSING and self.factory is not None else saved

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        writes: list[Any] = []
        replaced = False
        for write in values:
            overwrites, value = overwritten(write)
            if overwrites and replaced:
                raise InvalidUpdateError(
                    f"Several Overwrite values for {self.key!r} in one superstep; it can take one."
                )
            if overwrites:
                replaced, self.value = True, value
            elif not replaced:
                writes.append(write)
        if not replaced:
            self.value = self.reducer(self.value, writes)
        self.kept = None
        return True
