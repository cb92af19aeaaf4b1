"""Durable graphs: every superstep saved, and any of them resumed, replayed, forked or edited.

The names that most programs need, fetched from their modules when they are first used, so that importing
the package itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadmark.checkpoint.memory import InMemorySaver
    from threadmark.checkpoint.sqlite import SqliteSaver
    from threadmark.config import get_stream_writer
    from threadmark.constants import END, START
    from threadmark.errors import ThreadmarkError
    from threadmark.func import entrypoint, task
    from threadmark.graph.message import MessagesState, add_messages
    from threadmark.graph.state import StateGraph
    from threadmark.runtime import Runtime
    from threadmark.store.memory import InMemoryStore
    from threadmark.store.sqlite import SqliteStore
    from threadmark.types import CachePolicy, Command, Overwrite, RetryPolicy, Send, interrupt

__all__ = [
    "END",
    "START",
    "CachePolicy",
    "Command",
    "InMemorySaver",
    "InMemoryStore",
    "MessagesState",
    "Overwrite",
    "RetryPolicy",
    "Runtime",
    "Send",
    "SqliteSaver",
    "SqliteStore",
    "StateGraph",
    "ThreadmarkError",
    "add_messages",
    "entrypoint",
    "get_stream_writer",
    "interrupt",
    "task",
]

_HOMES = {
    "checkpoint.memory": ("InMemorySaver",),
    "checkpoint.sqlite": ("SqliteSaver",),
    "config": ("get_stream_writer",),
    "constants": ("END", "START"),
    "errors": ("ThreadmarkError",),
    "func": ("entrypoint", "task"),
    "graph.message": ("MessagesState", "add_messages"),
    "graph.state": ("StateGraph",),
    "runtime": ("Runtime",),
    "store.memory": ("InMemoryStore",),
    "store.sqlite": ("SqliteStore",),
    "types": ("CachePolicy", "Command", "Overwrite", "RetryPolicy", "Send", "interrupt"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Fetch a name from its module and keep it here."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
