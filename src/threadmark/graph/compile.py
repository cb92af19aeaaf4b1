"""From a builder's notes to a `Plan`: channels, triggers, writers. Also the checks and the picture.

Each node waits on a channel of its own, `branch:to:<node>`; an edge is a write to it. A join waits on a
barrier, `join:<a>+<b>:<node>`. The input goes to `__start__`, which the hidden node of that name turns into
updates of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from threadmark._checks import shown
from threadmark.channels import EphemeralValue, LastValueAfterFinish, NamedBarrierValue, Topic
from threadmark.channels.barrier import NamedBarrierValueAfterFinish
from threadmark.constants import END, START, TASKS
from threadmark.errors import GraphError, InvalidUpdateError
from threadmark.graph.outputs import OutputWriter, StartWriter, router
from threadmark.graph.schema import Schema, updates_from
from threadmark.pregel.call import Func, cache_namespace, hints_of, make_func
from threadmark.pregel.code import all_names, has_contents, held_graphs, seconds
from threadmark.pregel.main import Pregel
from threadmark.pregel.plan import Branch, Channels, Node, Plan, Write
from threadmark.types import Send

if TYPE_CHECKING:
    from threadmark.graph.state import BranchSpec, NodeSpec, StateGraph
    from threadmark.pregel.draw import Drawing

__all__ = ["draw", "make_plan", "validate"]

PASS = Func(START, lambda value: value, None, cheap=True)
"""The code of the hidden first node."""


# Checks


def validate(builder: StateGraph[Any, Any, Any, Any], interrupt: Iterable[str]) -> None:
    """Check a graph.

    Raises:
        GraphError: Something names a node that does not exist, nothing is the entry, or a node cannot be
            reached.
    """
    notes, known = builder.notes, builder.notes.nodes.keys()
    starts = {s for s, _ in notes.edges} | {s for ss, _ in notes.joins for s in ss} | notes.branches.keys()
    ends = {e for _, e in notes.edges} | {e for _, e in notes.joins} | branch_ends(builder)
    for start in sorted(starts - known - {START}):
        raise GraphError(f"An edge leaves {start!r}, which is no node. Nodes: {names(known)}.")
    for end in sorted(ends - known - {END}):
        raise GraphError(f"An edge leads to {end!r}, which is no node. Nodes: {names(known)}.")
    for name, node in notes.nodes.items():
        for target in node.destinations:
            if target not in known and target != END:
                raise GraphError(
                    f"Node {name!r} may go to {target!r}, which is no node. Nodes: {names(known)}."
                )
    if START not in starts:
        raise GraphError("Nothing is the entry of the graph. Add an edge from START, or set_entry_point().")
    for stop in interrupt:
        if stop not in known:
            raise GraphError(f"The graph is to pause at {stop!r}, which is no node. Nodes: {names(known)}.")
    check_reachable(builder)


def names(known: Iterable[str]) -> str:
    """Return node names for a message."""
    return ", ".join(sorted(known)) or "none"


def branch_ends(builder: StateGraph[Any, Any, Any, Any]) -> set[str]:
    """Return all nodes that conditions say they may lead to."""
    return {
        end for branches in builder.notes.branches.values() for b in branches.values() for end in b.ends or ()
    }


def check_reachable(builder: StateGraph[Any, Any, Any, Any]) -> None:
    """Refuse nodes that nothing leads to, as far as that can be known before the graph runs."""
    notes = builder.notes
    if any(b.ends is None for branches in notes.branches.values() for b in branches.values()):
        return
    handlers = [node.error_handler or notes.defaults.error_handler for node in notes.nodes.values()]
    if any(not node.destinations and may_jump(node.code) for node in notes.nodes.values()):
        return
    if any(handler is not None and may_jump(handler) for handler in handlers):
        return
    steps: dict[str, set[str]] = {}
    for start, end in notes.edges:
        steps.setdefault(start, set()).add(end)
    for starts, end in notes.joins:
        for start in starts:
            steps.setdefault(start, set()).add(end)
    for start, branches in notes.branches.items():
        steps.setdefault(start, set()).update(e for b in branches.values() for e in b.ends or ())
    for name, node in notes.nodes.items():
        steps.setdefault(name, set()).update(node.destinations)
    reached, todo = {START}, [START]
    while todo:
        for end in steps.get(todo.pop(), set()) - reached:
            reached.add(end)
            todo.append(end)
    for lost in sorted(notes.nodes.keys() - reached):
        raise GraphError(f"Nothing leads to the node {lost!r}. Add an edge to it, or remove it.")


def may_jump(code: Any, depth: int = 4) -> bool:
    """Tell whether some code might return a `Command` or a `Send` without saying so. When in doubt, yes."""
    while hasattr(code, "func") and hasattr(code, "args"):
        code = code.func
    code = getattr(code, "__func__", code)
    if not isinstance(code, FunctionType):
        return True
    returned = hints_of(code).get("return")
    if returned is not None and "Command" not in str(returned) and "Any" not in str(returned):
        return False
    used = set(all_names(code.__code__))
    if used & {"Command", "Send", "goto"} or depth == 0:
        return True
    helpers = [code.__globals__.get(name) for name in used]
    cells = [cell.cell_contents for cell in code.__closure__ or () if has_contents(cell)]
    return any(
        may_jump(h, depth - 1) for h in [*helpers, *cells] if isinstance(h, FunctionType) and h is not code
    )


# The plan


def make_plan(builder: StateGraph[Any, Any, Any, Any], name: str | None, renames: Mapping[str, str]) -> Plan:
    """Return the plan of a checked graph."""
    channels: Channels = {k: c.clone() for k, c in builder.channels.items()}
    for key, channel in channels.items():
        channel.key = key
    channels[START] = EphemeralValue(builder.input.type, key=START)
    channels[TASKS] = Topic(Send, accumulate=False, key=TASKS)
    nodes = {START: start_node(builder)}
    for key, spec in builder.notes.nodes.items():
        kind = LastValueAfterFinish if spec.defer else unguarded
        channels[f"branch:to:{key}"] = kind(Any, key=f"branch:to:{key}")
        nodes[key] = make_node(builder, key, spec)
    for starts, end in builder.notes.joins:
        if end != END:
            deferred = builder.notes.nodes[end].defer
            barrier = NamedBarrierValueAfterFinish if deferred else NamedBarrierValue
            channels[join_name(starts, end)] = barrier(str, set(starts), key=join_name(starts, end))
    user_keys = tuple(builder.channels)
    root = builder.state.is_root
    return Plan(
        name=name or "graph",
        named=name is not None,
        nodes=nodes,
        channels=channels,
        managed={k: m.get for schema in builder.schemas.values() for k, m in schema.managed.items()},
        input_channel=START,
        output_keys=user_keys[0] if root else builder.output.keys,
        state_keys=user_keys[0] if root else user_keys,
        trim=input_checker(builder),
        version=builder.version,
        migrate=builder.migrate,
        renames=dict(renames),
        updates=command_writer(builder).command_update,
        shape=builder.state.instance,
        output_shape=builder.output.instance,
        known_types=known_types(builder),
    )


def unguarded(typ: Any, key: str) -> EphemeralValue[Any]:
    """Return the channel that wakes a node: several edges may write to it in one superstep."""
    return EphemeralValue(typ, guard=False, key=key)


def join_name(starts: Sequence[str], end: str) -> str:
    """Return the name of the channel of a join."""
    return f"join:{'+'.join(starts)}:{end}"


def input_checker(builder: StateGraph[Any, Any, Any, Any]) -> Any:
    """Return the function that refuses inputs of the wrong kind."""
    if builder.input.is_root:
        return lambda given: given

    def check(given: Any) -> Any:
        if isinstance(given, dict) or is_pairs(given) or is_instance(given):
            return given
        raise InvalidUpdateError(
            f"The input must be a dict with keys of the state, not a {type(given).__name__}: {shown(given)}"
        )

    def is_pairs(given: Any) -> bool:
        return isinstance(given, list | tuple) and all(isinstance(p, tuple) and len(p) == 2 for p in given)

    def is_instance(given: Any) -> bool:
        return updates_from(given, frozenset()) is not None

    return check


def command_writer(builder: StateGraph[Any, Any, Any, Any], edges: Sequence[Write] = ()) -> OutputWriter:
    """Return what turns a command that a run is given into writes."""
    keys, says = tuple(builder.channels), "The update of the command is"
    return OutputWriter("Command", keys, builder.notes.nodes, edges, says=says)


def start_node(builder: StateGraph[Any, Any, Any, Any]) -> Node:
    """Return the hidden node that turns the input into updates and takes the first edges."""
    keys, edges = builder.input.keys, edge_writes(builder, START)
    return Node(
        name=START,
        func=PASS,
        triggers=(START,),
        read=lambda channels, managed: channels[START].value,
        writes=StartWriter(
            OutputWriter(START, keys, builder.notes.nodes, edges, strict=False),
            command_writer(builder, edges),
        ),
        branches=make_branches(builder, START, builder.input),
        hidden=True,
    )


def edge_writes(builder: StateGraph[Any, Any, Any, Any], start: str) -> list[Write]:
    """Return the writes that the plain edges of a node make."""
    writes: list[Write] = [
        (f"branch:to:{e}", None) for s, e in builder.notes.edges if s == start and e != END
    ]
    writes += [(join_name(ss, e), start) for ss, e in builder.notes.joins if start in ss and e != END]
    return writes


def make_node(builder: StateGraph[Any, Any, Any, Any], name: str, spec: NodeSpec) -> Node:
    """Return a node as the engine runs it."""
    defaults = builder.notes.defaults
    joins = [join_name(ss, e) for ss, e in builder.notes.joins if e == name]
    handler = spec.error_handler or defaults.error_handler
    run_timeout, idle_timeout = seconds(spec.timeout if spec.timeout is not None else defaults.timeout)
    graphs = held_graphs(spec.code)
    return Node(
        name=name,
        func=spec.func,
        triggers=(f"branch:to:{name}", *joins),
        read=spec.schema.read_root if spec.schema.is_root else spec.schema.read,
        writes=OutputWriter(
            name,
            tuple(builder.channels),
            builder.notes.nodes,
            edge_writes(builder, name),
            many=spec.func.many,
            plain=plain_keys(builder) if spec.func.many else (),
            strict=not isinstance(spec.code, Pregel),
        ),
        coerce=spec.schema.coerce if spec.schema.make is not None else None,
        branches=make_branches(builder, name, spec.schema),
        retry=spec.retry if spec.retry is not None else defaults.retry or (),
        cache=spec.cache or defaults.cache,
        timeout=run_timeout,
        idle_timeout=idle_timeout,
        subgraphs=graphs,
        on_error=make_func(handler) if handler is not None else None,
        metadata=spec.metadata,
        cache_namespace=cache_namespace(spec.code, name),
    )


def plain_keys(builder: StateGraph[Any, Any, Any, Any]) -> frozenset[str]:
    """Return the keys that take the last value."""
    return frozenset(k for k, c in builder.channels.items() if not hasattr(c, "operator"))


def make_branches(builder: StateGraph[Any, Any, Any, Any], name: str, schema: Schema) -> tuple[Branch, ...]:
    """Return the conditions that follow a node."""
    specs = builder.notes.branches.get(name, {}).values()
    return tuple(make_branch(builder, name, spec, schema) for spec in specs)


def make_branch(
    builder: StateGraph[Any, Any, Any, Any], name: str, spec: BranchSpec, schema: Schema
) -> Branch:
    """Return a condition as the engine asks it."""
    reads = spec.schema or (builder.state if name != START else schema)
    read = reads.read_root if reads.is_root else reads.read
    return Branch(spec.func, router(name, builder.notes.nodes, spec.path_map), read)


def known_types(builder: StateGraph[Any, Any, Any, Any]) -> frozenset[type]:
    """Return every class that the schemas of a graph and of its sub-graphs name."""
    from threadmark.checkpoint.serde.schema import collect_types

    found: set[type] = set()
    for schema in builder.schemas:
        found |= collect_types(schema)
    for spec in builder.notes.nodes.values():
        for graph in held_graphs(spec.code):
            found |= graph.plan.known_types
    return frozenset(found)


# The picture


def draw(builder: StateGraph[Any, Any, Any, Any], xray: bool | int) -> Drawing:
    """Return the picture of a graph."""
    from threadmark.pregel.draw import Drawing

    notes = builder.notes
    edges: list[tuple[str, str, str | None, bool]] = [(s, e, None, False) for s, e in notes.edges]
    edges += [(s, e, None, False) for ss, e in notes.joins for s in ss]
    for source, branches in notes.branches.items():
        for spec in branches.values():
            if spec.path_map is None:
                edges += [(source, e, None, True) for e in [*notes.nodes, END]]
            else:
                edges += [
                    (source, e, str(answer) if answer != e else None, True)
                    for answer, e in spec.path_map.items()
                ]
    for name, node in notes.nodes.items():
        edges += [(name, e, None, True) for e in node.destinations]
    metadata = {name: node.metadata for name, node in notes.nodes.items() if node.metadata}
    drawing = Drawing.of([START, *notes.nodes, END], edges, metadata)
    if xray:
        depth = xray - 1 if xray is not True else True
        for name, node in notes.nodes.items():
            if isinstance(node.code, Pregel):
                drawing = drawing.expand(name, node.code.get_graph(xray=depth))
    return drawing
