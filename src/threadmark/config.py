"""What a run is told from outside (`RunnableConfig`), and how code inside a node finds it again.

The running task travels in a context variable, so that `get_config`, `get_store` and
`get_stream_writer` work anywhere below a node, in threads and coroutines alike. This module knows no
graph and no saver; it knows the running task only as a `Scope`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import TypedDict

from threadmark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from threadmark.runtime import Runtime
    from threadmark.store.base import BaseStore

__all__ = ["RunnableConfig", "get_config", "get_store", "get_stream_writer"]


class RunnableConfig(TypedDict, total=False):
    """Options of one run. Any plain dict with these keys will do.

    Keys:
        configurable: Addresses (`thread_id`, `checkpoint_ns`, `checkpoint_id`, `branch`) and whatever
            the user's nodes want to find there.
        metadata: Saved with every checkpoint of the run.
        tags: Passed on to nodes and callbacks.
        callbacks: LangChain callbacks, passed on to nodes that are LangChain runnables.
        recursion_limit: The largest number of supersteps.
        max_concurrency: The largest number of tasks at once.
        run_name: A name for the run.
        run_id: An id for the run; saved in the metadata.
    """

    configurable: dict[str, Any]
    metadata: dict[str, Any]
    tags: list[str]
    callbacks: Any
    recursion_limit: int
    max_concurrency: int | None
    run_name: str
    run_id: Any


class Scope(Protocol):
    """The running task, as code inside a node sees it."""

    @property
    def config(self) -> RunnableConfig:
        """The config of this task."""
        ...

    @property
    def runtime(self) -> Runtime[Any]:
        """The runtime of this task."""
        ...

    def ask(self, value: Any) -> Any:
        """Return the answer to the task's next question, or pause the run."""
        ...

    def push_message(self, message: Any, state_key: str | None) -> None:
        """Show a message in `stream_mode="messages"`, and add it to that key of the state."""
        ...


_scope: ContextVar[Scope | None] = ContextVar("threadmark_scope", default=None)

current_scope: Callable[[], Scope | None] = _scope.get


def enclosing_scope(what: str) -> Scope:
    """Return the running task.

    Raises:
        InvalidArgumentError: `what` was called outside a node.
    """
    scope = _scope.get()
    if scope is None:
        raise InvalidArgumentError(f"{what} can only be called inside a node of a running graph.")
    return scope


def get_config() -> RunnableConfig:
    """Return the config of the running node.

    Raises:
        InvalidArgumentError: Called outside a node.
    """
    return enclosing_scope("get_config()").config


def get_store() -> BaseStore:
    """Return the store that the graph was compiled with.

    Raises:
        InvalidArgumentError: Called outside a node, or the graph has no store.
    """
    store = enclosing_scope("get_store()").runtime.store
    if store is None:
        raise InvalidArgumentError("This graph has no store. Pass one: compile(store=...).")
    return store


def get_stream_writer() -> Callable[[Any], None]:
    """Return the function that sends a value to `stream_mode="custom"`.

    Raises:
        InvalidArgumentError: Called outside a node.
    """
    return enclosing_scope("get_stream_writer()").runtime.stream_writer
