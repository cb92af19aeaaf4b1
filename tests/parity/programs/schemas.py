"""The shapes of state: schemas for input, output and single nodes, dataclasses, Pydantic, reducers."""

import functools
import itertools
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, Optional

from pydantic import BaseModel
from typing_extensions import TypedDict

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}
EVENTS = ["values", "updates", "tasks"]


class Question(TypedDict):
    question: str


class Reply(TypedDict):
    answer: str


class Private(TypedDict):
    notes: str


class Whole(Question, Reply):
    pass


def think(state: Question) -> Private:
    return {"notes": f"thinking of {state['question']} ({sorted(state)})"}


def speak(state: Private) -> Reply:
    return {"answer": f"{state['notes']} ({sorted(state)})"}


@program()
async def input_output_and_private_keys(t: Trace) -> None:
    graph = t.lib.StateGraph(Whole, input_schema=Question, output_schema=Reply)
    graph.add_sequence([think, speak]).add_edge(t.lib.START, "think")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"question": "why?", "unknown": 1, "answer": "given"}, HERE)
    await t.stream(app, {"question": "how?"}, HERE, stream_mode=EVENTS)
    await t.history(app, HERE)


@program()
async def a_node_can_be_given_its_own_schema(t: Trace) -> None:
    class Narrow(TypedDict):
        question: str

    graph = t.lib.StateGraph(Whole)
    graph.add_node("look", lambda s: {"answer": str(sorted(s))}, input_schema=Narrow)
    app = graph.add_edge(t.lib.START, "look").compile(checkpointer=await t.saver())
    await t.stream(app, {"question": "q", "answer": "a"}, HERE, stream_mode=EVENTS)


@dataclass
class Point:
    x: int = 0
    path: Annotated[list[str], operator.add] = field(default_factory=list)


@program()
async def a_dataclass_as_state(t: Trace) -> None:
    def right(state: Point) -> dict[str, Any]:
        return {"x": state.x + 1, "path": [f"{type(state).__name__} {state.x}"]}

    def jump(state: Point) -> Point:
        return Point(x=state.x * 10, path=["jump"])

    graph = t.lib.StateGraph(Point).add_sequence([right, jump]).add_edge(t.lib.START, "right")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"x": 1}, HERE, stream_mode=EVENTS)
    await t.invoke(app, Point(x=5, path=["start"]), HERE)
    await t.invoke(app, {}, {"configurable": {"thread_id": "2"}})
    await t.history(app, HERE)


class Form(BaseModel):
    name: str
    age: Optional[int] = None  # noqa: UP045 - both spellings must work
    log: Annotated[list[str], operator.add] = []


@program()
async def a_pydantic_model_as_state(t: Trace) -> None:
    def check(state: Form) -> dict[str, Any]:
        return {"log": [f"{type(state).__name__} {state.name} {state.age}"]}

    def finish(state: Form) -> Form:
        return Form(name=state.name.upper(), age=7)

    graph = t.lib.StateGraph(Form).add_sequence([check, finish]).add_edge(t.lib.START, "check")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"name": "ada", "age": 36}, HERE)
    await t.invoke(app, Form(name="bob"), HERE)
    await t.invoke(app, {"name": "eve", "age": "not a number"}, HERE)
    await t.invoke(app, {"name": "ann", "age": "41"}, {"configurable": {"thread_id": "2"}})
    await t.invoke(app, {"age": 3}, {"configurable": {"thread_id": "3"}})


@program(savers=("memory",))
async def a_pydantic_node_checks_what_the_one_before_wrote(t: Trace) -> None:
    graph = t.lib.StateGraph(Form)
    graph.add_node("wrong", lambda state: {"age": "old"})
    graph.add_node("reader", lambda state: {"log": ["read"]})
    graph.add_edge(t.lib.START, "wrong").add_edge("wrong", "reader")
    result = await t.call(graph.compile(), "invoke", {"name": "x"})
    t.note("refused", type(result).__name__)


@program(savers=("memory",))
async def the_second_version_returns_the_states_class(t: Trace) -> None:
    for schema, given in ((Point, {"x": 1}), (Form, {"name": "a"}), (Whole, {"question": "q"})):
        graph = t.lib.StateGraph(schema).add_node("n", lambda s: {}).add_edge(t.lib.START, "n")
        app = graph.compile()
        await t.invoke(app, given, version="v2")
        await t.stream(app, given, stream_mode="values", version="v2")


