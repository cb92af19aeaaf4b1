"""What a channel is: one key of the state, and the rule by which writes change it.

A channel holds a value or `MISSING`. It is restored from what a checkpoint saved, updated with all
writes of a superstep at once, and tells whether that changed it. A channel knows nothing of graphs,
tasks or storage; for lists it keeps a note of what stayed the same, so that storage need not compare.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from threadmark.checkpoint.base import Kept
from threadmark.errors import EmptyChannelError

__all__ = ["MISSING", "SAME", "BaseChannel"]

Value = TypeVar("Value")


class _Missing:
    """The type of `MISSING`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final[Any] = _Missing()
"""What an empty channel holds."""

SAME: Final[Kept] = ()
"""The note of a channel that did not change since it was saved."""


class BaseChannel(ABC, Generic[Value]):
    """One key of the state.

    Attributes:
        key: The channel's name, set when the graph is compiled.
        typ: The declared type of the value.
        value: The current value, or `MISSING`.
        kept: For a list: how it was made from the one that was saved last. `SAME`: unchanged;
            `None`: not known.
    """

    __slots__ = ("kept", "key", "typ", "value")

    forgets: ClassVar[bool] = False
    """Whether the channel must also hear of supersteps that write nothing to it."""

    saved: ClassVar[bool] = True
    """Whether the channel's value is stored."""

    _slots: ClassVar[tuple[str, ...]] = __slots__

    def __init_subclass__(cls) -> None:
        cls._slots = tuple(name for c in cls.__mro__ for name in c.__dict__.get("__slots__", ()))

    def __init__(self, typ: Any, key: str = "") -> None:
        self.typ = typ
        self.key = key
        self.value: Any = MISSING
        self.kept: Kept | None = SAME

    def clone(self) -> Self:
        """Return an empty channel of the same kind and options."""
        return self.from_checkpoint(MISSING)

    def checkpoint(self) -> Any:
        """Return what must be saved, or `MISSING`."""
        return self.value

    def from_checkpoint(self, saved: Any) -> Self:
        """Return a channel like this one that holds what `checkpoint` returned (or `MISSING`)."""
        new = object.__new__(type(self))
        for name in self._slots:
            setattr(new, name, getattr(self, name))
        new.kept = SAME
        new.restore(saved)
        return new

    def restore(self, saved: Any) -> None:
        """Take over what `checkpoint` returned. `MISSING` leaves the channel as a new one."""
        self.value = saved

    def copy(self) -> Self:
        """Return a channel with the same value."""
        return self.from_checkpoint(self.checkpoint())

    def get(self) -> Value:
        """Return the value.

        Raises:
            EmptyChannelError: The channel holds none.
        """
        if self.value is MISSING:
            raise EmptyChannelError(f"Nothing was written to channel {self.key!r} yet.")
        return self.value  # type: ignore[no-any-return]

    def is_available(self) -> bool:
        """Tell whether the channel holds a value."""
        return self.value is not MISSING

    @abstractmethod
    def update(self, values: Sequence[Any]) -> bool:
        """Apply the writes of one superstep, and tell whether the channel changed.

        Raises:
            InvalidUpdateError: The writes cannot be applied together.
        """

    def consume(self) -> bool:
        """Hear that a task that this channel triggered has run; tell whether that changed it."""
        return False

    def finish(self) -> bool:
        """Hear that the run has nothing left to do; tell whether that changed the channel."""
        return False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return id(self)
