"""One task from its input to its writes: cache, attempts, branches. Written once for both drivers.

`execute` is a generator that yields what must be waited for (a call of user code, a pause before the next
attempt, a look into the cache) and is sent the result. What is retried and for how long is decided here.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from threadmark.errors import GraphBubbleUp, NodeError, ParentCommand
from threadmark.pregel.call import Func
from threadmark.pregel.plan import Write
from threadmark.pregel.rules import Task, preview
from threadmark.pregel.scope import TaskScope
from threadmark.types import CachePolicy, RetryPolicy

__all__ = ["CacheGet", "CachePut", "Call", "Need", "Sleep", "execute"]


@dataclass(frozen=True, slots=True)
class Call:
    """Call user code with a value. Answer: what it returned."""

    func: Func
    value: Any
    timeout: float | None = None
    idle_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait. No answer.

    Attributes:
        seconds: How long.
        jitter: Add up to a second of random time.
    """

    seconds: float
    jitter: bool


@dataclass(frozen=True, slots=True)
class CacheGet:
    """Look up a result. Answer: its writes, or `None`."""

    key: tuple[tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class CachePut:
    """Keep a result. No answer."""

    key: tuple[tuple[str, ...], str]
    writes: list[Write]
    ttl: int | None


Need: TypeAlias = Call | Sleep | CacheGet | CachePut
Body: TypeAlias = Generator[Need, Any, list[Write]]


def execute(task: Task, scope: TaskScope) -> Body:
    """Run a task and return its writes.

    Raises:
        InvalidUpdateError: The node returned something that cannot be applied.
        BaseException: What the node raised on its last attempt.
    """
    policy = task.node.cache
    if policy is None or scope.session.cache is None:
        return (yield from run_node(task, scope))
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
    return (cache_namespace(scope.session.run.plan.name, task.name), key)


def cache_namespace(graph: str, node: str) -> tuple[str, ...]:
    """Return the cache namespace of a node's results."""
    return ("writes", graph, node)


def run_node(task: Task, scope: TaskScope) -> Body:
    """Call the node until an attempt succeeds, and make its writes."""
    node = task.node
    call = Call(node.func, task.input, timeout_of(task), node.idle_timeout)
    while True:
        try:
            output = yield call
            break
        except ParentCommand as bubble:
            # A sub-graph's command for its parent: this node is the one that carries it out.
            output = replace(bubble.command, graph=None)
            break
        except GraphBubbleUp:
            raise
        except Exception as error:
            policy = matching(node.retry, error)
            if policy is None or scope.attempt >= policy.max_attempts:
                if node.on_error is None:
                    raise
                scope.error = NodeError(node.name, error)
                output = yield Call(node.on_error, task.input)
                break
            yield Sleep(delay(policy, scope.attempt), policy.jitter)
        scope.restart(scope.attempt + 1)
    writes = node.writes(output)
    if scope.pushed:
        writes = [*scope.pushed, *writes]
    for branch in node.branches:
        run = scope.session.run
        answer = yield Call(branch.path, branch.read(preview(run.channels, writes), run.managed()))
        writes = [*writes, *branch.route(answer)]
    return writes


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
