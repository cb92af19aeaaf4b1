"""A paused thread that no longer fits the graph is refused loudly, or mapped as the program says."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from threadmark.errors import GraphChangedError, GraphError, GraphMismatchError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Send, interrupt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def asking(node: str, saver: Any, **options: Any) -> Any:
    """Return a graph whose second node, of this name, asks."""
    builder = StateGraph(State).add_node("first", lambda state: {"log": ["first"]})
    builder.add_node(node, lambda state: {"log": [interrupt("?")]})
    return builder.add_edge(START, "first").add_edge("first", node).compile(saver, **options)


def test_a_paused_thread_whose_node_is_gone_is_refused(saver: Any) -> None:
    asking("ask", saver).invoke({"log": []}, CONFIG)
    changed = asking("ask_user", saver)
    for given in (None, Command(resume="yes")):
        with pytest.raises(GraphChangedError) as caught:
            changed.invoke(given, CONFIG)
        assert caught.value.nodes == ("ask",)
    assert asking("ask", saver).invoke(Command(resume="yes"), CONFIG) == {"log": ["first", "yes"]}


@pytest.mark.parametrize("by_id", [False, True])
def test_a_renamed_node_takes_the_answer_to_its_question(saver: Any, by_id: bool) -> None:
    (asked,) = asking("ask", saver).invoke({"log": []}, CONFIG)["__interrupt__"]
    renamed = asking("ask_user", saver, renames={"ask": "ask_user"})
    state = renamed.get_state(CONFIG)
    assert (state.next, state.interrupts) == (("ask_user",), (asked,))
    result = renamed.invoke(Command(resume={asked.id: "yes"} if by_id else "yes"), CONFIG)
    assert result == {"log": ["first", "yes"]}


def test_a_renamed_node_that_had_finished_does_not_run_again(saver: Any) -> None:
    ran: list[str] = []

    def graph(name: str, **options: Any) -> Any:
        builder = StateGraph(State).add_node(name, lambda state: ran.append(name))
        builder.add_node("ask", lambda state: {"log": [interrupt("?")]})
        return builder.add_edge(START, name).add_edge(START, "ask").compile(saver, **options)

    graph("book").invoke({"log": []}, CONFIG)
    renamed = graph("book_train", renames={"book": "book_train"})
    assert renamed.get_state(CONFIG).next == ("ask",)
    assert renamed.invoke(Command(resume="yes"), CONFIG) == {"log": ["yes"]}
    assert ran == ["book"]


def joining(end: str, saver: Any, slow: str = "slow", defer: bool = False, **options: Any) -> Any:
    """Return a graph that pauses with half of a join done."""
    builder = StateGraph(State).add_node("quick", lambda state: {"log": ["quick"]})
    builder.add_node("step", lambda state: {"log": ["step"]})
    builder.add_node(slow, lambda state: {"log": [interrupt("?")]})
    builder.add_node(end, lambda state: {"log": ["joined"]}, defer=defer)
    builder.add_edge(START, "quick").add_edge(START, "step").add_edge("step", slow)
    return builder.add_edge([slow, "quick"], end).compile(saver, **options)


@pytest.mark.parametrize("defer", [False, True])
def test_half_of_a_join_whose_nodes_are_gone_is_refused(saver: Any, defer: bool) -> None:
    joining("join", saver, defer=defer).invoke({"log": []}, CONFIG)
    with pytest.raises(GraphChangedError) as caught:
        joining("meet", saver, defer=defer).invoke(Command(resume="slow"), CONFIG)
    assert caught.value.nodes == ("join",)
    with pytest.raises(GraphChangedError):
        joining("join", saver, "slower", defer=defer).invoke(Command(resume="slow"), CONFIG)


@pytest.mark.parametrize("defer", [False, True])
def test_half_of_a_join_whose_nodes_were_renamed_is_kept(saver: Any, defer: bool) -> None:
    joining("join", saver, defer=defer).invoke({"log": []}, CONFIG)
    names = {"join": "meet", "slow": "waiting"}
    renamed = joining("meet", saver, "waiting", defer=defer, renames=names)
    (question,) = renamed.invoke(None, CONFIG)["__interrupt__"]
    result = renamed.invoke(Command(resume={question.id: "slow"}), CONFIG)
    assert result == {"log": ["quick", "step", "slow", "joined"]}


def meeting(
    starts: list[str], saver: Any, names: tuple[str, ...] = ("quick", "slow"), late: bool = False
) -> Any:
    """Return a graph whose node `slow` asks, `late` in the second superstep, and whose `end` waits."""
    builder = StateGraph(State).add_node("end", lambda state: {"log": ["end"]})
    for name in names:
        asks = name == "slow"
        builder.add_node(name, lambda state, asks=asks: {"log": [interrupt("?") if asks else "quick"]})
        builder.add_edge("quick" if late and asks else START, name)
    return builder.add_edge(starts, "end").compile(saver)


@pytest.mark.parametrize("late", [False, True])
def test_half_of_a_join_that_joins_differently_now_is_refused_and_not_forgotten(
    saver: Any, late: bool
) -> None:
    three = ("quick", "quick2", "slow")
    before = meeting(["quick", "slow"], saver, three, late)
    before.invoke({"log": []}, CONFIG)
    after = meeting(["quick", "slow", "quick2"], saver, three, late)
    with pytest.raises(GraphChangedError) as caught:
        after.invoke(Command(resume="yes"), CONFIG)
    assert (caught.value.nodes, caught.value.joins) == ((), ((("quick", "slow"), "end"),))
    assert "end" in before.invoke(Command(resume="yes"), CONFIG)["log"]


def test_a_join_that_names_its_nodes_in_another_order_is_the_same(saver: Any) -> None:
    meeting(["quick", "slow"], saver).invoke({"log": []}, CONFIG)
    result = meeting(["slow", "quick"], saver).invoke(Command(resume="slow"), CONFIG)
    assert result == {"log": ["quick", "slow", "end"]}


def test_a_node_with_a_plus_in_its_name_can_be_waited_for(saver: Any) -> None:
    graph = meeting(["qu+ick", "slow"], saver, ("qu+ick", "slow"))
    graph.invoke({"log": []}, CONFIG)
    assert graph.invoke(Command(resume="slow"), CONFIG) == {"log": ["quick", "slow", "end"]}


@pytest.mark.parametrize("defer", [False, True])
def test_a_node_may_be_deferred_from_one_deploy_to_the_next(saver: Any, defer: bool) -> None:
    joining("join", saver, defer=defer).invoke({"log": []}, CONFIG)
    changed = joining("join", saver, defer=not defer)
    assert changed.invoke(Command(resume="slow"), CONFIG) == {"log": ["quick", "step", "slow", "joined"]}


@pytest.mark.parametrize("defer", [False, True])
def test_a_node_that_is_next_may_be_deferred_from_one_deploy_to_the_next(saver: Any, defer: bool) -> None:
    def graph(defer: bool) -> Any:
        builder = StateGraph(State).add_node("only", lambda state: {"log": ["only"]}, defer=defer)
        return builder.add_edge(START, "only").compile(saver, interrupt_before=["only"])

    graph(defer).invoke({"log": []}, CONFIG)
    assert graph(not defer).invoke(None, CONFIG) == {"log": ["only"]}


def test_a_finished_task_that_woke_a_node_which_is_gone_is_refused_or_mapped(saver: Any) -> None:
    def graph(name: str, **options: Any) -> Any:
        builder = StateGraph(State).add_node("quick", lambda state: {"log": ["quick"]})
        builder.add_node("slow", lambda state: {"log": [interrupt("?")]})
        builder.add_node(name, lambda state: {"log": ["after"]})
        builder.add_edge(START, "quick").add_edge(START, "slow").add_edge("quick", name)
        return builder.compile(saver, **options)

    graph("after").invoke({"log": []}, CONFIG)
    with pytest.raises(GraphChangedError) as caught:
        graph("later").invoke(Command(resume="slow"), CONFIG)
    assert caught.value.nodes == ("after",)
    renamed = graph("later", renames={"after": "later"})
    assert renamed.invoke(Command(resume="slow"), CONFIG) == {"log": ["quick", "slow", "after"]}


def test_a_new_input_gives_up_what_the_graph_does_not_have_any_more(saver: Any) -> None:
    asking("ask", saver).invoke({"log": []}, CONFIG)
    changed = asking("ask_user", saver)
    changed.invoke({"log": ["new"]}, CONFIG)
    assert changed.invoke(Command(resume="yes"), CONFIG) == {"log": ["first", "new", "first", "yes"]}


def sending(name: str, saver: Any, **options: Any) -> Any:
    """Return a graph that pauses with a `Send` on its way."""
    builder = StateGraph(State).add_node("plan", lambda state: {})
    builder.add_node(name, lambda state: {"log": [state["item"]]})
    builder.add_edge(START, "plan").add_conditional_edges(
        "plan", lambda s: [Send(name, {"item": "x"})], [name]
    )
    return builder.compile(saver, interrupt_before=[name], **options)


def test_what_was_sent_to_a_node_that_is_gone_is_refused_or_mapped(saver: Any) -> None:
    sending("work", saver).invoke({"log": []}, CONFIG)
    with pytest.raises(GraphChangedError) as caught:
        sending("labour", saver).invoke(None, CONFIG)
    assert caught.value.nodes == ("work",)
    renamed = sending("labour", saver, renames={"work": "labour"})
    assert renamed.invoke(None, CONFIG) == {"log": ["x"]}


def test_two_named_graphs_do_not_mix_on_one_thread(saver: Any) -> None:
    sales, support = (asking("ask", saver, name=name) for name in ("sales", "support"))
    sales.invoke({"log": []}, CONFIG)
    for call in (
        lambda: support.invoke(None, CONFIG),
        lambda: support.invoke({"log": ["x"]}, CONFIG),
        lambda: support.get_state(CONFIG),
        lambda: support.update_state(CONFIG, {"log": ["x"]}, as_node="first"),
    ):
        with pytest.raises(GraphMismatchError) as caught:
            call()
        assert (caught.value.expected, caught.value.found) == ("support", "sales")
    assert sales.invoke(Command(resume="yes"), CONFIG) == {"log": ["first", "yes"]}


class Old(TypedDict):
    count: int
    name: str


class New(TypedDict):
    count: str
    title: str


def add_title(state: dict[str, Any]) -> dict[str, Any]:
    """Migrate from version 1 to 2."""
    return {"count": str(state["count"]), "title": state["name"]}


def old_graph(saver: Any) -> Any:
    builder = StateGraph(Old).add_node("a", lambda state: {"count": 1}).add_node("b", lambda state: {})
    return builder.add_edge(START, "a").add_edge("a", "b").compile(saver, interrupt_before=["b"])


def new_graph(saver: Any, **options: Any) -> Any:
    builder = StateGraph(New, version=2, **options).add_node("a", lambda state: {})
    builder.add_node("b", lambda state: {"count": state["count"] + "!"})
    return builder.add_edge(START, "a").add_edge("a", "b").compile(saver)


def test_state_is_migrated_when_it_is_read_and_the_past_stays(saver: Any) -> None:
    old_graph(saver).invoke({"count": 0, "name": "n"}, CONFIG)
    before = list(old_graph(saver).get_state_history(CONFIG))
    graph = new_graph(saver, migrate={1: add_title})
    assert graph.get_state(CONFIG).values == {"count": "1", "title": "n"}
    assert graph.invoke(None, CONFIG) == {"count": "1!", "title": "n"}
    assert graph.get_state(CONFIG).metadata["state_version"] == 2
    past = old_graph(saver).get_state(before[0].config)
    assert (past.values, past.metadata, past.parent_config) == (
        before[0].values,
        before[0].metadata,
        before[0].parent_config,
    )
    with pytest.raises(GraphError, match="version 2"):
        old_graph(saver).get_state(CONFIG)


def test_a_missing_migration_is_refused(saver: Any) -> None:
    old_graph(saver).invoke({"count": 0, "name": "n"}, CONFIG)
    with pytest.raises(GraphError, match="migrate"):
        new_graph(saver).invoke(None, CONFIG)
    assert old_graph(saver).get_state(CONFIG).values == {"count": 1, "name": "n"}


def test_a_new_field_starts_empty_and_a_dropped_one_is_not_shown(saver: Any) -> None:
    class More(TypedDict):
        count: int
        extra: Annotated[list[int], operator.add]

    old_graph(saver).invoke({"count": 0, "name": "n"}, CONFIG)
    builder = StateGraph(More).add_node("a", lambda state: {}).add_node("b", lambda state: {"extra": [7]})
    graph = builder.add_edge(START, "a").add_edge("a", "b").compile(saver)
    assert graph.invoke(None, CONFIG) == {"count": 1, "extra": [7]}
