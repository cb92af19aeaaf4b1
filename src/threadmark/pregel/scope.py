"""What surrounds a running task: its run (`Session`), and the task as user code sees it (`TaskScope`).

The scope travels in a context variable. It makes configs and runtimes only when somebody asks for them, so a
node that wants neither pays for neither.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from threadmark._checks import shown
from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.config import RunnableConfig, _scope
from threadmark.constants import PREVIOUS
from threadmark.errors import GraphInterrupt, InvalidArgumentError
from threadmark.pregel.plan import Write
from threadmark.pregel.rules import Task
from threadmark.pregel.stream import Chunk
from threadmark.runtime import ExecutionInfo, Runtime, _no_heartbeat, _no_writer
from threadmark.types import Durability, Interrupt

if TYPE_CHECKING:
    from threadmark.cache.base import BaseCache
    from threadmark.checkpoint.leases import Lease
    from threadmark.store.base import BaseStore

__all__ = ["Session", "TaskScope", "thread_of"]


@dataclass(slots=True)
class Session:
    """One run's surroundings: everything that is not decided by the state machine.

    Attributes:
        config: The user's config, complete with the run's address.
        thread_id: The thread, `None` without a saver.
        ns: The namespace that the run saves to.
        saver: Where it saves.
        store: The store for nodes.
        cache: Where results of nodes are kept.
        context: What the caller passed as `context`.
        durability: When supersteps are saved.
        own_modes: The stream modes of the run's own caller.
        outer_modes: The stream modes of a root caller that listens to sub-graphs.
        send: Takes a chunk to the run's own caller; `None` as long as it does not listen.
        upward: Takes a chunk to the caller of the outermost graph, if that listens to sub-graphs.
        max_concurrency: The largest number of tasks at once.
        handlers: LangChain callback handlers of the run, for `messages`.
        committer: What saves; sub-runs wait for it and may hand it their commits.
        parent: The task of another graph that this run belongs to.
        run: The state machine.
        replays: For sub-graph namespaces of a fork: the namespace and checkpoint of the past to copy.
        lease: What the run holds on its thread while it works, if it had to wait for its turn.
        calls: The tasks that nodes of the run call.
        runner: The driver's part that runs them.
        stopping: The run is to stop because a task has failed.
    """

    config: RunnableConfig
    thread_id: str | None = None
    ns: str = ""
    saver: BaseCheckpointSaver | None = None
    store: BaseStore | None = None
    cache: BaseCache[Any] | None = None
    context: Any = None
    durability: Durability = "async"
    own_modes: frozenset[str] = frozenset()
    outer_modes: frozenset[str] = frozenset()
    send: Callable[[Chunk], None] | None = None
    upward: Callable[[Chunk], None] | None = None
    max_concurrency: int | None = None
    handlers: tuple[Any, ...] = ()
    committer: Any = None
    parent: TaskScope | None = None
    run: Any = None
    replays: dict[str, tuple[str, str]] = field(default_factory=dict)
    lease: Lease | None = None
    calls: Any = None
    runner: Any = None
    stopping: bool = False

    @property
    def answers_elsewhere(self) -> bool:
        """Whether a graph around this run saves, so that somebody may try to answer a question of this."""
        around = self.parent.session if self.parent is not None else None
        return around is not None and (around.saver is not None or around.answers_elsewhere)

    @property
    def listens_inside(self) -> bool:
        """Whether somebody wants to hear from inside of tasks while they run."""
        if self.outer_modes or self.own_modes & {"custom", "messages"}:
            return True
        return bool(self.run.plan.calls and self.own_modes & {"updates", "tasks", "debug"})

    def listen(self, send: Callable[[Chunk], None]) -> None:
        """Let chunks from inside of tasks go to the run's own caller."""
        self.send = send

    def emit(self, chunk: Chunk) -> None:
        """Send a chunk from inside of a task to all who listen, from any thread."""
        if self.upward is not None and chunk.mode in self.outer_modes:
            self.upward(chunk)
        if self.send is not None and chunk.mode in self.own_modes:
            self.send(chunk)

    def tell(self, chunk: Chunk) -> bool:
        """Send a chunk from inside of a task at once, if it can reach all who listen; tell whether it did."""
        if self.send is None and (self.upward is None or chunk.mode in self.own_modes):
            return False
        self.emit(chunk)
        return True


