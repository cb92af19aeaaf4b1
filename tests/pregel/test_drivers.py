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
from threadmark.errors import NodeCancelledError, ThreadConflictError
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


def quick_and_endless(saver: Any, running: list[str]) -> Any:
    """Return a graph with a node that ends at once beside one that never does; it notes that it runs."""

    async def quick(state: State) -> dict[str, Any]:
        return {"log": ["quick"]}

    async def endless(state: State) -> dict[str, Any]:
        running.append("endless")
        try:
            await asyncio.Event().wait()
        finally:
            running.remove("endless")
        return {}

    builder = StateGraph(State).add_node(quick).add_node(endless)
    return builder.add_edge(START, "quick").add_edge(START, "endless").compile(checkpointer=saver)


def check_record(state: Any, running: list[str]) -> None:
    """Check what an ended run has left."""
    tasks = {task.name: task for task in state.tasks}
    assert tasks["quick"].result == {"log": ["quick"]}
    assert isinstance(tasks["endless"].error, NodeCancelledError)
    assert running == [], "nothing runs on after its run has ended"


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_run_that_is_cancelled_while_it_saves_leaves_nothing_running(durability: Any) -> None:
    saver, running = Busy(), list[str]()
    release = saver.__dict__["release"]
    graph = quick_and_endless(saver, running)
    run = asyncio.create_task(graph.ainvoke({"log": []}, CONFIG, durability=durability))
    while not running:
        release.clear()
        await asyncio.sleep(0)
    await asyncio.wait_for(release.wait(), 20)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    check_record(await graph.aget_state(CONFIG), running)


async def test_a_stream_that_is_left_leaves_nothing_running() -> None:
    running = list[str]()
    graph = quick_and_endless(InMemorySaver(), running)
    stream = graph.astream({"log": []}, CONFIG, stream_mode="updates")
    assert await anext(stream) == {"quick": {"log": ["quick"]}}
    assert running == ["endless"]
    await stream.aclose()
    check_record(await graph.aget_state(CONFIG), running)


class Overtaken(InMemorySaver):
    """A saver that finds the thread moved on when it is to save the work of a task."""

    async def acommit(self, prepared: Any) -> Any:
        if self.writes and len(self.storage["t"][""]) == 2:
            raise ThreadConflictError("t", "", "a", "b")
        return await super().acommit(prepared)


async def test_a_run_that_cannot_save_leaves_nothing_running() -> None:
    running = list[str]()
    graph = quick_and_endless(Overtaken(), running)
    with pytest.raises(ThreadConflictError):
        await asyncio.wait_for(graph.ainvoke({"log": []}, CONFIG, durability="sync"), 20)
    assert running == []
