"""What people who used the library in earnest ran into."""

from __future__ import annotations

import operator
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import InvalidArgumentError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Send, interrupt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def ask(state: State) -> dict[str, Any]:
    return {"log": [interrupt("sure?")]}


@pytest.mark.parametrize("inside", ["node", "code"])
def test_a_question_that_no_answer_would_reach_is_refused(inside: str) -> None:
    sub = StateGraph(State).add_node(ask).add_edge(START, "ask").compile(checkpointer=False)
    node: Any = sub if inside == "node" else lambda state: sub.invoke(state)
    builder = StateGraph(State).add_node("sub", node).add_edge(START, "sub")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(InvalidArgumentError, match="checkpointer=False"):
        graph.invoke({"log": []}, CONFIG)


def test_a_question_inside_is_answered_with_the_saver_of_the_graph_around() -> None:
    sub = StateGraph(State).add_node(ask).add_edge(START, "ask").compile()
    builder = StateGraph(State).add_node("sub", sub).add_edge(START, "sub")
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"log": []}, CONFIG)
    assert graph.invoke(Command(resume="yes"), CONFIG) == {"log": ["yes"]}


@pytest.mark.parametrize("as_node", [None, "a"])
def test_what_an_edit_wakes_again_does_not_count_twice(as_node: str | None) -> None:
    builder = StateGraph(State).add_node(ask)
    for name in ("a", "done"):
        builder.add_node(name, lambda state, name=name: {"log": [name]})
    builder.add_edge(START, "a").add_edge("a", "done").add_edge("a", "ask")
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"log": []}, CONFIG)
    graph.update_state(CONFIG, {"log": ["edited"]}, as_node=as_node)
    assert graph.get_state(CONFIG).values == {"log": ["a", "edited"]}
    assert graph.invoke(None, CONFIG)["log"] == ["a", "edited", "done"]


def test_a_sibling_that_an_edit_does_not_wake_keeps_its_work() -> None:
    ran: list[str] = []

    def done(state: State) -> dict[str, Any]:
        ran.append("done")
        return {"log": ["done"]}

    builder = StateGraph(State).add_node(ask).add_node(done)
    graph = builder.add_edge(START, "done").add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    graph.invoke({"log": []}, CONFIG)
    graph.update_state(CONFIG, {"log": ["edited"]}, as_node="ask")
    assert sorted(graph.get_state(CONFIG).values["log"]) == ["done", "edited"]
    assert not graph.get_state(CONFIG).next
    assert ran == ["done"]


LOOK = """
from threadmark import SqliteSaver
found = SqliteSaver({!r}).get_tuple({!r})
print(found.checkpoint["channel_values"]["__pregel_tasks"])
"""


def test_a_program_that_only_looks_reads_our_own_types(tmp_path: Path) -> None:
    path = str(tmp_path / "threads.db")
    with SqliteSaver(path) as saver:
        builder = StateGraph(State).add_node(ask).add_node("start", lambda state: {})
        builder.add_edge(START, "start").add_conditional_edges("start", lambda state: [Send("ask", state)])
        builder.compile(checkpointer=saver).invoke({"log": []}, CONFIG)
    looked = subprocess.run(
        [sys.executable, "-c", LOOK.format(path, CONFIG)], capture_output=True, text=True, check=False
    )
    assert "Send(node='ask'" in looked.stdout, looked.stderr


OWN_CONFIGS: dict[str, Any] = {
    "tags": {"tags": ["t"]},
    "metadata": {"metadata": {"a": 1}},
    "run_name": {"run_name": "r"},
    "configurable": {"configurable": {"q": 1}},
}


@pytest.mark.parametrize("own", OWN_CONFIGS)
@pytest.mark.parametrize("passed", [False, True])
async def test_a_model_with_a_config_of_its_own_is_heard_once(own: str, passed: bool) -> None:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    def model() -> Any:
        return GenericFakeChatModel(messages=iter([AIMessage("a b")])).with_config(**OWN_CONFIGS[own])

    def node(state: State, config: Any) -> dict[str, Any]:
        return {"log": [str(model().invoke("q", config if passed else None).content)]}

    async def anode(state: State, config: Any) -> dict[str, Any]:
        return {"log": [str((await model().ainvoke("q", config if passed else None)).content)]}

    for code, graph in ((code, StateGraph(State).add_node("m", code)) for code in (node, anode)):
        app = graph.add_edge(START, "m").compile()
        if code is node:
            heard = list(app.stream({"log": []}, stream_mode="messages"))
        else:
            heard = [chunk async for chunk in app.astream({"log": []}, stream_mode="messages")]
        assert [message.content for message, _ in heard] == ["a", " ", "b"]
        assert {metadata["langgraph_node"] for _, metadata in heard} == {"m"}
