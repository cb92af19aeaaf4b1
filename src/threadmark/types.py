"""The types that programs use when they build, run and inspect a graph.

Plain data with no behaviour beyond their own shape, but for `interrupt`, which asks the running task
for an answer. This module knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from typing_extensions import TypedDict

from threadmark._checks import amount, function
from threadmark.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata
from threadmark.config import RunnableConfig, current_scope
from threadmark.errors import InvalidArgumentError

__all__ = [
    "All",
    "CachePolicy",
    "Checkpointer",
    "Command",
    "Durability",
    "GraphOutput",
    "Interrupt",
    "OnConflict",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamPart",
    "StreamWriter",
    "TimeoutPolicy",
    "interrupt",
]

N = TypeVar("N", bound=Hashable)
T = TypeVar("T")

All: TypeAlias = Literal["*"]
Checkpointer: TypeAlias = bool | BaseCheckpointSaver | None
"""A saver; `True`: keep own state across runs of the parent; `False`: keep none; `None`: inherit."""
Durability: TypeAlias = Literal["sync", "async", "exit"]
"""When a superstep is saved: before the next begins, while it runs, or only when the run ends."""
OnConflict: TypeAlias = Literal["raise", "wait"]
"""What a run does when another run works on its thread: lose with an error, or wait its turn."""
StreamMode: TypeAlias = Literal["values", "updates", "checkpoints", "tasks", "debug", "messages", "custom"]
StreamWriter: TypeAlias = Callable[[Any], None]


def default_retry_on(exc: Exception) -> bool:
    """Tell whether an error is worth a retry: not one that the program itself will repeat."""
    if isinstance(exc, ConnectionError):
        return True
    response = getattr(exc, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int):
        return 500 <= status < 600
    programming = (
        ValueError,
        TypeError,
        ArithmeticError,
        ImportError,
        LookupError,
        NameError,
        SyntaxError,
        RuntimeError,
        ReferenceError,
        StopIteration,
        StopAsyncIteration,
        OSError,
    )
    return not isinstance(exc, programming)


class RetryPolicy(NamedTuple):
    """How often and how fast a failed node is tried again.

    Attributes:
        initial_interval: Seconds before the second attempt.
        backoff_factor: What the wait is multiplied with after each attempt.
        max_interval: The longest wait in seconds.
        max_attempts: The number of attempts, the first included.
        jitter: Add up to a second of random wait.
        retry_on: Exception classes, or a function that tells whether an exception is retried.
    """

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    jitter: bool = True
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] = default_retry_on


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeoutPolicy:
    """How long one attempt of a node may take.

    Attributes:
        run_timeout: Seconds from start to end.
        idle_timeout: Seconds without a sign of life (a written chunk or `runtime.heartbeat()`).
    """

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None

    def __post_init__(self) -> None:
        _check_timeout("run_timeout", self.run_timeout)
        _check_timeout("idle_timeout", self.idle_timeout)


def _check_timeout(name: str, value: object) -> None:
    """Refuse what is no time to wait.

    Raises:
        InvalidArgumentError: It is none.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds is not None:
        amount(name, seconds)


def default_cache_key(*args: Any, **kwargs: Any) -> str | bytes:
    """Return a key for a node's input: its encoded form, which is equal for equal plain data."""
    from threadmark.checkpoint.serde.jsonplus import fingerprint

    return fingerprint((args, kwargs))


@dataclass(frozen=True, kw_only=True, slots=True)
class CachePolicy:
    """Reuse a node's result for equal input.

    Attributes:
        key_func: Turns the node's input into a key.
        ttl: Seconds that a result stays valid; `None`: for ever.
    """

    key_func: Callable[..., str | bytes] = default_cache_key
    ttl: int | None = None

    def __post_init__(self) -> None:
        function("key_func", self.key_func)
        amount("ttl", self.ttl, optional=True)


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that paused a run.

    Attributes:
        value: What the node passed to `interrupt`.
        id: Names the question; answer with `Command(resume={id: answer})`.
    """

    value: Any
    id: str = "placeholder-id"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Wraps an update that replaces a reducer's value instead of being reduced into it."""

    value: Any


