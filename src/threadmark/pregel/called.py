"""Tasks that a node's code calls: their identity, their saved results, and what the caller waits for.

A call is named by the task that makes it, by how many calls that one has made before, and by the called
task's name. So a call is found again when its caller runs again: what has finished is handed out from
storage, what has asked is given its answers, and only the rest runs. A result is saved under the current
checkpoint before its caller sees it.

Written once for both drivers: `perform` is a generator of needs like `execute`. Nothing here knows threads
or event loops, nor how tasks are declared.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from threadmark.checkpoint.base import TaskCommit, TaskWrites
from threadmark.config import enclosing_scope
from threadmark.constants import ERROR, INTERRUPT, PUSH, RESUME, RETURN
from threadmark.errors import (
    GraphInterrupt,
    InvalidArgumentError,
    NodeCancelledError,
    SerializationError,
    StorageCorruptError,
)
from threadmark.pregel import stream
from threadmark.pregel.begin import answer_task, carry_answers, pending
from threadmark.pregel.body import Need, execute
from threadmark.pregel.plan import Node, Write
from threadmark.pregel.rules import Task, digest_id, match_write, path_text
from threadmark.pregel.scope import TaskScope
from threadmark.pregel.stream import Chunk
from threadmark.types import StreamMode

if TYPE_CHECKING:
    from threadmark.pregel.run import Run
    from threadmark.pregel.scope import Session

__all__ = ["Called", "Calls", "call", "perform"]

CALL_PATH = 4
"""The length of the path of a call; those of other tasks are shorter."""
Needs: TypeAlias = Generator[Need | TaskCommit, Any, list[Write]]


@dataclass(slots=True, eq=False)
class Called:
    """One call of a task.

    Attributes:
        task: The task.
        scope: What its code sees.
        parent: The task that calls it.
        answered: It was given answers that are not saved yet.
        carried: Its result is that of the same call in the past that this run is a fork of.
        handle: What the caller holds: a future of the driver's kind.
    """

    task: Task
    scope: TaskScope
    parent: TaskScope
    answered: bool = False
    carried: bool = False
    handle: Any = None

    @property
    def settled(self) -> bool:
        """Whether there is nothing to run: the call has finished, or waits for an answer."""
        return (self.task.writes is not None and not self.carried) or self.task.stalled

    def result(self) -> Any:
        """Return what a settled call returned.

        Raises:
            GraphInterrupt: It waits for an answer.
        """
        if self.task.writes is None:
            raise GraphInterrupt(self.task.interrupts)
        for channel, value in self.task.writes:
            if channel == RETURN:
                return value
        raise StorageCorruptError(
            f"The task {self.task.name!r} has finished, and what it returned is gone from storage. Restore a "
            f"backup, or go on from an earlier checkpoint of get_state_history(config)."
        )


def call(node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a task from the code of a running node.

    Returns:
        A future: one to wait for with `result()`, or on an event loop one to await.

    Raises:
        InvalidArgumentError: There is no running node.
        NodeCancelledError: The code that makes the call has been given up on.
    """
    scope = enclosing_scope(f"The task {node.name!r}")
    if not isinstance(scope, TaskScope):
        raise InvalidArgumentError(f"The task {node.name!r} can only be called inside a running graph.")
    session = scope.session
    called = session.calls.begin(scope, node, (args, kwargs))
    return session.runner.call(called)


