"""What drivers hear of tasks while they do something else is not lost."""

from __future__ import annotations

import asyncio
import operator
import threading
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.config import get_stream_writer
from threadmark.graph import END, START, StateGraph

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


class Busy(InMemorySaver):
    """A saver that lets a node finish while it saves."""

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["release"] = asyncio.Event()

    async def acommit(self, prepared: Any) -> Any:
        self.__dict__["release"].set()
        for _ in range(20):
            await asyncio.sleep(0)
        return await super().acommit(prepared)


async def test_a_task_that_finishes_while_a_failure_is_saved_is_finished() -> None:
    saver = Busy()
    ran: list[str] = []
    broken = [True]

    async def bad(state: State) -> dict[str, Any]:
        saver.__dict__["release"].clear()
        if broken:
            raise ValueError("bad")
        return {"log": ["bad"]}

    async def good(state: State) -> dict[str, Any]:
        await saver.__dict__["release"].wait()
        ran.append("good")
        return {"log": ["good"]}

    builder = StateGraph(State).add_node(bad).add_node(good)
    for name in ("bad", "good"):
        builder.add_edge(START, name).add_edge(name, END)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="bad"):
        await asyncio.wait_for(graph.ainvoke({"log": []}, CONFIG, durability="sync"), 20)
    broken.clear()
    assert await graph.ainvoke(None, CONFIG) == {"log": ["bad", "good"]}
    assert ran == ["good"]


def test_a_task_that_finished_before_its_stream_was_left_is_finished() -> None:
    left = threading.Event()
    ran: list[str] = []

    def quick(state: State) -> dict[str, Any]:
        ran.append("quick")
        return {"log": ["quick"]}

    def slow(state: State) -> dict[str, Any]:
        get_stream_writer()("one")
        get_stream_writer()("two")
        assert left.wait(20)
        return {"log": ["slow"]}

    builder = StateGraph(State).add_node(quick).add_node(slow)
    for name in ("quick", "slow"):
        builder.add_edge(START, name).add_edge(name, END)
    graph = builder.compile(checkpointer=InMemorySaver())
    stream = graph.stream({"log": []}, CONFIG, stream_mode="custom")
    assert next(stream) == "one"
    left.set()
    stream.close()
    assert graph.invoke(None, CONFIG) == {"log": ["quick", "slow"]}
    assert ran == ["quick"]