class TaskScope:
    """A running task, as user code sees it.

    Args:
        session: The run.
        task: The task.

    Attributes:
        asked: How many questions this attempt has asked.
        calls: How many sub-graph runs this attempt has begun in the task's namespace.
        attempt: 1 for the first attempt.
        error: What the node failed with, for its error handler.
        beat: Called by `runtime.heartbeat()`.
        pushed: Writes that the code made ahead of its output.
        called: The tasks that this attempt has called, in order.
        over: The attempt has ended; what is left of its code must not call tasks any more.
        outer: The task that calls this one.
        depth: How many tasks deep this one was called; 0 for a node.
        stopping: It is to stop because another task has failed.
        repeats: A task around this one may be tried again, and then asks for results of this one again.
    """

    # Most tasks change none of these, so that an instance need not hold them.
    asked = 0
    calls = 0
    attempt = 1
    error: Any = None
    beat: Callable[[], None] = staticmethod(_no_heartbeat)
    over = False
    outer: TaskScope | None = None
    depth = 0
    repeats = False
    stopping = False
    _config: RunnableConfig | None = None
    _runtime: Runtime[Any] | None = None

    def __init__(self, session: Session, task: Task) -> None:
        self.session = session
        self.task = task
        self.pushed: list[Write] = []
        self.called: list[Any] = []

    def restart(self, attempt: int) -> None:
        """Forget what the last attempt did."""
        self.asked = 0
        self.calls = 0
        # New lists: an attempt that was given up on may still hold the old ones.
        self.pushed = []
        self.called = []
        self.over = False
        self.attempt = attempt
        self._runtime = None

    def is_stopping(self) -> bool:
        """Tell whether this task, or one around it, is to stop because another one has failed. Code that has
        begun and cannot be stopped is then let come to its end, so that what it did is not done again.
        """
        around = self.outer or self.session.parent
        return self.stopping or self.session.stopping or (around is not None and around.is_stopping())

    @property
    def config(self) -> RunnableConfig:
        """The config of this task."""
        if self._config is None:
            self._config = self.make_config()
        return self._config

    def make_config(self) -> RunnableConfig:
        """Return the user's config with the address of this run and facts about this task."""
        session, task = self.session, self.task
        config = session.config.copy()
        run = session.run
        configurable = dict(config.get("configurable") or {})
        configurable["checkpoint_ns"] = session.ns
        configurable["checkpoint_id"] = run.checkpoint["id"] or None
        configurable["checkpoint_map"] = {**run.spec.parents, session.ns: run.checkpoint["id"]}
        if session.thread_id is not None:
            configurable["thread_id"] = session.thread_id
        config["configurable"] = configurable
        config["metadata"] = self.facts()
        tags = [*(config.get("tags") or []), *task.node.tags]
        if tags:
            config["tags"] = tags
        if session.handlers:
            config["callbacks"] = with_handlers(config.get("callbacks"), session.handlers)
        return config

    def facts(self) -> dict[str, Any]:
        """Return what the metadata of callbacks and message chunks says: that of the run's config, the
        thread, that of the node, and where this task stands.
        """
        task, config = self.task, self.session.config
        thread_id = self.session.thread_id or thread_of(config)
        return {
            **({"thread_id": thread_id} if thread_id is not None else {}),
            **(config.get("metadata") or {}),
            **task.node.metadata,
            "langgraph_step": self.session.run.step,
            "langgraph_node": task.name,
            "langgraph_triggers": task.triggers,
            "langgraph_path": task.path,
            "langgraph_checkpoint_ns": task.namespace,
        }

    @property
    def runtime(self) -> Runtime[Any]:
        """The runtime of this task."""
        if self._runtime is None:
            session = self.session
            previous = session.run.channels.get(PREVIOUS)
            self._runtime = Runtime(
                context=session.context,
                store=session.store,
                stream_writer=self.write_custom if self.hears_custom() else _no_writer,
                heartbeat=self.beat,
                previous=previous.value if previous is not None and previous.is_available() else None,
                execution_info=self.execution_info(),
            )
        return self._runtime

    def execution_info(self) -> ExecutionInfo:
        """Return which task this is."""
        run_id = self.session.config.get("run_id")
        return ExecutionInfo(
            checkpoint_id=self.session.run.checkpoint["id"],
            checkpoint_ns=self.task.namespace,
            task_id=self.task.id,
            thread_id=self.session.thread_id,
            run_id=str(run_id) if run_id else None,
            node_attempt=self.attempt,
        )

    def hears_custom(self) -> bool:
        """Tell whether somebody listens to custom chunks of this run."""
        return "custom" in self.session.own_modes or "custom" in self.session.outer_modes

    def write_custom(self, data: Any) -> None:
        """Send a chunk to `stream_mode="custom"`."""
        self.beat()
        self.session.emit(Chunk(self.session.ns, "custom", data))

    def push_message(self, message: Any, state_key: str | None) -> None:
        """Show a message in `stream_mode="messages"`, and add it to a key of the state."""
        for handler in self.session.handlers:
            handler.tell(message, self.facts())
        if state_key is not None:
            self.pushed.append((state_key, message))

    def ask(self, value: Any) -> Any:
        """Return the answer to this task's next question, or pause the run."""
        index = self.asked
        self.asked += 1
        if index < len(self.task.answers):
            return self.task.answers[index]
        if self.session.saver is None and self.session.answers_elsewhere:
            raise InvalidArgumentError(
                f"Node {self.task.name!r} asks a question in a sub-graph with checkpointer=False, which no "
                f"answer would ever reach. Compile the sub-graph without that, to use its parent's saver."
            )
        raise GraphInterrupt([Interrupt(value=value, id=self.task.question_id(index))])

    def child_namespace(self, *, lasting: bool) -> str:
        """Return the namespace for a sub-graph run of this task.

        Args:
            lasting: The sub-graph keeps its state from one parent superstep to the next, so its namespace
                names no task.
        """
        own = self.task.namespace
        if lasting:
            return "|".join(part.partition(":")[0] for part in own.split("|"))
        count = self.calls
        self.calls = count + 1
        return f"{own}|{count}" if count else own

    def twin(self) -> TaskScope:
        """Return a scope for code that may be given up on: it can be told that it is over on its own."""
        return copy(self)

    def enter(self) -> Callable[[], None]:
        """Make this the scope of the code that follows, and return the function that undoes it."""
        token = _scope.set(self)
        if not (self.session.handlers or self.session.config.get("callbacks")):
            return lambda: _scope.reset(token)
        leave_langchain = enter_langchain(self)

        def leave() -> None:
            leave_langchain()
            _scope.reset(token)

        return leave


