"""A node may pass its config on; what the config says of the node's own place does not go with it."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.config import RunnableConfig
from threadmark.graph import START, StateGraph


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def graph_of(code: Any, saver: Any = None) -> Any:
    return StateGraph(State).add_node("only", code).add_edge(START, "only").compile(saver)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_config_that_a_node_passes_to_a_graph_on_another_thread(
    saver: Any, nested: bool, mode: str
) -> None:
    elsewhere = InMemorySaver()
    other = graph_of(lambda state: {"log": ["other"]}, elsewhere)

    def sync(state: State, config: RunnableConfig) -> Any:
        return other.invoke({"log": []}, moved(config))

    async def on_loop(state: State, config: RunnableConfig) -> Any:
        return await other.ainvoke({"log": []}, moved(config))

    def moved(config: RunnableConfig) -> Any:
        return {**config, "configurable": {**config["configurable"], "thread_id": "elsewhere"}}

    inner = graph_of(sync if mode == "sync" else on_loop)
    graph = graph_of(inner, saver) if nested else graph_of(sync if mode == "sync" else on_loop, saver)
    config: Any = {"configurable": {"thread_id": "t"}, "metadata": {"from": "the caller"}}
    given: Any = {"log": []}
    for rounds in (1, 2):
        result = graph.invoke(given, config) if mode == "sync" else await graph.ainvoke(given, config)
        assert result["log"][-rounds:] == ["other"] * rounds
    saved = [found.metadata for found in elsewhere.list(None)]
    assert {key for metadata in saved for key in metadata} == {"source", "step", "parents", "from"}
    mine = [found.metadata for found in saver.list(None)]
    assert {key for metadata in mine for key in metadata} == {"source", "step", "parents", "from"}


def test_a_config_that_a_node_passes_to_its_own_sub_graph_says_nothing_of_the_node(saver: Any) -> None:
    inner = graph_of(lambda state: {"log": ["inner"]})

    def outer(state: State, config: RunnableConfig) -> Any:
        assert config["metadata"]["thread_id"] == "t"
        return inner.invoke({"log": []}, config)

    graph_of(outer, saver).invoke({"log": []}, {"configurable": {"thread_id": "t"}})
    assert {key for found in saver.list(None) for key in found.metadata} == {"source", "step", "parents"}
