"""`task`: functions whose calls are saved steps of whatever node calls them.

A task is a node that no trigger wakes: the engine runs it when code calls it. Its code and its options are
read once, when it is declared.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from threadmark._checks import text
from threadmark.constants import PUSH, RETURN
from threadmark.errors import GraphError
from threadmark.pregel.call import Func, cache_namespace, injections, make_func, name_of
from threadmark.pregel.called import call
from threadmark.pregel.code import check_node_options, policies, seconds
from threadmark.pregel.known import declare_types
from threadmark.pregel.plan import Node, Write
from threadmark.types import CachePolicy, RetryPolicy, TimeoutPolicy

if TYPE_CHECKING:
    from threadmark.cache.base import BaseCache
    from threadmark.pregel.future import TaskFuture

__all__ = ["TaskFunction", "task"]

P = ParamSpec("P")
T = TypeVar("T")

GIVEN = ("config", "runtime", "store", "writer")
"""What a task is given if it has such a parameter and the caller does not pass it."""


class TaskFunction(Generic[P, T]):
    """A function whose calls are saved.

    Args:
        func: The function.
        name: Its name in streams and saved data.
        retry: How failures are retried.
        cache: Reuse of results for equal arguments.
        timeout: How long one attempt may take.

    Raises:
        GraphError: It cannot be called, or is a generator.
    """

    def __init__(
        self,
        func: Callable[P, Any],
        name: str | None = None,
        retry: tuple[RetryPolicy, ...] = (),
        cache: CachePolicy | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> None:
        if not callable(func):
            raise GraphError(f"A task is a function, not a {type(func).__name__}.")
        functools.update_wrapper(self, func)
        self.func = func
        self.name = name or name_of(func)
        self.node = make_node(func, self.name, retry, cache, timeout)
        declare_types(func)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Call the task from a running node.

        Returns:
            A future: wait for it with `.result()`, or on an event loop with `await`.

        Raises:
            InvalidArgumentError: No graph is running.
        """
        return call(self.node, args, kwargs)  # type: ignore[no-any-return]

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        """Return the task as a method of an object."""
        return self if owner is None else MethodType(self, owner)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def clear_cache(self, cache: BaseCache[Any]) -> None:
        """Forget the results of this task that a cache keeps."""
        cache.clear([self.node.cache_namespace])

    async def aclear_cache(self, cache: BaseCache[Any]) -> None:
        """Async `clear_cache`."""
        await cache.aclear([self.node.cache_namespace])


@overload
def task(func: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...
@overload
def task(func: Callable[P, T], /) -> TaskFunction[P, T]: ...
@overload
def task(
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
) -> Callable[[Callable[P, Awaitable[T]] | Callable[P, T]], TaskFunction[P, T]]: ...
def task(
    func: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
) -> Any:
    """Make a function a task. Use it as `@task` or as `@task(...)`.

    A task is called from an entry point, a node of a graph, or another task. What it returns is saved
    before its caller sees it: when the run goes on after a pause or a failure, a finished task is not run
    again. Calls are told apart by their order, so the code that calls tasks must make the same calls in the
    same order whenever it runs again.

    Args:
        func: The function, sync or async.
        name: The task's name; by default the function's.
        retry_policy: How failures are retried; the first policy that matches decides.
        cache_policy: Reuse results for equal arguments, across runs. `key_func` gets the arguments.
        timeout: Seconds for one attempt, or a `TimeoutPolicy`.

    Raises:
        GraphError: It cannot be called, or is a generator.
    """
    text("name", name, optional=True)
    check_node_options(cache_policy, timeout)

    def declare(code: Callable[..., Any]) -> TaskFunction[..., Any]:
        return TaskFunction(code, name, policies(retry_policy) or (), cache_policy, timeout)

    return declare if func is None else declare(func)


def make_node(
    code: Callable[..., Any],
    name: str,
    retry: tuple[RetryPolicy, ...],
    cache: CachePolicy | None,
    timeout: float | timedelta | TimeoutPolicy | None,
) -> Node:
    """Return a task in the form in which the engine runs it."""
    run_timeout, idle_timeout = seconds(timeout)
    return Node(
        name=name,
        func=spread(code, name),
        triggers=(PUSH,),
        read=lambda channels, managed: None,
        writes=write_return,
        retry=retry,
        cache=replace(cache, key_func=key_of_arguments(cache)) if cache is not None else None,
        timeout=run_timeout,
        idle_timeout=idle_timeout,
        cache_namespace=cache_namespace(code, name),
    )


def write_return(output: Any) -> list[Write]:
    """Turn what a task returned into its write."""
    return [(RETURN, output)]


def key_of_arguments(policy: CachePolicy) -> Callable[[Any], str | bytes]:
    """Return a function that makes a cache key from a call's arguments."""
    return lambda given: policy.key_func(*given[0], **given[1])


def spread(code: Callable[..., Any], name: str) -> Func:
    """Return a task's code as a `Func` of one value: the positional arguments and those by name.

    Raises:
        GraphError: It is a generator.
    """
    func = make_func(code, name)
    if func.many:
        raise GraphError(f"The task {name!r} is a generator. Return a list instead.")
    inject = tuple(pair for pair in injections(code, skip=0) if pair[1] in GIVEN)
    signature = inspect.signature(code) if inject else None

    def fill(given: Any, offered: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, with what the task is given where its caller passed nothing."""
        args, kwargs = given
        if signature is None:
            return kwargs  # type: ignore[no-any-return]
        passed = signature.bind_partial(*args, **kwargs).arguments
        return {**{k: v for k, v in offered.items() if k not in passed}, **kwargs}

    def call_sync(given: Any, **offered: Any) -> Any:
        return code(*given[0], **fill(given, offered))

    async def call_async(given: Any, **offered: Any) -> Any:
        return await code(*given[0], **fill(given, offered))

    if func.run_async is not None:
        return Func(name, None, call_async, inject)
    return Func(name, call_sync, None, inject)