def with_handlers(callbacks: Any, handlers: tuple[Any, ...]) -> Any:
    """Return callbacks (a list, a LangChain manager, or nothing) with more handlers."""
    if callbacks is None:
        return list(handlers)
    present = callbacks if isinstance(callbacks, list) else callbacks.handlers
    new = [handler for handler in handlers if not any(handler is known for known in present)]
    if isinstance(callbacks, list):
        return [*callbacks, *new]
    manager = callbacks.copy()
    for handler in new:
        manager.add_handler(handler, inherit=True)
    return manager


def enter_langchain(scope: TaskScope) -> Callable[[], None]:
    """Let LangChain runnables that are called without a config find this task's callbacks.

    Only if the program itself uses LangChain. Returns the function that undoes it.
    """
    runnables: Any = sys.modules.get("langchain_core.runnables.config")
    if runnables is None:
        return lambda: None
    variable = runnables.var_child_runnable_config
    token = variable.set(scope.config)
    return lambda: variable.reset(token)


def thread_of(config: Mapping[str, Any]) -> str | None:
    """Return the thread that a config names.

    Raises:
        InvalidArgumentError: It is not a text or a number, or empty.
    """
    thread_id = (config.get("configurable") or {}).get("thread_id")
    if thread_id is None:
        return None
    if isinstance(thread_id, bool) or not isinstance(thread_id, str | int) or thread_id == "":
        if type(thread_id).__name__ == "UUID":
            return str(thread_id)
        raise InvalidArgumentError(f"thread_id must be a non-empty text, not {shown(thread_id)}.")
    return str(thread_id)
