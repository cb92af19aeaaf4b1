"""One library under test, by the names that its users import. Names are found when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

PLACES = {
    "graph": "StateGraph START END MessagesState",
    "graph.message": "push_message REMOVE_ALL_MESSAGES",
    "types": "Command Send interrupt RetryPolicy CachePolicy Overwrite StateUpdate StreamWriter",
    "checkpoint.memory": "InMemorySaver",
    "checkpoint.sqlite": "SqliteSaver",
    "checkpoint.sqlite.aio": "AsyncSqliteSaver",
    "store.memory": "InMemoryStore",
    "store.base": "BaseStore",
    "cache.memory": "InMemoryCache",
    "runtime": "Runtime get_runtime",
    "config": "get_config get_store get_stream_writer",
    "func": "entrypoint task",
    "errors": "NodeError",
    "managed": "IsLastStep RemainingSteps",
}
MODULES = {name: module for module, names in PLACES.items() for name in names.split()}


class Library:
    """`langgraph` or `threadmark`: `library.StateGraph` is the class of that library."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __getattr__(self, name: str) -> Any:
        if name not in MODULES:
            raise AttributeError(name)
        return getattr(importlib.import_module(f"{self.root}.{MODULES[name]}"), name)
