"""One task from its input to its writes: cache, attempts, branches. Written once for both drivers.

`execute` is a generator that yields what must be waited for (a call of user code, a pause before the next
attempt, a look into the cache) and is sent the result. What is retried and for how long is decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from threadmark.errors import GraphBubbleUp, GraphInterrupt, NodeError, ParentCommand
from threadmark.pregel.call import Func
from threadmark.pregel.plan import Write
from threadmark.pregel.rules import Task, written
from threadmark.pregel.scope import TaskScope
from threadmark.types import CachePolicy, RetryPolicy

__all__ = ["CacheGet", "CachePut", "Call", "Join", "Need", "Sleep", "execute"]

log = logging.getLogger("threadmark.pregel")


@dataclass(slots=True)
class Call:
    """Call user code with a value. Answer: what it returned."""

    func: Func
    value: Any
    timeout: float | None = None
    idle_timeout: float | None = None


@dataclass(slots=True)
class Sleep:
    """Wait. No answer.

    Attributes:
        seconds: How long.
        jitter: Add up to a second of random time.
    """

    seconds: float
    jitter: bool


@dataclass(slots=True)
class CacheGet:
    """Look up a result. Answer: its writes, or `None`."""

    key: tuple[tuple[str, ...], str]


@dataclass(slots=True)
class CachePut:
    """Keep a result. No answer."""

    key: tuple[tuple[str, ...], str]
    writes: list[Write]
    ttl: int | None


@dataclass(slots=True)
class Join:
    """Wait for tasks that were called. No answer.

    Attributes:
        calls: The calls.
        cancel: Do not begin those that have not begun, and cancel the others where that is possible.
        patient: Let what cannot be stopped come to its end.
    """

    calls: Sequence[Any]
    cancel: bool
    patient: bool = True


Need: TypeAlias = Call | Sleep | CacheGet | CachePut | Join
Body: TypeAlias = Generator[Need, Any, list[Write]]


def execute(task: Task, scope: TaskScope) -> Body:
    """Run a task and return its writes.

    Raises:
        InvalidUpdateError: The node returned something that cannot be applied.
        BaseException: What the node raised on its last attempt.
    """
    policy = task.node.cache
    if policy is None or scope.session.cache is None:
        return run_node(task, scope)
    return run_cached(task, scope, policy)


def run_cached(task: Task, scope: TaskScope, policy: CachePolicy) -> Body:
    """Take the writes from the cache, or run the node and keep them there."""
    key = cache_key(task, policy, scope)
    hit = yield CacheGet(key)
    if hit is not None:
        task.cached = True
        return [(channel, value) for channel, value in hit]
    writes = yield from run_node(task, scope)
    yield CachePut(key, writes, policy.ttl)
    return writes


def cache_key(task: Task, policy: CachePolicy, scope: TaskScope) -> tuple[tuple[str, ...], str]:
    """Return where a task's result is kept: a namespace for the node, and a key for its input."""
    key = policy.key_func(task.input)
    if isinstance(key, bytes):
        key = key.hex()
    return (task.node.cache_namespace, key)


def run_node(task: Task, scope: TaskScope) -> Body:
    """Call the node until an attempt succeeds, and make its writes."""
    node = task.node
    call = Call(node.func, task.input, timeout_of(task), node.idle_timeout)
    while True:
        # An attempt is over only when the tasks that it has called are, too.
        try:
            try:
                output = yield call
            except BaseException as error:
                scope.over = True
                if scope.called:
                    yield from settle(scope, error)
                raise
            scope.over = True
            if scope.called:
                yield from settle(scope, None)
            break
        except ParentCommand as bubble:
            # A sub-graph's command for its parent: this node is the one that carries it out.
            output = replace(bubble.command, graph=None)
            break
        except GraphBubbleUp:
            raise
        except Exception as error:
            if scope.error is not None:
                raise
            policy = matching(node.retry, error)
            if policy is not None and scope.attempt < policy.max_attempts:
                yield Sleep(delay(policy, scope.attempt), policy.jitter)
                scope.restart(scope.attempt + 1)
            elif node.on_error is not None:
                scope.error = NodeError(node.name, error)
                scope.over = False
                call = Call(node.on_error, task.input)
            else:
                raise
    writes = node.writes(output)
    if scope.pushed:
        writes = [*scope.pushed, *writes]
    for branch in node.branches:
        run = scope.session.run
        if task.ahead is None:
            task.ahead = written(run.channels, writes)
        answer = yield Call(branch.path, branch.read({**run.channels, **task.ahead}, run.managed()))
        writes = [*writes, *branch.route(answer)]
    return writes


def settle(scope: TaskScope, error: BaseException | None) -> Generator[Need, Any, None]:
    """Wait for the tasks that an attempt has called, and pause for all their questions together.

    Args:
        scope: The attempt.
        error: How its code ended.

    Raises:
        GraphInterrupt: The code, or a task that it has called, asks a question.
    """
    pausing = error is None or isinstance(error, GraphInterrupt)
    patient = isinstance(error, Exception) or scope.is_stopping()
    try:
        yield Join(scope.called, cancel=not pausing, patient=patient)
    except BaseException:
        yield Join(scope.called, cancel=True, patient=scope.is_stopping())
        raise
    asked = error.interrupts if isinstance(error, GraphInterrupt) else ()
    inside = [question for called in scope.called for question in called.task.interrupts]
    if pausing and inside:
        unique = {question.id: question for question in [*inside, *asked]}
        raise GraphInterrupt(list(unique.values()))
    if error is None:
        report_unseen(scope)


def report_unseen(scope: TaskScope) -> None:
    """Log the errors of called tasks that nobody has looked at: the node has ended well without them."""
    for called in scope.called:
        if called.task.error is not None and not getattr(called.handle, "seen", True):
            log.warning("A task that nobody waited for has failed.", exc_info=called.task.error)


def timeout_of(task: Task) -> float | None:
    """Return the seconds that one attempt of a task may take."""
    send = task.send
    if send is not None and isinstance(send.timeout, int | float):
        return send.timeout
    return task.node.timeout


def matching(policies: tuple[RetryPolicy, ...], error: Exception) -> RetryPolicy | None:
    """Return the first policy that wants to retry an error."""
    return next((policy for policy in policies if retries(policy, error)), None)


def retries(policy: RetryPolicy, error: Exception) -> bool:
    """Tell whether a policy wants to retry an error."""
    on = policy.retry_on
    if isinstance(on, type):
        return isinstance(error, on)
    if callable(on):
        return bool(on(error))
    return isinstance(error, tuple(on))


def delay(policy: RetryPolicy, attempt: int) -> float:
    """Return the seconds to wait after a failed attempt."""
    return min(policy.max_interval, policy.initial_interval * policy.backoff_factor ** (attempt - 1))
