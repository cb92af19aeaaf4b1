"""User code as the engine calls it: a function, coroutine, generator, callable object or runnable.

What a function wants beside its input (`config`, `runtime`, `store`, `writer`, `previous`) is read from its
signature once, when the graph is compiled. This module knows nothing of graphs or tasks; it asks the
running task, given as a `Scope`, for the injected values.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from threadmark._checks import shown
from threadmark.config import RunnableConfig, Scope
from threadmark.errors import GraphError, InvalidUpdateError, NodeError
from threadmark.runtime import Runtime

__all__ = ["Func", "make_func"]

INJECTED = ("config", "runtime", "store", "writer", "previous", "error")


@dataclass(frozen=True, slots=True)
class Func:
    """A piece of user code, and how to call it.

    Attributes:
        name: For messages.
        sync: Calls it in a thread that may block; `None` for code that is only async.
        run_async: Calls it on an event loop; `None` for code that is only sync.
        inject: Pairs of parameter name and what to pass: `config`, `runtime`, `store`, ...
        many: The result is the list of all that a generator yielded.
        cheap: The code is the engine's own and takes no time worth a thread.
    """

    name: str
    sync: Callable[..., Any] | None
    run_async: Callable[..., Awaitable[Any]] | None
    inject: tuple[tuple[str, str], ...] = ()
    many: bool = False
    cheap: bool = False

    def arguments(self, scope: Any) -> dict[str, Any]:
        """Return the keyword arguments that the code asked for."""
        return {name: injected(kind, scope) for name, kind in self.inject}

    def call(self, scope: Scope, value: Any) -> Any:
        """Call the code in this thread.

        Raises:
            InvalidUpdateError: The code is only async.
        """
        if self.sync is None:
            raise InvalidUpdateError(
                f"{self.name!r} is async only. Run the graph with ainvoke or astream, or make it a plain "
                f"function."
            )
        if self.inject:
            return self.sync(value, **self.arguments(scope))
        return self.sync(value)

    async def acall(self, scope: Scope, value: Any) -> Any:
        """Call the code on this event loop. Only for code that has `run_async`."""
        assert self.run_async is not None
        if self.inject:
            return await self.run_async(value, **self.arguments(scope))
        return await self.run_async(value)


def injected(kind: str, scope: Any) -> Any:
    """Return what a parameter of this kind is given."""
    if kind == "config":
        return scope.config
    if kind == "runtime":
        return scope.runtime
    if kind == "error":
        return scope.error
    if kind == "writer":
        return scope.runtime.stream_writer
    return getattr(scope.runtime, kind)


def make_func(code: Any, name: str | None = None) -> Func:
    """Turn what a user passed as a node or path into a `Func`.

    Raises:
        GraphError: It cannot be called.
    """
    name = name or name_of(code)
    if is_runnable(code):
        return runnable_func(code, name)
    if not callable(code):
        raise GraphError(
            f"{shown(code)} stands where a function is needed (as a node, a path or a handler), and cannot "
            f"be called."
        )
    inject = injections(code)
    target = code if inspect.isroutine(code) or isinstance(code, functools.partial) else code.__call__
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isasyncgenfunction(target):
        return Func(name, None, collect_async(code), inject, many=True)
    if inspect.iscoroutinefunction(target):
        return Func(name, None, code, inject)
    if inspect.isgeneratorfunction(target):
        return Func(name, collect(code), None, inject, many=True)
    return Func(name, code, None, inject)


def name_of(code: Any) -> str:
    """Return the name that a node gets from its code."""
    while isinstance(code, functools.partial):
        code = code.func
    for attribute in ("name", "__name__"):
        found = getattr(code, attribute, None)
        if isinstance(found, str) and found:
            return found
    return type(code).__name__


def cache_namespace(code: Any, name: str) -> tuple[str, ...]:
    """Return where a cache keeps the results of some code. The code's own name is part of it, so that graphs
    which share a cache do not mix up nodes that share a name.
    """
    code = getattr(code, "func", code)
    kind = code if hasattr(code, "__qualname__") else type(code)
    return ("writes", kind.__module__, kind.__qualname__, name)


def is_runnable(code: Any) -> bool:
    """Tell whether an object has the interface of a runnable (ours or LangChain's)."""
    return not isinstance(code, type) and all(
        callable(getattr(code, method, None)) for method in ("invoke", "ainvoke")
    )


def runnable_func(code: Any, name: str) -> Func:
    """Return a `Func` that passes the task's config on to a runnable."""

    def call(value: Any, config: RunnableConfig) -> Any:
        return code.invoke(value, config)

    async def acall(value: Any, config: RunnableConfig) -> Any:
        return await code.ainvoke(value, config)

    return Func(name, call, acall, (("config", "config"),))


def collect(code: Callable[..., Iterator[Any]]) -> Callable[..., list[Any]]:
    """Return a function that runs a generator to its end and returns what it yielded."""

    def run(*args: Any, **kwargs: Any) -> list[Any]:
        return list(code(*args, **kwargs))

    return run


def collect_async(code: Callable[..., AsyncIterator[Any]]) -> Callable[..., Awaitable[list[Any]]]:
    """Async `collect`."""

    async def run(*args: Any, **kwargs: Any) -> list[Any]:
        return [item async for item in code(*args, **kwargs)]

    return run


def injections(code: Any, skip: int = 1) -> tuple[tuple[str, str], ...]:
    """Return which parameters of `code` are to be injected, and with what. Of a node the first is skipped."""
    try:
        parameters = list(inspect.signature(code).parameters.values())
    except (TypeError, ValueError):  # some built-in callables have no signature: nothing to inject
        return ()
    hints = hints_of(code)
    found = []
    for parameter in parameters[skip:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kind = injection(parameter, hints.get(parameter.name, parameter.annotation))
        if kind is not None:
            found.append((parameter.name, kind))
    return tuple(found)


def hints_of(code: Any) -> dict[str, Any]:
    """Return the resolved annotations of some code; those that cannot be resolved stay as written."""
    while isinstance(code, functools.partial):
        code = code.func
    if not inspect.isroutine(code):
        code = type(code).__call__
    try:
        return get_type_hints(code)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return dict(getattr(code, "__annotations__", {}))


def injection(parameter: inspect.Parameter, annotation: Any) -> str | None:
    """Return what a parameter asks for, by its annotation or its name."""
    by_type = injection_by_type(annotation)
    if by_type is not None:
        return by_type
    return parameter.name if parameter.name in INJECTED else None


def injection_by_type(annotation: Any) -> str | None:
    """Return what an annotation asks for: `Runtime[...]`, `RunnableConfig`, `BaseStore`, `StreamWriter`."""
    for option in get_args(annotation) if get_origin(annotation) is not Runtime else ():
        if option is not type(None) and (kind := injection_by_type(option)) is not None:
            return kind
    origin = get_origin(annotation) or annotation
    text = annotation if isinstance(annotation, str) else getattr(origin, "__name__", "")
    if origin is Runtime or text.startswith("Runtime["):
        return "runtime"
    if origin is NodeError:
        return "error"
    if text in ("RunnableConfig", "RunnableConfig | None", "Optional[RunnableConfig]"):
        return "config"
    stores = sys.modules.get("threadmark.store.base")
    if stores is not None and isinstance(origin, type) and issubclass(origin, stores.BaseStore):
        return "store"
    return None