def keep_largest(old: int, new: int) -> int:
    return max(old, new)


def scaled(old: int, new: int, *, by: int = 3) -> int:
    return old + by * new


class Reduced(TypedDict):
    total: Annotated[int, operator.add]
    largest: Annotated[int, keep_largest]
    merged: Annotated[dict[str, int], lambda old, new: {**old, **new}]
    names: Annotated[set[str], operator.or_]
    times: Annotated[int, scaled]
    documented: Annotated[str, "a note for readers", operator.add]
    plain: Annotated[str, "only a note"]
    maybe: NotRequired[str]


@program()
async def reducers_of_many_kinds(t: Trace) -> None:
    first = {"total": 1, "largest": 5, "merged": {"a": 1}, "names": {"x"}, "times": 1}
    second = {"total": 2, "largest": 3, "merged": {"b": 2}, "names": {"y"}, "times": 2}
    graph = t.lib.StateGraph(Reduced)
    graph.add_node("one", lambda s: {**first, "documented": "1", "plain": "p"})
    graph.add_node("two", lambda s: {**second, "documented": "2"})
    for name in ("one", "two"):
        graph.add_edge(t.lib.START, name)
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"total": 10}, HERE)
    await t.history(app, HERE)


@program(savers=("memory",), modes=("sync",))
async def a_reducer_takes_two_values(t: Trace) -> None:
    def of(reducer: Any) -> Any:
        return TypedDict("Odd", {"key": Annotated[int, reducer]})

    for reducer in (lambda one: one, lambda one, two, three: one):
        try:
            t.lib.StateGraph(of(reducer))
        except Exception as error:
            t.note("refused", error)


@program(savers=("memory",))
async def a_state_without_keys(t: Trace) -> None:
    graph = t.lib.StateGraph(dict).add_node("n", lambda s: {**s, "seen": True})
    await t.invoke(graph.add_edge(t.lib.START, "n").compile(), {"given": 1})

    graph = t.lib.StateGraph(Annotated[list[int], operator.add])
    graph.add_node("n", lambda s: [len(s)]).add_edge(t.lib.START, "n")
    await t.stream(graph.compile(), [5, 6], stream_mode=["values", "updates"])


class Toolbox:
    """Nodes that are methods and callable objects."""

    def method(self, state: Reduced) -> dict[str, Any]:
        return {"documented": "method "}

    def __call__(self, state: Reduced) -> dict[str, Any]:
        return {"documented": "call "}


@program(savers=("memory",))
async def nodes_of_many_kinds(t: Trace) -> None:
    from langchain_core.runnables import RunnableLambda

    def word(state: Reduced, text: str) -> dict[str, Any]:
        return {"documented": text}

    graph = t.lib.StateGraph(Reduced)
    graph.add_node(Toolbox().method)
    graph.add_node("callable", Toolbox())
    graph.add_node("partial", functools.partial(word, text="partial "))
    graph.add_node("runnable", RunnableLambda(lambda s: {"documented": "runnable "}))
    names = ["method", "callable", "partial", "runnable"]
    graph.add_edge(t.lib.START, "method")
    for source, target in itertools.pairwise(names):
        graph.add_edge(source, target)
    await t.stream(graph.compile(), {"documented": ""}, stream_mode="updates")


@program(savers=("memory",))
async def a_sequence_names_its_nodes(t: Trace) -> None:
    def one(state: Reduced) -> dict[str, Any]:
        return {"documented": "one "}

    graph = t.lib.StateGraph(Reduced)
    graph.add_sequence([one, ("two", lambda s: {"documented": "two "})])
    graph.add_edge(t.lib.START, "one")
    await t.stream(graph.compile(), {"documented": ""}, stream_mode="updates")
    t.note("nodes", list(graph.nodes))


@program(savers=("memory",))
async def unknown_keys_are_ignored(t: Trace) -> None:
    graph = t.lib.StateGraph(Whole).add_node("n", lambda s: {"nonsense": 1, "answer": "a"})
    app = graph.add_edge(t.lib.START, "n").compile()
    await t.stream(app, {"question": "q", "extra": 2}, stream_mode=EVENTS)