class Send:
    """Run a node in the next superstep with an input of its own.

    Args:
        node: The node's name.
        arg: Its input, in place of the state.
        timeout: Overrides the node's timeout for this task.
    """

    __slots__ = ("arg", "node", "timeout")

    def __init__(
        self, /, node: str, arg: Any, *, timeout: float | timedelta | TimeoutPolicy | None = None
    ) -> None:
        if timeout is not None and not isinstance(timeout, TimeoutPolicy):
            _check_timeout("timeout", timeout)
        self.node = node
        self.arg = arg
        self.timeout = timeout

    def __hash__(self) -> int:
        return hash((self.node, repr(self.arg)))

    def __repr__(self) -> str:
        return f"Send(node={self.node!r}, arg={self.arg!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Send)
            and self.node == other.node
            and self.arg == other.arg
            and self.timeout == other.timeout
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Command(Generic[N]):
    """What a node returns to update the state and choose what runs next, or what a run is given to
    go on with.

    Attributes:
        graph: `None` for the node's own graph, `Command.PARENT` for the one that holds it.
        update: The state update.
        resume: The answer to a pending interrupt, or a map from interrupt ids to answers.
        goto: A node name, a `Send`, or a sequence of these.
    """

    graph: str | None = None
    update: Any | None = None
    resume: dict[str, Any] | Any | None = None
    goto: Send | Sequence[Send | N] | N = ()

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"

    def __repr__(self) -> str:
        given = [
            f"{f.name}={value!r}"
            for f in fields(self)
            if (value := getattr(self, f.name)) is not None and value != ()
        ]
        return f"Command({', '.join(given)})"


class StateUpdate(NamedTuple):
    """One update of `bulk_update_state`."""

    values: dict[str, Any] | Any | None
    as_node: str | None = None
    task_id: str | None = None


class PregelTask(NamedTuple):
    """A task of a checkpoint's next superstep, as a snapshot shows it.

    Attributes:
        id: The task's id.
        name: The node.
        path: How the task came to be: pulled by a trigger, or pushed by a `Send`.
        error: What it failed with, if it did.
        interrupts: The questions that it asked and that wait for an answer.
        state: The sub-graph's state: its config, or its snapshot with `subgraphs=True`.
        result: What it wrote, once it is finished.
    """

    id: str
    name: str
    path: tuple[Any, ...] = ()
    error: Exception | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    result: Any = None


class StateSnapshot(NamedTuple):
    """The state of a thread at one checkpoint.

    Attributes:
        values: The state.
        next: The nodes that run next; empty when the graph is finished.
        config: Addresses this checkpoint.
        metadata: `source`, `writes`, `step`, and what the run's config added.
        created_at: ISO 8601 time of the checkpoint.
        parent_config: Addresses the checkpoint before this one.
        tasks: The tasks of the next superstep.
        interrupts: All pending questions of those tasks.
    """

    values: dict[str, Any] | Any
    next: tuple[str, ...]
    config: RunnableConfig
    metadata: CheckpointMetadata | None
    created_at: str | None
    parent_config: RunnableConfig | None
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...] = ()


class StreamPart(TypedDict, total=False):
    """A streamed chunk with `version="v2"`: its mode, the namespace it comes from, and the data."""

    type: StreamMode
    ns: tuple[str, ...]
    data: Any
    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class GraphOutput(Generic[T]):
    """What `invoke(version="v2")` returns.

    Attributes:
        value: The graph's output.
        interrupts: The questions that paused the run, empty when it finished.
    """

    value: T
    interrupts: tuple[Interrupt, ...] = field(default=())


def interrupt(value: Any) -> Any:
    """Pause the run with a question, and return the answer once there is one.

    The first time, this raises inside the node and the run pauses. When the run goes on with
    `Command(resume=answer)`, the node runs again from its start and this call returns the answer. A
    node may ask several times; answers are matched by the order of the calls.

    Args:
        value: What to show to the person who decides. It is saved, so it must be serializable.

    Returns:
        The answer.

    Raises:
        GraphInterrupt: Caught by the engine. Do not swallow it.
        InvalidArgumentError: Called outside a node.
    """
    scope = current_scope()
    if scope is None:
        raise InvalidArgumentError("interrupt() can only be called inside a node of a running graph.")
    return scope.ask(value)
