"""The channel of a key with a reducer: each write is folded into the value."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Sequence
from typing import Any

from threadmark.channels.base import MISSING, SAME, BaseChannel, Value
from threadmark.channels.kept import changes_of, compose
from threadmark.errors import InvalidUpdateError
from threadmark.types import Overwrite

__all__ = ["BinaryOperatorAggregate"]

OVERWRITE = "__overwrite__"
"""The key of the plain dict `{"__overwrite__": value}`, which means the same as `Overwrite(value)`."""

CONCRETE = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


def initial(typ: Any) -> Callable[[], Any] | None:
    """Return a function that makes the value a reducer starts from, or `None` if the type has none."""
    typ = getattr(typ, "__origin__", None) or typ
    typ = CONCRETE.get(typ, typ)
    try:
        typ()
    except Exception:  # noqa: BLE001 - the type is the user's; any failure means "no default value"
        return None
    return typ  # type: ignore[no-any-return]


def overwritten(write: Any) -> tuple[bool, Any]:
    """Tell whether a write replaces the value, and with what."""
    if isinstance(write, Overwrite):
        return True, write.value
    if type(write) is dict and len(write) == 1 and OVERWRITE in write:
        return True, write[OVERWRITE]
    return False, None


class BinaryOperatorAggregate(BaseChannel[Value]):
    """Folds each write into the value with a function of (old, new).

    Args:
        typ: The declared type; if it can be called without arguments, that is the first value.
        operator: The reducer.
    """

    __slots__ = ("changes", "factory", "operator")

    def __init__(self, typ: Any, operator: Callable[[Any, Any], Any], key: str = "") -> None:
        super().__init__(typ, key)
        self.operator = operator
        self.changes = changes_of(operator)
        self.factory = initial(typ)
        self.restore(MISSING)

    def restore(self, saved: Any) -> None:
        self.value = self.factory() if saved is MISSING and self.factory is not None else saved

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        replaced = False
        for write in values:
            overwrites, value = overwritten(write)
            if overwrites:
                if replaced:
                    raise InvalidUpdateError(
                        f"Several Overwrite values for {self.key!r} in one superstep; it can take one."
                    )
                replaced = True
                self.value, self.kept = value, None
            elif not replaced:
                self.fold(write)
        return True

    def fold(self, write: Any) -> None:
        """Reduce one write into the value."""
        old = self.value
        if old is MISSING:
            self.value, self.kept = write, None
            return
        self.value = new = self.operator(old, write)
        if self.kept is None or self.changes is None:
            self.kept = None
            return
        note = self.changes(old, write, new)
        self.kept = note if note is None or self.kept is SAME else compose(self.kept, note)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinaryOperatorAggregate) and self.operator == other.operator

    def __hash__(self) -> int:
        return id(self)
