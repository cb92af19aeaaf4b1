"""An answer is used once, by the question it was given to, or it is refused."""

from __future__ import annotations

import operator
import uuid
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from threadmark.errors import InvalidArgumentError, MultipleInterruptsError, UnknownInterruptError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, interrupt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def one_node(node: Any, saver: Any) -> Any:
    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)


def asks_twice(state: State) -> dict[str, Any]:
    return {"log": [interrupt("delete?"), interrupt("really?")]}


def side_by_side(saver: Any) -> Any:
    builder = StateGraph(State)
    for name in ("left", "right"):
        builder.add_node(name, lambda state, name=name: {"log": [f"{name}: {interrupt(name)}"]})
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


def test_going_on_without_an_answer_approves_nothing(saver: Any) -> None:
    graph = one_node(asks_twice, saver)
    graph.invoke({"log": []}, CONFIG)
    (second,) = graph.invoke(Command(resume="yes"), CONFIG)["__interrupt__"]
    assert second.value == "really?"
    for _ in range(3):
        assert graph.invoke(None, CONFIG)["__interrupt__"] == [second]
    assert graph.get_state(CONFIG).interrupts == (second,)
    assert graph.invoke(Command(resume="no"), CONFIG) == {"log": ["yes", "no"]}


def test_an_answer_to_an_earlier_run_answers_nothing_later(saver: Any) -> None:
    graph = one_node(lambda state: {"log": [interrupt("?")]}, saver)
    graph.invoke({"log": []}, CONFIG)
    assert graph.invoke(Command(resume="one"), CONFIG) == {"log": ["one"]}
    assert "__interrupt__" in graph.invoke({"log": []}, CONFIG)
    assert "__interrupt__" in graph.invoke(None, CONFIG)
    assert graph.invoke(Command(resume="two"), CONFIG) == {"log": ["one", "two"]}


def test_an_unknown_id_is_refused_and_changes_nothing(saver: Any) -> None:
    graph = one_node(asks_twice, saver)
    graph.invoke({"log": []}, CONFIG)
    before = graph.get_state(CONFIG)
    wrong = uuid.uuid4().hex
    with pytest.raises(UnknownInterruptError) as caught:
        graph.invoke(Command(resume={wrong: "yes"}), CONFIG)
    assert (caught.value.unknown, caught.value.pending) == ((wrong,), (before.interrupts[0].id,))
    assert graph.get_state(CONFIG) == before


@pytest.mark.parametrize("resume", ["yes", {uuid.uuid4().hex: "yes"}])
def test_an_answer_that_nobody_waits_for_is_refused(saver: Any, resume: Any) -> None:
    graph = one_node(lambda state: {"log": ["done"]}, saver)
    with pytest.raises(UnknownInterruptError):
        graph.invoke(Command(resume=resume), CONFIG)
    graph.invoke({"log": []}, CONFIG)
    with pytest.raises(UnknownInterruptError):
        graph.invoke(Command(resume=resume), CONFIG)
    assert graph.get_state(CONFIG).values == {"log": ["done"]}


def test_one_answer_to_several_questions_is_refused(saver: Any) -> None:
    graph = side_by_side(saver)
    questions = graph.invoke({"log": []}, CONFIG)["__interrupt__"]
    with pytest.raises(MultipleInterruptsError) as caught:
        graph.invoke(Command(resume="yes"), CONFIG)
    assert sorted(caught.value.pending) == sorted(q.id for q in questions)
    answers = {q.id: f"for {q.value}" for q in questions}
    result = graph.invoke(Command(resume=answers), CONFIG)
    assert result == {"log": ["left: for left", "right: for right"]}


def test_tasks_without_an_answer_do_not_run_again(saver: Any) -> None:
    ran: list[str] = []

    def asker(name: str) -> Any:
        def ask(state: State) -> dict[str, Any]:
            ran.append(name)
            return {"log": [interrupt(name)]}

        return ask

    builder = StateGraph(State)
    for name in ("left", "right"):
        builder.add_node(name, asker(name)).add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    left, right = sorted(graph.invoke({"log": []}, CONFIG)["__interrupt__"], key=lambda q: q.value)
    ran.clear()
    assert graph.invoke(Command(resume={left.id: "l"}), CONFIG)["__interrupt__"] == [right]
    assert ran == ["left"]
    assert graph.invoke(Command(resume={right.id: "r"}), CONFIG) == {"log": ["l", "r"]}
    assert ran == ["left", "right"]


def test_each_question_has_an_id_of_its_own(saver: Any) -> None:
    def ask(state: State) -> dict[str, Any]:
        return {"log": [interrupt("same")]}

    sub = StateGraph(State)
    for name in ("a", "b"):
        sub.add_node(name, ask).add_edge(START, name)
    inner = sub.compile()
    builder = StateGraph(State)
    for name in ("first", "second"):
        builder.add_node(name, inner).add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    questions = graph.invoke({"log": []}, CONFIG)["__interrupt__"]
    assert len({q.id for q in questions}) == 4
    with pytest.raises(MultipleInterruptsError):
        graph.invoke(Command(resume="X"), CONFIG)
    result = graph.invoke(Command(resume={q.id: str(n) for n, q in enumerate(questions)}), CONFIG)
    assert sorted(result["log"]) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("value", ["", 0, False, None, [], {}, {"key": "value"}])
def test_any_value_is_an_answer(saver: Any, value: Any) -> None:
    seen: list[Any] = []

    def ask(state: State) -> dict[str, Any]:
        seen.append(interrupt("?"))
        return {"log": ["done"]}

    graph = one_node(ask, saver)
    (question,) = graph.invoke({"log": []}, CONFIG)["__interrupt__"]
    assert graph.invoke(Command(resume={question.id: value}), CONFIG) == {"log": ["done"]}
    assert seen == [value]


def test_a_question_outside_of_a_node_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        interrupt("?")


def test_a_question_without_a_saver_pauses_and_is_forgotten() -> None:
    graph = one_node(asks_twice, None)
    assert [q.value for q in graph.invoke({"log": []})["__interrupt__"]] == ["delete?"]
