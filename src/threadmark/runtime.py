"""What a node is handed beside the state: the run's context, the store, a writer for custom chunks.

A node asks for it with a parameter annotated `Runtime[...]` (or named `runtime`). This module knows no
engine; a runtime is plain data with a few functions in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from threadmark.config import enclosing_scope

if TYPE_CHECKING:
    from threadmark.store.base import BaseStore

__all__ = ["ExecutionInfo", "Runtime", "get_runtime"]

ContextT = TypeVar("ContextT", default=None)


def _no_writer(chunk: Any) -> None:
    """Drop a custom chunk that nobody listens for."""


def _no_heartbeat() -> None:
    """Nobody waits for a sign of life."""


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """Which task this is.

    Attributes:
        checkpoint_id: The checkpoint that the task runs from.
        checkpoint_ns: The namespace that a sub-graph inside this task saves to.
        task_id: The task.
        thread_id: The thread, when there is a saver.
        run_id: The run's id, when the caller gave one.
        node_attempt: 1 for the first attempt.
    """

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime(Generic[ContextT]):
    """The surroundings of a run.

    Attributes:
        context: What the caller passed as `context`, an instance of the graph's `context_schema`.
        store: The store that the graph was compiled with.
        stream_writer: Sends a value to `stream_mode="custom"`.
        heartbeat: Tells an idle timeout that the node is alive.
        previous: What the last run of this thread returned (functional API).
        execution_info: Which task this is; `None` outside a node.
    """

    context: ContextT = None  # type: ignore[assignment]
    store: BaseStore | None = None
    stream_writer: Callable[[Any], None] = _no_writer
    heartbeat: Callable[[], None] = _no_heartbeat
    previous: Any = None
    execution_info: ExecutionInfo | None = None

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """Return a copy with some attributes changed."""
        return replace(self, **changes)


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """Return the runtime of the running node.

    Args:
        context_schema: Only for type checkers: the type of `context`.

    Raises:
        InvalidArgumentError: Called outside a node.
    """
    return enclosing_scope("get_runtime()").runtime