class Calls:
    """The calls of one run.

    Args:
        session: The run.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lock = threading.Lock()
        self.saved: dict[str, list[Write]] | None = None
        self.recent: dict[str, list[Write]] = {}
        self.step: int | None = None

    @property
    def run(self) -> Run:
        """The state machine."""
        return self.session.run  # type: ignore[no-any-return]

    def begin(self, parent: TaskScope, node: Node, given: Any) -> Called:
        """Make a call known: find out what is saved of it, and show that it begins."""
        with self.lock:
            if parent.over or (parent.task.node.func.sync is None and parent.is_stopping()):
                raise NodeCancelledError(
                    f"{parent.task.name!r} called {node.name!r} too late: it had ended, was cancelled or ran "
                    f"out of time. Call tasks before the code that calls them returns."
                )
            called = self.make(parent, node, given)
            parent.called.append(called)
        self.show_task("task", stream.task_start(called.task))
        parent.pushed.extend(pushed(called.task))
        return called

    def make(self, parent: TaskScope, node: Node, given: Any) -> Called:
        """Return the next call of a task, with what is known of it."""
        index = len(parent.called)
        task = child(parent.task, node, index, given)
        scope = TaskScope(self.session, task)
        scope.outer, scope.depth = parent, parent.depth + 1
        scope.repeats = parent.repeats or bool(parent.task.node.retry)
        self.recall(task, scope.repeats)
        called = Called(task, scope, parent)
        if task.writes is None and parent.task.former is not None:
            self.carry(called, child(parent.task.former, node, index, given))
        elif task.writes is None:
            called.answered = answer_task(task, self.run.spec.answers)
        return called

    def carry(self, called: Called, former: Task) -> None:
        """Let a call of a fork go on where the same call of the past stands: the fork was made to answer a
        question that came up after it.
        """
        task = called.task
        self.recall(former, called.scope.repeats)
        if former.writes is not None:
            task.writes, called.carried = former.writes, True
            return
        task.former = former
        carry_answers(former, task, self.run.spec.answers)
        called.answered = bool(task.answers)

    # What is known

    def recall(self, task: Task, repeats: bool) -> None:
        """Give a task what was saved of it, by an earlier run or by an earlier attempt of this one.

        Args:
            task: The task.
            repeats: It may be asked for again, so what is handed out must not be what is kept.
        """
        if self.saved is None:
            self.saved = by_task(self.run)
        if self.step != self.run.step:
            self.recent, self.step = {}, self.run.step
        known = self.recent.get(task.id) or self.saved.get(task.id, [])
        for channel, value in self.detached(task, known) if repeats else known:
            match_write(task, channel, value)
        if task.writes is not None:
            task.interrupts, task.error = (), None

    def detached(self, task: Task, writes: list[Write]) -> list[Write]:
        """Return writes as they would come back from storage: nothing done to the values later is in them.

        Raises:
            SerializationError: A value cannot be kept.
        """
        if self.session.saver is None:
            return writes
        serde = self.session.saver.serde
        try:
            return [(channel, serde.loads_typed(serde.dumps_typed(value))) for channel, value in writes]
        except SerializationError as error:
            raise error.at(node=task.name)

    def save(self, called: Called, writes: list[Write]) -> Generator[TaskCommit, Any, None]:
        """Save writes of a call under the current checkpoint."""
        task, run = called.task, self.run
        if called.scope.repeats and writes[-1][0] == RETURN:
            self.recent[task.id] = self.detached(task, writes)
        if not run.spec.saves:
            return
        if run.spec.durability == "exit":
            run.names[task.id] = task.name
            run.called.append(TaskWrites(task.id, path_text(task.path), self.detached(task, writes)))
            return
        commit = run.task_commit([TaskWrites(task.id, path_text(task.path), writes)])
        commit.nodes = {task.id: task.name}
        yield commit

    # What is shown

    def show(self, mode: StreamMode, data: Any) -> None:
        """Show something of a call: at once if the run's caller listens to what happens inside of nodes, or
        else when the node has ended.
        """
        if mode not in self.run.modes:
            return
        chunk = Chunk(self.run.spec.ns, mode, data)
        if not self.session.tell(chunk):
            self.run.inside.append(chunk)

    def show_task(self, kind: str, payload: dict[str, Any]) -> None:
        """Show the beginning or the end of a call."""
        self.show("tasks", payload)
        if "debug" in self.run.modes:
            self.show("debug", stream.debug_chunk(self.run.step, kind, payload))

    def show_end(self, task: Task) -> None:
        """Show that a call has ended."""
        if task.error is None:
            self.show("updates", stream.update_chunk(task, RETURN))
        if not task.cached:
            self.show_task("task_result", stream.task_end(RETURN, task))


def by_task(run: Run) -> dict[str, list[Write]]:
    """Return the writes that are saved under the checkpoint that a run began with, by task."""
    found: dict[str, list[Write]] = {}
    for task_id, channel, value in pending(run):
        found.setdefault(task_id, []).append((channel, value))
    return found


def child(parent: Task, node: Node, index: int, given: Any) -> Task:
    """Return the task of a call.

    Args:
        parent: The task that makes it.
        node: What is called.
        index: How many calls the parent has made before.
        given: The arguments.
    """
    # The path of a call inside a call names its caller by its id, so that paths stay short.
    place = parent.id if len(parent.path) == CALL_PATH else parent.path
    task = Task(node, (PUSH, place, index, True), (PUSH,), parent.seed, given)
    task._id = digest_id(parent.id, index, node.name)
    return task


def pushed(task: Task) -> list[Write]:
    """Return the writes that a finished call made to the state, which its caller takes over."""
    return [write for write in task.writes or () if write[0] != RETURN]


def perform(called: Called) -> Needs:
    """Carry out a call, save what came of it, and show it.

    Raises:
        GraphInterrupt: It asks a question.
        BaseException: What its code raised on its last attempt.
    """
    task, calls = called.task, called.scope.session.calls
    if called.carried:
        assert task.writes is not None
        yield from calls.save(called, task.writes)
        return task.writes
    if called.answered:
        yield from calls.save(called, [(RESUME, task.answers)])
    try:
        writes = yield from execute(task, called.scope)
        yield from calls.save(called, writes)
    except GraphInterrupt as pause:
        task.interrupts = tuple(pause.interrupts)
        yield from calls.save(called, [(INTERRUPT, list(pause.interrupts))])
        raise
    except (GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        task.error = error if isinstance(error, Exception) else cancelled(task)
        yield from calls.save(called, [(ERROR, task.error)])
        calls.show_end(task)
        raise
    task.writes, task.error, task.interrupts = writes, None, ()
    called.parent.pushed.extend(pushed(task))
    calls.show_end(task)
    return writes


def cancelled(task: Task) -> NodeCancelledError:
    """Return the record of a call that was cancelled."""
    return NodeCancelledError(f"The task {task.name!r} was cancelled while it was running.")
