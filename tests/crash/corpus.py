"""Small graphs, one for each way in which a run can go on, that note what ran.

A `Story` builds a graph and knows its input and its answers. Its nodes are plain functions of their input, so
the end of a story is the same however often it was stopped on the way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from typing_extensions import TypedDict

from threadmark.graph import END, START, StateGraph
from threadmark.runtime import get_runtime
from threadmark.types import Command, RetryPolicy, Send, interrupt

__all__ = ["STORIES", "State", "Story", "World"]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    count: int
    facts: dict[str, Any]
    item: str


@dataclass
class World:
    """What lies outside of a graph: which tasks came to their end, and what is still broken.

    Attributes:
        ran: Node and task id of each node call that came to its end, in order.
        mended: What failed once and works from then on.
        options: Passed to `compile` of graphs and sub-graphs.
    """

    ran: list[tuple[str, str]] = field(default_factory=list)
    mended: set[str] = field(default_factory=set)
    options: dict[str, Any] = field(default_factory=dict)

    def note(self, name: str) -> None:
        """Take note that the running node comes to its end."""
        info = get_runtime().execution_info
        assert info is not None
        self.ran.append((name, info.task_id))

    def fail_once(self, what: str, error: Exception) -> None:
        """Raise an error the first time."""
        if what not in self.mended:
            self.mended.add(what)
            raise error

    def node(self, name: str, **update: Any) -> Callable[[State], dict[str, Any]]:
        """Return a node that notes itself in the log of the state."""

        def run(state: State) -> dict[str, Any]:
            self.note(name)
            return {"log": [name], **update}

        return run

    def compile(self, graph: StateGraph[State], **options: Any) -> Any:
        """Compile a graph with the options of this world."""
        return graph.compile(**{**self.options, **options})


@dataclass(frozen=True)
class Story:
    """A graph with all that it needs to come to its end.

    Attributes:
        name: What the story is about.
        build: Makes the graph, without a saver.
        input: The input.
        answer: Makes the answer to a question from its value.
    """

    name: str
    build: Callable[[World], StateGraph[State]]
    input: dict[str, Any] = field(default_factory=lambda: {"log": ["in"], "count": 0})
    answer: Callable[[Any], Any] = lambda question: f"re:{question}"


def linked(graph: StateGraph[State], *names: str) -> StateGraph[State]:
    """Connect nodes in a row from start to end."""
    for start, end in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(start, end)
    return graph


def chain(world: World) -> StateGraph[State]:
    graph = StateGraph(State)
    for name in "abc":
        graph.add_node(name, world.node(name, facts={"last": name}))
    return linked(graph, *"abc")


def fan_out(world: World) -> StateGraph[State]:
    def split(state: State) -> list[Send]:
        return [Send("work", {"item": item}) for item in ("x", "y", "z")]

    def work(state: State) -> dict[str, Any]:
        world.note(f"work {state['item']}")
        return {"log": [state["item"]]}

    graph = StateGraph(State).add_node("plan", world.node("plan")).add_node("work", work)
    graph.add_node("sum", world.node("sum"))
    graph.add_edge(START, "plan").add_conditional_edges("plan", split, ["work"])
    return graph.add_edge("work", "sum").add_edge("sum", END)


def join(world: World) -> StateGraph[State]:
    graph = StateGraph(State)
    for name in ("left", "right", "further", "both"):
        graph.add_node(name, world.node(name))
    graph.add_edge(START, "left").add_edge(START, "right").add_edge("right", "further")
    return graph.add_edge(["left", "further"], "both").add_edge("both", END)


def loop(world: World) -> StateGraph[State]:
    def again(state: State) -> dict[str, Any]:
        world.note(f"again {state['count']}")
        return {"count": state["count"] + 1, "log": [str(state["count"])]}

    graph = StateGraph(State).add_node(again).add_edge(START, "again")
    return graph.add_conditional_edges("again", lambda s: "again" if s["count"] < 4 else END, ["again", END])


def asking(world: World) -> StateGraph[State]:
    def ask(state: State) -> dict[str, Any]:
        first, second = interrupt("first"), interrupt("second")
        world.note("ask")
        return {"log": [first, second]}

    graph = StateGraph(State).add_node("a", world.node("a")).add_node(ask).add_node("z", world.node("z"))
    return linked(graph, "a", "ask", "z")


def asking_twice_at_once(world: World) -> StateGraph[State]:
    def asker(name: str) -> Callable[[State], dict[str, Any]]:
        def ask(state: State) -> dict[str, Any]:
            answer = interrupt(name)
            world.note(name)
            return {"log": [answer]}

        return ask

    graph = StateGraph(State).add_node("left", asker("left")).add_node("right", asker("right"))
    graph.add_node("busy", world.node("busy")).add_node("end", world.node("end"))
    for name in ("left", "right", "busy"):
        graph.add_edge(START, name)
    return graph.add_edge(["left", "right", "busy"], "end").add_edge("end", END)


def inner_graph(world: World, *, ask: bool) -> StateGraph[State]:
    def one(state: State) -> dict[str, Any]:
        world.note("one")
        return {"log": ["one"]}

    def two(state: State) -> dict[str, Any]:
        answer = interrupt("inside") if ask else "two"
        world.note("two")
        return {"log": [answer]}

    return linked(StateGraph(State).add_node(one).add_node(two), "one", "two")


def with_subgraph(world: World) -> StateGraph[State]:
    def call(state: State) -> dict[str, Any]:
        result = inner.invoke({"log": []})
        world.note("call")
        return {"log": result["log"]}

    inner = world.compile(inner_graph(world, ask=True))
    graph = StateGraph(State).add_node("a", world.node("a")).add_node(call).add_node("z", world.node("z"))
    return linked(graph, "a", "call", "z")


def with_subgraph_as_node(world: World) -> StateGraph[State]:
    class Inner(TypedDict, total=False):
        count: int
        facts: dict[str, Any]

    def up(state: Inner) -> dict[str, Any]:
        world.note(f"up {state['count']}")
        return {"count": state["count"] + 1}

    def fact(state: Inner) -> dict[str, Any]:
        world.note("fact")
        return {"facts": {"seen": state["count"]}}

    inner = StateGraph(Inner).add_node(up).add_node(fact)
    inner.add_edge(START, "up").add_edge("up", "fact").add_edge("fact", END)
    graph = StateGraph(State).add_node("sub", world.compile(inner)).add_node("z", world.node("z"))  # type: ignore[arg-type]
    graph.add_node("side", world.node("side")).add_edge(START, "side").add_edge("side", END)
    return linked(graph, "sub", "z")


def with_lasting_subgraph(world: World) -> StateGraph[State]:
    class Memory(TypedDict, total=False):
        seen: Annotated[list[int], operator.add]
        count: int

    def remember(state: Memory) -> dict[str, Any]:
        world.note(f"remember {state['count']}")
        return {"seen": [state["count"]]}

    def count(state: Memory) -> dict[str, Any]:
        world.note(f"count {state['count']}")
        return {"count": state["count"] + 10}

    inner = StateGraph(Memory).add_node(remember).add_node(count)
    inner.add_edge(START, "remember").add_edge("remember", "count").add_edge("count", END)
    memory = world.compile(inner, checkpointer=True)  # type: ignore[arg-type]

    def call(state: State) -> dict[str, Any]:
        result = memory.invoke({"count": state["count"]})
        world.note(f"call {state['count']}")
        return {"count": result["count"], "log": [repr(result["seen"])]}

    graph = StateGraph(State).add_node(call).add_edge(START, "call")
    return graph.add_conditional_edges("call", lambda s: "call" if s["count"] < 20 else END, ["call", END])


def commanding(world: World) -> StateGraph[State]:
    def a(state: State) -> Command[str]:
        world.note("a")
        return Command(update={"log": ["a"]}, goto=["b", Send("work", {"item": "sent"})])

    def work(state: State) -> dict[str, Any]:
        world.note("work")
        return {"log": [state["item"]]}

    graph = StateGraph(State).add_node("a", a, destinations=("b", "work")).add_node(work)
    return graph.add_node("b", world.node("b")).add_edge(START, "a")


def commanding_parent(world: World) -> StateGraph[State]:
    def leave(state: State) -> Command[str]:
        world.note("leave")
        return Command(graph=Command.PARENT, update={"log": ["left"]}, goto="after")

    inner = StateGraph(State).add_node("pre", world.node("pre")).add_node("leave", leave)
    inner.add_edge(START, "pre").add_edge("pre", "leave")
    graph = StateGraph(State).add_node("sub", world.compile(inner), destinations=("after",))
    return graph.add_node("after", world.node("after")).add_edge(START, "sub")


def retrying(world: World) -> StateGraph[State]:
    def flaky(state: State) -> dict[str, Any]:
        world.fail_once("flaky", ConnectionError("try again"))
        world.note("flaky")
        return {"log": ["flaky"]}

    retry = RetryPolicy(initial_interval=0, jitter=False)
    graph = StateGraph(State).add_node(flaky, retry_policy=retry).add_node("z", world.node("z"))
    return linked(graph, "flaky", "z")


def failing(world: World) -> StateGraph[State]:
    def bad(state: State) -> dict[str, Any]:
        world.fail_once("bad", ValueError("broken"))
        world.note("bad")
        return {"log": ["bad"]}

    graph = StateGraph(State).add_node(bad).add_node("z", world.node("z"))
    for name in ("good", "fine"):
        graph.add_node(name, world.node(name)).add_edge(START, name)
    return linked(graph, "bad", "z")


def handling(world: World) -> StateGraph[State]:
    def bad(state: State) -> dict[str, Any]:
        raise ValueError("always")

    def cure(state: State) -> dict[str, Any]:
        world.note("cure")
        return {"log": ["cured"]}

    def ask(state: State) -> dict[str, Any]:
        answer = interrupt("beside")
        world.note("ask")
        return {"log": [answer]}

    graph = StateGraph(State).add_node("bad", bad, error_handler=cure).add_node(ask)
    graph.add_node("z", world.node("z")).add_edge(START, "bad").add_edge(START, "ask")
    return graph.add_edge(["bad", "ask"], "z").add_edge("z", END)


def deferring(world: World) -> StateGraph[State]:
    graph = StateGraph(State).add_node("late", world.node("late"), defer=True)
    for name in "abc":
        graph.add_node(name, world.node(name))
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c")
    return graph.add_edge("a", "late").add_edge("c", "late").add_edge("late", END)


def choosing(world: World) -> StateGraph[State]:
    def route(state: State) -> Sequence[str]:
        return ["even", "odd"] if "first" in state["log"] else [END]

    graph = StateGraph(State)
    for name in ("first", "even", "odd"):
        graph.add_node(name, world.node(name))
    graph.add_edge(START, "first").add_conditional_edges("first", route, ["even", "odd", END])
    return graph.add_edge("even", END).add_edge("odd", END)


STORIES = [
    Story("chain", chain),
    Story("fan_out", fan_out),
    Story("join", join),
    Story("loop", loop),
    Story("asking", asking),
    Story("asking_twice_at_once", asking_twice_at_once),
    Story("with_subgraph", with_subgraph),
    Story("with_subgraph_as_node", with_subgraph_as_node),
    Story("with_lasting_subgraph", with_lasting_subgraph),
    Story("commanding", commanding),
    Story("commanding_parent", commanding_parent),
    Story("retrying", retrying),
    Story("failing", failing),
    Story("handling", handling),
    Story("deferring", deferring),
    Story("choosing", choosing),
]
