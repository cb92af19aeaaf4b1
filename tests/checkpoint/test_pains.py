"""Complaints about the storage of others, each as it was seen, beside the tests that cover its kind."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import SecretStr
from typing_extensions import TypedDict

from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import MultipleInterruptsError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, interrupt

THREAD: Any = {"configurable": {"thread_id": "t"}}


class Counted(TypedDict):
    count: int
    large: str


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


class Secret(TypedDict):
    password: SecretStr


def size_after(path: Path, steps: int) -> int:
    """Return the size of a file after a run that leaves one large value as it is."""
    builder = StateGraph(Counted).add_node("next", lambda state: {"count": state["count"] + 1})
    builder.add_edge(START, "next").add_conditional_edges(
        "next", lambda state: "next" if state["count"] < steps else "__end__", ["next", "__end__"]
    )
    with SqliteSaver(path) as saver:
        builder.compile(saver).invoke({"count": 0, "large": "x" * 50_000}, THREAD, durability="sync")
    return path.stat().st_size


def test_a_large_value_that_does_not_change_costs_its_size_once(tmp_path: Path) -> None:
    assert size_after(tmp_path / "many.db", 60) - size_after(tmp_path / "one.db", 1) < 50_000


def test_one_answer_to_two_questions_inside_one_sub_graph_is_refused(tmp_path: Path) -> None:
    inner = StateGraph(Log)
    for name in ("left", "right"):
        inner.add_node(name, lambda state, name=name: {"log": [f"{name}: {interrupt(name)}"]})
        inner.add_edge(START, name)
    with SqliteSaver(tmp_path / "x.db") as saver:
        graph = StateGraph(Log).add_node("inner", inner.compile()).add_edge(START, "inner").compile(saver)
        questions = graph.invoke({"log": []}, THREAD)["__interrupt__"]
        with pytest.raises(MultipleInterruptsError):
            graph.invoke(Command(resume="yes"), THREAD)
        answers = {question.id: f"for {question.value}" for question in questions}
        result = graph.invoke(Command(resume=answers), THREAD)
    assert result == {"log": ["left: for left", "right: for right"]}


def test_a_secret_stands_nowhere_in_clear_where_the_serializer_encrypts(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path, serde=EncryptedSerializer(bytes(32))) as saver:
        graph = StateGraph(Secret).add_node("only", lambda state: None).add_edge(START, "only").compile(saver)
        graph.invoke({"password": SecretStr("swordfish")}, THREAD)
        assert graph.get_state(THREAD).values["password"].get_secret_value() == "swordfish"
    assert all(b"swordfish" not in found.read_bytes() for found in tmp_path.iterdir())
