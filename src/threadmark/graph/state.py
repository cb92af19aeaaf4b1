"""`StateGraph`: nodes and edges over a typed state, compiled into something that runs.

A builder only notes what it is told and refuses what cannot be right. How nodes and edges become channels and
triggers is in `compile.py`.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, Union, get_args, get_origin

from typing_extensions import TypeVar

from threadmark._checks import flag, instance, one_of, text, whole, wrong
from threadmark.channels import BaseChannel, LastValue
from threadmark.constants import END, NS_END, NS_SEP, RESERVED, START
from threadmark.errors import GraphError
from threadmark.graph.schema import Schema, check_storable, schema_of
from threadmark.pregel.call import Func, hints_of, is_runnable, make_func, name_of
from threadmark.pregel.code import check_node_options, policies
from threadmark.pregel.given import check_checkpointer, check_surroundings, listed
from threadmark.pregel.main import Pregel
from threadmark.types import (
    All,
    CachePolicy,
    Checkpointer,
    Command,
    OnConflict,
    RetryPolicy,
    Send,
    TimeoutPolicy,
)

if TYPE_CHECKING:
    from threadmark.cache.base import BaseCache
    from threadmark.store.base import BaseStore

__all__ = ["END", "START", "CompiledStateGraph", "StateGraph"]

StateT = TypeVar("StateT")
ContextT = TypeVar("ContextT", default=None)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)

Path = Callable[..., Hashable | Sequence[Hashable] | Awaitable[Hashable | Sequence[Hashable]]]
Timeout = float | timedelta | TimeoutPolicy
ANY_NODE = "*"


@dataclass(slots=True)
class NodeSpec:
    """What the user said about a node."""

    code: Any
    func: Func
    schema: Schema
    retry: tuple[RetryPolicy, ...] | None
    cache: CachePolicy | None
    timeout: Timeout | None
    error_handler: Any
    metadata: Mapping[str, Any]
    defer: bool
    destinations: tuple[str, ...]


@dataclass(slots=True)
class BranchSpec:
    """What the user said about a conditional edge.

    Attributes:
        func: The condition.
        schema: What the condition reads; `None`: what the node before it reads.
        path_map: From answers to nodes.
        ends: Where it can lead, `None` if nobody said.
    """

    func: Func
    schema: Schema | None
    path_map: dict[Hashable, str] | None
    ends: tuple[str, ...] | None


@dataclass(slots=True)
class Defaults:
    """What `set_node_defaults` said."""

    retry: tuple[RetryPolicy, ...] | None = None
    cache: CachePolicy | None = None
    timeout: Timeout | None = None
    error_handler: Any = None


@dataclass(slots=True)
class Notes:
    """Everything a builder was told."""

    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)
    joins: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    branches: dict[str, dict[str, BranchSpec]] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """A graph whose nodes read and update a shared state.

    Args:
        state_schema: The type of the state: a `TypedDict`, a dataclass or a Pydantic model. A key annotated
            `Annotated[T, reducer]` is updated with `reducer(old, new)`; others take the last value.
        context_schema: The type of what runs get as `context`.
        input_schema: The type of the input, if it is not the state.
        output_schema: The type of the output, if it is not the state.
        version: The version of the state's shape. Raise it when saved state must be migrated.
        migrate: From version n to a function that turns a state dict of version n into one of n + 1.

    Raises:
        GraphError: A schema cannot be used.
    """

    def __init__(
        self,
        state_schema: type[StateT],
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
        version: int = 1,
        migrate: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] | None = None,
    ) -> None:
        whole("version", version, 1)
        check_migrations(migrate)
        check_surroundings(None, None, context_schema)
        self.state_schema = state_schema
        self.context_schema = context_schema
        self.version = version
        self.migrate = dict(migrate or {})
        self.state = schema_of(state_schema)
        self.channels: dict[str, BaseChannel[Any]] = {}
        self.schemas: dict[Any, Schema] = {}
        self.input = self._learn(input_schema or state_schema)
        self.output = self._learn(output_schema or state_schema)
        self.state = self._learn(state_schema)
        self.notes = Notes()

    def _learn(self, schema: Any) -> Schema:
        """Take the keys of a schema into the state.

        Raises:
            GraphError: Two schemas disagree on how a key is updated.
        """
        if schema in self.schemas:
            return self.schemas[schema]
        found = schema_of(schema)
        for key, channel in found.channels.items():
            known = self.channels.get(key)
            if known is None or type(known) is LastValue:
                self.channels[key] = channel
            elif known != channel and type(channel) is not LastValue:
                raise GraphError(f"Two schemas give {key!r} different reducers. Use the same one in both.")
        self.schemas[schema] = found
        return found

    @property
    def nodes(self) -> dict[str, NodeSpec]:
        """The nodes by name."""
        return self.notes.nodes

    @property
    def edges(self) -> set[tuple[str, str]]:
        """The plain edges."""
        return set(self.notes.edges)

    # Nodes

    def add_node(
        self,
        node: str | Any,
        action: Any = None,
        *,
        defer: bool = False,
        metadata: dict[str, Any] | None = None,
        input_schema: type[Any] | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Any = None,
        destinations: dict[str, str] | tuple[str, ...] | None = None,
        timeout: Timeout | None = None,
    ) -> Self:
        """Add a node.

        Args:
            node: The node's name, or its code, whose name it then gets.
            action: The code, when `node` is a name: a function or coroutine function of the state, a
                generator of updates, a callable object, a runnable, or a compiled graph.
            defer: Run it only when nothing else is left to run.
            metadata: Passed on to callbacks.
            input_schema: What it reads, if not the state. Taken from the annotation of its first parameter
                when that is a schema.
            retry_policy: How failures are retried; the first policy that matches decides.
            cache_policy: Reuse results for equal input.
            error_handler: Code that is called with the input when the node has failed for good; what it
                returns counts as the node's output.
            destinations: Where its `Command(goto=...)` may lead; only for the picture and the checks.
            timeout: Seconds for one attempt, or a `TimeoutPolicy`.

        Raises:
            GraphError: The name is taken or reserved, or the code cannot be called.
        """
        name, code = (node, action) if isinstance(node, str) else (None, node)
        if name is not None:
            check_storable("node", name)
        flag("defer", defer)
        instance("metadata", metadata, Mapping | None, "a dict, or None")
        check_node_options(cache_policy, timeout, error_handler)
        named = () if destinations is None else listed("destinations", destinations_of(destinations), "nodes")
        if code is None:
            raise GraphError(f"The node {name!r} has no code: add_node({name!r}, function).")
        name = name or name_of(code)
        self._check_name(name)
        func = make_func(code, name)
        schema = self._learn(input_schema or annotated_schema(code) or self.state_schema)
        self.notes.nodes[name] = NodeSpec(
            code=code,
            func=func,
            schema=schema,
            retry=policies(retry_policy),
            cache=cache_policy,
            timeout=timeout,
            error_handler=error_handler,
            metadata=metadata or {},
            defer=defer,
            destinations=tuple(named) or command_targets(code),
        )
        return self

    def _check_name(self, name: str) -> None:
        """Refuse a name that is taken or reserved, or that databases cannot keep."""
        check_storable("node", name)
        if name in self.notes.nodes:
            raise GraphError(f"There is already a node {name!r}. Give this one another name.")
        if name in RESERVED:
            raise GraphError(f"{name!r} is a reserved name. Call the node something else.")
        for mark in (NS_SEP, NS_END):
            if mark in name:
                raise GraphError(f"The node name {name!r} must not contain {mark!r}.")

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Any = None,
        timeout: Timeout | None = None,
    ) -> Self:
        """Set what holds for every node that does not say otherwise. Arguments as for `add_node`."""
        check_node_options(cache_policy, timeout, error_handler)
        self.notes.defaults = Defaults(policies(retry_policy), cache_policy, timeout, error_handler)
        return self

    def add_sequence(self, nodes: Sequence[Any]) -> Self:
        """Add nodes that run one after the other; each is code, or a pair of name and code.

        Raises:
            GraphError: The sequence is empty, or a name is taken.
        """
        if not isinstance(nodes, Sequence) or isinstance(nodes, str | bytes):
            raise wrong("nodes", nodes, "a list of nodes, or of pairs of name and code")
        if not nodes:
            raise GraphError("A sequence needs at least one node.")
        previous: str | None = None
        for node in nodes:
            if isinstance(node, tuple) and (len(node) != 2 or not isinstance(node[0], str)):
                raise wrong("nodes", node, "a list of nodes, or of pairs of name and code")
            name, code = node if isinstance(node, tuple) else (name_of(node), node)
            self.add_node(name, code)
            if previous is not None:
                self.add_edge(previous, name)
            previous = name
        return self

    # Edges

    def add_edge(self, start_key: str | list[str], end_key: str) -> Self:
        """Run a node after another one; after a list of nodes, once all of them have run.

        Args:
            start_key: The node before, or a list of nodes to wait for.
            end_key: The node after, or `END`.

        Raises:
            GraphError: The edge leaves `END` or enters `START`.
        """
        text("end_key", end_key)
        starts = listed("start_key", start_key, "nodes")
        if not starts:
            raise GraphError(f"A join before {end_key!r} names no node to wait for.")
        if end_key == START:
            raise GraphError("START cannot be the end of an edge.")
        for start in starts:
            if start == END:
                raise GraphError("END cannot be the start of an edge.")
        if isinstance(start_key, str):
            if (start_key, end_key) not in self.notes.edges:
                self.notes.edges.append((start_key, end_key))
        else:
            self.notes.joins.append((tuple(starts), end_key))
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Path | Any,
        path_map: dict[Hashable, str] | list[str] | None = None,
    ) -> Self:
        """Choose after a node what runs next.

        Args:
            source: The node before, or `START`.
            path: A function of the state (with the node's update applied) that returns a node name, a
                `Send`, `END`, a key of `path_map`, or a list of these.
            path_map: From answers to node names; a list means that the answers are the names.

        Raises:
            GraphError: The node has such a condition already.
        """
        text("source", source)
        check_path_map(path_map)
        func = make_func(path)
        if func.name in self.notes.branches.get(source, {}):
            raise GraphError(
                f"The node {source!r} already has a condition {func.name!r}. Name this one anew."
            )
        mapping: dict[Hashable, str] | None
        mapping = {name: name for name in path_map} if isinstance(path_map, list | tuple) else path_map
        answers = literal_answers(path)
        if mapping is None and answers:
            mapping = {name: name for name in answers}
        schema = annotated_schema(path)
        spec = BranchSpec(
            func,
            self._learn(schema) if schema is not None else None,
            dict(mapping) if mapping is not None else None,
            tuple(mapping.values()) if mapping is not None else None,
        )
        self.notes.branches.setdefault(source, {})[func.name] = spec
        return self

    def set_entry_point(self, key: str) -> Self:
        """Begin with a node: `add_edge(START, key)`."""
        return self.add_edge(START, key)

    def set_finish_point(self, key: str) -> Self:
        """End after a node: `add_edge(key, END)`."""
        return self.add_edge(key, END)

    def set_conditional_entry_point(
        self, path: Path | Any, path_map: dict[Hashable, str] | list[str] | None = None
    ) -> Self:
        """Choose what to begin with: `add_conditional_edges(START, path, path_map)`."""
        return self.add_conditional_edges(START, path, path_map)

    # Compiling

    def validate(self, interrupt: Sequence[str] | None = None) -> Self:
        """Check the graph.

        Args:
            interrupt: Names that must be nodes.

        Raises:
            GraphError: An edge leads nowhere, a node cannot be reached, nothing is the entry.
        """
        from threadmark.graph.compile import validate

        validate(self, interrupt or ())
        return self

    def compile(
        self,
        checkpointer: Checkpointer = None,
        *,
        cache: BaseCache[Any] | None = None,
        store: BaseStore | None = None,
        interrupt_before: All | list[str] | None = None,
        interrupt_after: All | list[str] | None = None,
        debug: bool = False,
        name: str | None = None,
        renames: Mapping[str, str] | None = None,
        on_conflict: OnConflict = "raise",
    ) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """Make a graph that runs.

        Args:
            checkpointer: Where runs save. Without one nothing is saved; see `Checkpointer`.
            cache: Where results of nodes with a cache policy are kept.
            store: Memory across threads, for nodes.
            interrupt_before: Nodes to pause before, or `"*"`.
            interrupt_after: Nodes to pause after, or `"*"`.
            debug: Accepted; use `stream_mode="debug"`.
            name: The graph's name. A named graph refuses threads of a graph with another name.
            renames: Old node names to new ones, for threads that were saved under the old.
            on_conflict: What a run does when another one works on its thread.

        Raises:
            GraphError: The graph is not complete; see `validate`.
        """
        from threadmark.graph.compile import draw, make_plan, validate

        flag("debug", debug)
        text("name", name, optional=True)
        check_renames(renames)
        one_of("on_conflict", on_conflict, get_args(OnConflict))
        check_checkpointer(checkpointer)
        before, after = stops("interrupt_before", interrupt_before), stops("interrupt_after", interrupt_after)
        validate(self, [stop for stop in [*before, *after] if stop != "*"])
        return CompiledStateGraph(
            make_plan(self, name, renames or {}),
            builder=self,
            checkpointer=checkpointer,
            store=store,
            cache=cache,
            interrupt_before=before,
            interrupt_after=after,
            context_schema=self.context_schema,
            drawing=lambda xray: draw(self, xray),
            on_conflict=on_conflict,
        )


def stops(name: str, names: All | Sequence[str] | None) -> All | tuple[str, ...]:
    """Return the nodes to pause at; a single name may stand for itself."""
    if isinstance(names, str) and names == "*":
        return "*"
    return () if names is None else tuple(listed(name, names, "nodes, or '*'"))


def destinations_of(given: Any) -> Any:
    """Return the nodes that `destinations` names; as a dict it gives them labels."""
    return list(given) if isinstance(given, Mapping) else given


def check_migrations(migrate: Any) -> None:
    """Refuse what is no dict from versions to functions."""
    fits = migrate is None or (
        isinstance(migrate, Mapping)
        and all(isinstance(n, int) and not isinstance(n, bool) and callable(f) for n, f in migrate.items())
    )
    if not fits:
        raise wrong("migrate", migrate, "a dict from versions to functions, or None")


def check_renames(renames: Any) -> None:
    """Refuse what is no dict from old names to new ones."""
    fits = isinstance(renames, Mapping | None) and all(
        isinstance(name, str) for pair in (renames or {}).items() for name in pair
    )
    if not fits:
        raise wrong("renames", renames, "a dict from old node names to new ones, or None")


def check_path_map(path_map: Any) -> None:
    """Refuse what is neither a list of nodes nor a dict from answers to nodes."""
    named = path_map.values() if isinstance(path_map, Mapping) else path_map
    if path_map is not None:
        usable = isinstance(path_map, Mapping | list | tuple) and all(isinstance(n, str) for n in named)
        if not usable:
            raise wrong("path_map", path_map, "a list of nodes, a dict from answers to nodes, or None")


class CompiledStateGraph(Pregel, Generic[StateT, ContextT, InputT, OutputT]):
    """A compiled `StateGraph`.

    Attributes:
        builder: The graph that it was compiled from.
    """

    def __init__(
        self, *args: Any, builder: StateGraph[StateT, ContextT, InputT, OutputT], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.builder = builder


def annotated_schema(code: Any) -> type[Any] | None:
    """Return the schema that the first parameter of some code is annotated with, if it is one."""
    if is_runnable(code):
        return None
    hints = {k: v for k, v in hints_of(code).items() if k != "return"}
    first = next(iter(hints.values()), None) if first_is_annotated(code, hints) else None
    return first if isinstance(first, type) and has_keys(first) else None


def first_is_annotated(code: Any, hints: Mapping[str, Any]) -> bool:
    """Tell whether the first annotated parameter is the first parameter."""
    try:
        names = list(inspect.signature(code).parameters)
    except (TypeError, ValueError):
        return False
    return bool(names) and names[0] in hints and next(iter(hints)) == names[0]


def has_keys(schema: type[Any]) -> bool:
    """Tell whether a class describes a state of several keys."""
    found = schema_of(schema) if schema.__module__ != "builtins" else None
    return found is not None and not found.is_root


def command_targets(code: Any) -> tuple[str, ...]:
    """Return the nodes that a return annotation `Command[Literal[...]]` names."""
    if is_runnable(code):
        return ()
    found: list[str] = []
    for option in flat_union(hints_of(code).get("return")):
        if get_origin(option) is Command:
            found += [n for arg in get_args(option) for n in literals(arg)]
    return tuple(found)


def literal_answers(path: Any) -> tuple[str, ...]:
    """Return the node names that the return annotation of a condition names."""
    if is_runnable(path):
        return ()
    hint = hints_of(path).get("return")
    options = [a for option in flat_union(hint) for a in (get_args(option) if is_list(option) else [option])]
    if any(option is Send for option in options):
        return ()
    return tuple(n for option in options for n in literals(option))


def is_list(annotation: Any) -> bool:
    """Tell whether an annotation is a list or sequence of something."""
    return get_origin(annotation) in (list, Sequence)


def flat_union(annotation: Any) -> list[Any]:
    """Return the options of a union, or the annotation itself."""
    if get_origin(annotation) in (Union, types.UnionType):
        return list(get_args(annotation))
    return [annotation]


def literals(annotation: Any) -> list[str]:
    """Return the values of a `Literal`."""
    return [str(v) for v in get_args(annotation)] if get_origin(annotation) is Literal else []
