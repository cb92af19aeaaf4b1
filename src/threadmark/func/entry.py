"""`entrypoint`: a function as a graph of one node.

The node waits for the input, runs the function, and writes what it returned to the output and to what the
next run of the thread finds as `previous`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from threadmark._checks import shown
from threadmark.channels import EphemeralValue, LastValue
from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.constants import END, PREVIOUS, START
from threadmark.errors import GraphError, InvalidArgumentError, InvalidUpdateError
from threadmark.pregel.call import cache_namespace, hints_of, make_func, name_of
from threadmark.pregel.code import check_node_options, held_graphs, policies, seconds
from threadmark.pregel.given import check_surroundings
from threadmark.pregel.main import Pregel
from threadmark.pregel.plan import Channels, Node, Plan, Write
from threadmark.types import CachePolicy, Checkpointer, RetryPolicy, TimeoutPolicy

if TYPE_CHECKING:
    from threadmark.cache.base import BaseCache
    from threadmark.pregel.draw import Drawing
    from threadmark.store.base import BaseStore

__all__ = ["entrypoint"]

ContextT = TypeVar("ContextT", default=None)
ValueT = TypeVar("ValueT")
SavedT = TypeVar("SavedT")


class entrypoint(Generic[ContextT]):
    """Make a function a graph: `@entrypoint(checkpointer=...)`.

    The function's first parameter is the input; what it returns is the output. Other parameters are given
    to it if it has them: `previous` (what the last run of the thread returned), `config`, `runtime`,
    `store` and `writer`. The result has all methods of a compiled graph.

    Args:
        checkpointer: Where runs save. Without one nothing can be resumed.
        store: Memory across threads.
        cache: Where results of functions with a cache policy are kept.
        context_schema: The type of `context`.
        cache_policy: Reuse of the whole function's results.
        retry_policy: How failures are retried; the first policy that matches decides.
        timeout: Seconds for one attempt, or a `TimeoutPolicy`.

    Raises:
        InvalidArgumentError: `checkpointer` is none.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class final(Generic[ValueT, SavedT]):
        """Return one value, and save another for the next run.

        Attributes:
            value: The output.
            save: What the next run of the thread finds as `previous`.
        """

        value: ValueT
        save: SavedT

    def __init__(
        self,
        checkpointer: Checkpointer = None,
        store: BaseStore | None = None,
        cache: BaseCache[Any] | None = None,
        context_schema: type[ContextT] | None = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> None:
        if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
            raise InvalidArgumentError(
                f"checkpointer must be a saver, not {shown(checkpointer)}. The decorator is used with "
                f"parentheses: @entrypoint()."
            )
        check_surroundings(store, cache, context_schema)
        check_node_options(cache_policy, timeout)
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.context_schema = context_schema
        self.cache_policy = cache_policy
        self.retry_policy = policies(retry_policy) or ()
        self.timeout = timeout

    def __call__(self, func: Callable[..., Any]) -> Pregel:
        """Return the graph of a function.

        Raises:
            GraphError: The function takes no input, cannot be called, or is a generator.
        """
        name = name_of(func)
        graph = Pregel(
            make_plan(name, self.make_node(func, name), func),
            checkpointer=self.checkpointer,
            store=self.store,
            cache=self.cache,
            context_schema=self.context_schema,
            drawing=lambda xray: draw(name),
        )
        graph.__doc__ = getattr(func, "__doc__", None)
        return graph

    def make_node(self, func: Callable[..., Any], name: str) -> Node:
        """Return the function as a node."""
        code = make_func(func, name)
        if code.many:
            raise GraphError(
                f"The entry point {name!r} is a generator. Return a list, or use a stream writer."
            )
        if not inspect.signature(func).parameters:
            raise GraphError(f"The entry point {name!r} takes no input. Give it one parameter.")
        run_timeout, idle_timeout = seconds(self.timeout)
        return Node(
            name=name,
            func=code,
            triggers=(START,),
            read=read_input,
            writes=write_result,
            retry=self.retry_policy,
            cache=self.cache_policy,
            timeout=run_timeout,
            idle_timeout=idle_timeout,
            subgraphs=held_graphs(func),
            cache_namespace=cache_namespace(func, name),
        )


def make_plan(name: str, node: Node, func: Callable[..., Any]) -> Plan:
    """Return the plan of an entry point."""
    return Plan(
        name=name,
        named=False,
        nodes={name: node},
        channels={
            START: EphemeralValue(Any, key=START),
            END: LastValue(Any, END),
            PREVIOUS: LastValue(Any, PREVIOUS),
        },
        managed={},
        input_channel=START,
        output_keys=END,
        state_keys=END,
        trim=lambda given: given,
        updates=refuse_update,
        known_types=types_of(func, node),
        calls=True,
    )


def read_input(channels: Channels, managed: Any) -> Any:
    """Return the input of the run."""
    return channels[START].value


def write_result(output: Any) -> list[Write]:
    """Turn what the function returned into writes."""
    if isinstance(output, entrypoint.final):
        return [(END, output.value), (PREVIOUS, output.save)]
    return [(END, output), (PREVIOUS, output)]


def refuse_update(update: Any) -> list[Write]:
    """Refuse a `Command(update=...)`.

    Raises:
        InvalidUpdateError: Always.
    """
    raise InvalidUpdateError(
        "An entry point has no state that a command could update. Pass a new input, or edit what the last "
        "run returned with update_state()."
    )


def types_of(func: Callable[..., Any], node: Node) -> frozenset[type]:
    """Return the classes that the function's input and result, and the graphs that it runs, name."""
    from threadmark.checkpoint.serde.schema import collect_types

    hints = hints_of(func)
    first = next(iter(inspect.signature(func).parameters))
    found = collect_types(hints.get(first)) | collect_types(hints.get("return"))
    return frozenset(found).union(*(graph.plan.known_types for graph in node.subgraphs))


def draw(name: str) -> Drawing:
    """Return the picture of an entry point."""
    from threadmark.pregel.draw import Drawing

    return Drawing.of([START, name, END], [(START, name, None, False), (name, END, None, False)])
