"""What cannot work is refused when the graph is built, or where it is returned, and not later."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterator
from typing import Any

import pytest
from typing_extensions import TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import GraphError, InvalidArgumentError, InvalidUpdateError
from threadmark.graph import START, StateGraph
from threadmark.types import Command

UNSTORABLE = ["a\x00b", "\ud800", "", "x" * 5_000]
THREAD: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    count: int


@dataclasses.dataclass
class Other:
    name: str = "no key of the state"


class Plain:
    name: str = "no key of the state"


class Color(enum.Enum):
    red = 1


def returning(value: Any) -> Any:
    builder = StateGraph(State).add_node("only", lambda state: value).add_edge(START, "only")
    return builder.compile(InMemorySaver())


@pytest.mark.parametrize("name", UNSTORABLE)
def test_names_that_no_database_keeps_are_refused_when_the_graph_is_built(name: str) -> None:
    with pytest.raises(GraphError, match="cannot be saved"):
        StateGraph(State).add_node(name, lambda state: None)
    with pytest.raises(GraphError, match="cannot be saved"):
        StateGraph(TypedDict("Keyed", {name: int}))  # type: ignore[misc]


@pytest.mark.parametrize(
    "value",
    [
        State,
        Other,
        Plain,
        int,
        Other(),
        Plain(),
        Color.red,
        len,
        types,
        object(),
        {1},
        "text",
        5,
        b"x",
        iter(()),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, type) else f"class {value.__name__}",
)
def test_what_is_no_update_is_refused_where_it_is_returned(value: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="'only' returned"):
        returning(value).invoke({"count": 1}, THREAD)


@pytest.mark.parametrize("goto", [["x", ["y"]], [{}], [5], [None], 5])
def test_going_to_what_is_no_node_is_refused(goto: Any) -> None:
    for run in (
        lambda: returning(Command(goto=goto)).invoke({"count": 1}, THREAD),
        lambda: returning(None).invoke(Command(goto=goto), THREAD),
    ):
        with pytest.raises(InvalidUpdateError):
            run()


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver(":memory:") as opened:
            yield opened


def test_what_is_set_on_a_compiled_graph_counts(saver: Any) -> None:
    builder = StateGraph(State).add_node("only", lambda state: {"count": 2}).add_edge(START, "only")
    graph = builder.compile()
    graph.checkpointer = saver
    graph.interrupt_before_nodes = ["only"]
    graph.stream_mode = "values"
    graph.name = "counter"
    assert list(graph.stream({"count": 1}, THREAD)) == [{"count": 1}]
    assert graph.get_state(THREAD).next == ("only",)
    assert graph.get_name() == "counter"
    metadata = graph.get_state(THREAD).metadata
    assert metadata is not None
    assert metadata["graph"] == "counter"  # type: ignore[typeddict-item]
    graph.interrupt_before_nodes = []
    assert graph.invoke(None, THREAD) == {"count": 2}


@pytest.mark.parametrize(
    "name", ["step_timeout", "retry_policy", "cache_policy", "debug", "nodes", "channels"]
)
def test_setting_what_would_change_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Setting {name} would change nothing"):
        setattr(returning(None), name, 5)


def test_a_namespace_that_names_no_sub_graph_runs_nothing(saver: Any) -> None:
    graph = returning({"count": 2})
    graph.checkpointer = saver
    for ns in ("zz", "only", "only:1", "only|zz", 5):
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ns}}
        for call in (lambda c: graph.invoke({"count": 1}, c), graph.get_state):
            with pytest.raises(InvalidArgumentError, match="checkpoint_ns"):
                call(config)
    assert saver.threads.get("t") is None


def test_a_context_that_does_not_fit_is_refused() -> None:
    graph = StateGraph(State, Other).add_node("only", lambda state: None).add_edge(START, "only").compile()
    with pytest.raises(InvalidArgumentError, match="context does not fit Other"):
        graph.invoke({"count": 1}, context={"age": 5})  # type: ignore[arg-type]
