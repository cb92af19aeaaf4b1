"""The engine: a compiled graph as a `Plan`, a run as a state machine, and two drivers for it."""

from threadmark.pregel.main import Pregel

__all__ = ["Pregel"]
