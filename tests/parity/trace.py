"""Runs a program on one library and writes down all that can be seen of it.

A program is an `async def program(t)`. It reaches the library through `t.lib` and runs graphs through the
methods below, which call the sync or the async method of the graph, as the trace was asked to, and record
what came back. In sync mode nothing ever waits, so the program is driven without an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from parity.library import Library
from parity.plain import masked, numbered, plain

Program = Callable[["Trace"], Coroutine[Any, Any, None]]
BARRIERS = ("values", "checkpoints")


class Trace:
    """What a program did on one library."""

    def __init__(self, lib: Library, mode: str, kind: str, folder: Path) -> None:
        self.lib = lib
        self.mode = mode
        self.kind = kind
        self.folder = folder
        self.events: list[Any] = []
        self.savers = 0
        self.stack = ExitStack()
        self.async_stack = AsyncExitStack()

    @property
    def ours(self) -> bool:
        """Whether this is our own library."""
        return self.lib.root == "threadmark"

    async def saver(self) -> Any:
        """Return a new saver of the kind that the trace was asked for."""
        if self.kind == "memory":
            return self.lib.InMemorySaver()
        self.savers += 1
        path = str(self.folder / f"{self.lib.root}-{self.savers}.db")
        if self.mode == "sync":
            return self.stack.enter_context(self.lib.SqliteSaver.from_conn_string(path))
        return await self.async_stack.enter_async_context(self.lib.AsyncSqliteSaver.from_conn_string(path))

    def note(self, label: str, value: Any = None) -> None:
        """Record something that both libraries must agree on."""
        self.events.append((label, plain(value)))

    def differs(self, label: str, seen: Any, *, ours: Any, theirs: Any) -> None:
        """Check what is different on purpose: each library must show what is expected of it."""
        expected = ours if self.ours else theirs
        assert plain(seen) == plain(expected), f"{self.lib.root}, {label}"
        self.events.append((label, "differs on purpose"))

    async def call(self, graph: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call `graph.method` or `graph.amethod` and return the result, or the error as a value."""
        try:
            if self.mode == "sync":
                return getattr(graph, method)(*args, **kwargs)
            return await getattr(graph, "a" + method)(*args, **kwargs)
        except Exception as error:  # whatever a run raises is what we look at
            return error

    async def collect(
        self,
        graph: Any,
        method: str,
        *args: Any,
        watch: Callable[[Any], None] = lambda item: None,
        **kwargs: Any,
    ) -> list[Any]:
        """Call a method that yields, and return all it yielded; an error comes last.

        `watch` is told of each item at once, so that a node can wait for what another one showed.
        """
        found: list[Any] = []
        try:
            if self.mode == "sync":
                for item in getattr(graph, method)(*args, **kwargs):
                    watch(item)
                    found.append(item)
            else:
                async for item in getattr(graph, "a" + method)(*args, **kwargs):
                    watch(item)
                    found.append(item)
        except Exception as error:
            found.append(error)
        return found

    async def invoke(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a graph and record its result."""
        result = await self.call(graph, "invoke", *args, **kwargs)
        self.note("invoke", result)
        return result

    async def stream(self, graph: Any, *args: Any, parallel: bool = False, **kwargs: Any) -> Any:
        """Run a graph and record what it streams.

        With `parallel`, tasks may finish in any order: what came between two states is sorted.
        """
        chunks = await self.collect(graph, "stream", *args, **kwargs)
        shown = [plain(chunk) for chunk in chunks]
        self.events.append(("stream", settled(shown) if parallel else shown))
        return chunks

    async def state(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        """Read and record a snapshot."""
        result = await self.call(graph, "get_state", *args, **kwargs)
        self.note("state", result)
        return result

    async def history(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        """Read and record a history."""
        result = await self.collect(graph, "get_state_history", *args, **kwargs)
        self.note("history", result)
        return result

    async def update(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        """Update a state and record the config that came back."""
        result = await self.call(graph, "update_state", *args, **kwargs)
        self.note("update", result)
        return result

    async def bulk(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        """Update a state in several supersteps and record the config that came back."""
        result = await self.call(graph, "bulk_update_state", *args, **kwargs)
        self.note("bulk", result)
        return result


def settled(chunks: list[Any]) -> list[Any]:
    """Return chunks with those between two states in an order of their own."""
    found: list[Any] = []
    pending: list[Any] = []
    for chunk in chunks:
        if is_state(chunk):
            found += [*sorted(pending, key=by_text), chunk]
            pending = []
        else:
            pending.append(chunk)
    return found + sorted(pending, key=by_text)


def is_state(chunk: Any) -> bool:
    """Tell whether a chunk shows the state after a step, and not what one task of it did."""
    kinds = chunk if isinstance(chunk, tuple) else ()
    return any(mode in kinds for mode in BARRIERS) and "__interrupt__" not in repr(chunk)


def by_text(chunk: Any) -> str:
    """A sort key that does not depend on ids."""
    return masked(repr(chunk))


def drive(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("A program waited in sync mode.")


def trace(root: str, program: Program, mode: str, kind: str, folder: Path) -> list[Any]:
    """Return what a program shows on one library."""
    t = Trace(Library(root), mode, kind, folder)
    if mode == "sync":
        with t.stack:
            drive(program(t))
    else:
        asyncio.run(closing(t, program(t)))
    return numbered(t.events, {})  # type: ignore[no-any-return]


async def closing(t: Trace, program: Awaitable[None]) -> None:
    """Run a program and close what it opened."""
    async with t.async_stack:
        await program
