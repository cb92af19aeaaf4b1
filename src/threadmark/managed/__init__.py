"""Values that a node can read from the state and that are computed, not stored.

Use them as annotations of state keys: `remaining: RemainingSteps`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated

__all__ = ["IsLastStep", "ManagedValue", "RemainingSteps"]


class ManagedValue(ABC):
    """The base of computed values. Subclasses say how the value follows from the superstep."""

    @staticmethod
    @abstractmethod
    def get(step: int, stop: int) -> object:
        """Return the value in superstep `step` of a run that must end before `stop`."""


class IsLastStepManager(ManagedValue):
    """Whether no further superstep is allowed."""

    @staticmethod
    def get(step: int, stop: int) -> bool:
        """Return whether this superstep is the last that the recursion limit allows."""
        return step == stop - 1


class RemainingStepsManager(ManagedValue):
    """How many supersteps the recursion limit still allows."""

    @staticmethod
    def get(step: int, stop: int) -> int:
        """Return the number of supersteps that are left, this one included."""
        return stop - step


IsLastStep = Annotated[bool, IsLastStepManager]
RemainingSteps = Annotated[int, RemainingStepsManager]
