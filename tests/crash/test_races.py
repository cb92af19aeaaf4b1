"""Runs at the same time: nobody overwrites anybody silently, and who asks to wait gets a turn."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from crash.children import (
    Queue,
    processes,
    queue_graph,
    send_alone,
    send_in_turn,
    send_until_taken,
)
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import ThreadConflictError, ThreadDeletedError
from threadmark.graph import START, StateGraph

CONFIG: Any = {"configurable": {"thread_id": "shared"}}
TEN = 10
MESSAGES = [f"m{n}" for n in range(TEN)]


def gated(saver: Any) -> Any:
    """Let the next ten loads of a saver wait for each other."""
    load = type(saver).load
    gate = threading.Barrier(TEN)
    places = iter(range(TEN))

    class Waits(type(saver)):  # type: ignore[misc]
        def load(self, config: Any) -> Any:
            loaded = load(self, config)
            if next(places, None) is not None:
                gate.wait(30)
            return loaded

    saver.__class__ = Waits
    return saver


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver(tmp_path / "threads.db") as opened:
            yield opened


@pytest.mark.parametrize("existing", [True, False], ids=["thread exists", "thread is new"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_of_ten_runs_that_saw_the_same_state_exactly_one_wins(
    saver: Any, durability: Any, existing: bool
) -> None:
    if existing:
        queue_graph().compile(checkpointer=saver).invoke({"log": ["before"]}, CONFIG)
    graph = queue_graph().compile(checkpointer=gated(saver))

    def send(message: str) -> Any:
        try:
            return graph.invoke({"log": [message]}, CONFIG, durability=durability)
        except ThreadConflictError as error:
            return error

    with ThreadPoolExecutor(TEN) as pool:
        results = list(pool.map(send, MESSAGES))
    losers = [r for r in results if isinstance(r, ThreadConflictError)]
    (winner,) = [r for r in results if not isinstance(r, ThreadConflictError)]
    assert len(losers) == TEN - 1
    assert graph.get_state(CONFIG).values == winner, "what the winner saved stands"
    assert winner["log"][:-1] == (["before"] if existing else [])
    for error in losers:
        assert (error.thread_id, error.checkpoint_ns) == ("shared", "")
        assert error.expected != error.found
    steps = [state.metadata["step"] for state in graph.get_state_history(CONFIG)]
    assert steps == sorted(steps, reverse=True), "the thread has not forked"


async def test_of_ten_async_runs_that_saw_the_same_state_exactly_one_wins(saver: Any) -> None:
    arrived = 0
    all_there = asyncio.Event()
    aload = type(saver).aload

    class Waits(type(saver)):  # type: ignore[misc]
        async def aload(self, config: Any) -> Any:
            nonlocal arrived
            loaded = await aload(self, config)
            arrived += 1
            if arrived == TEN:
                all_there.set()
            await asyncio.wait_for(all_there.wait(), 30)
            return loaded

    saver.__class__ = Waits
    graph = queue_graph().compile(checkpointer=saver)
    runs = (graph.ainvoke({"log": [message]}, CONFIG) for message in MESSAGES)
    results = await asyncio.gather(*runs, return_exceptions=True)
    (winner,) = [r for r in results if isinstance(r, dict)]
    assert sum(isinstance(r, ThreadConflictError) for r in results) == TEN - 1
    assert (await graph.aget_state(CONFIG)).values == winner


def until_saved(graph: Any, node: str) -> None:
    """Wait until a run's steps before a node that it is in are saved."""
    while graph.get_state(CONFIG).next != (node,):
        time.sleep(0.001)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_that_was_overtaken_stops_before_its_next_node(saver: Any, durability: Any) -> None:
    inside, release = threading.Event(), threading.Event()
    ran: list[str] = []

    def slow(state: Queue) -> dict[str, Any]:
        if state["log"][-1] == "slow":
            inside.set()
            assert release.wait(30)
        return {"log": ["done"]}

    def after(state: Queue) -> dict[str, Any]:
        ran.append(state["log"][-2])
        return {}

    builder = StateGraph(Queue).add_node(slow).add_node(after)
    graph = builder.add_edge(START, "slow").add_edge("slow", "after").compile(checkpointer=saver)
    with ThreadPoolExecutor(1) as pool:
        overtaken = pool.submit(graph.invoke, {"log": ["slow"]}, CONFIG, durability=durability)
        assert inside.wait(30)
        if durability != "exit":
            until_saved(graph, "slow")
        quick = graph.invoke({"log": ["quick"]}, CONFIG)
        release.set()
        with pytest.raises(ThreadConflictError) as caught:
            overtaken.result()
    assert graph.get_state(CONFIG).values == quick
    assert caught.value.found == graph.get_state(CONFIG).config["configurable"]["checkpoint_id"]
    assert ran == (["quick"] if durability != "exit" else ["quick", "slow"])


def test_an_edit_takes_part_in_the_race(saver: Any) -> None:
    inside, release = threading.Event(), threading.Event()

    def slow(state: Queue) -> dict[str, Any]:
        inside.set()
        assert release.wait(30)
        return {"log": ["done"]}

    graph = StateGraph(Queue).add_node(slow).add_edge(START, "slow").compile(checkpointer=saver)
    with ThreadPoolExecutor(1) as pool:
        overtaken = pool.submit(graph.invoke, {"log": ["slow"]}, CONFIG)
        assert inside.wait(30)
        until_saved(graph, "slow")
        graph.update_state(CONFIG, {"log": ["edited"]}, as_node="slow")
        release.set()
        with pytest.raises(ThreadConflictError):
            overtaken.result()
    assert graph.get_state(CONFIG).values["log"] == ["slow", "edited"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_late_commit_cannot_bring_a_deleted_thread_back(saver: Any, durability: Any) -> None:
    def erase(state: Queue) -> dict[str, Any]:
        saver.delete_thread("shared")
        return {"log": ["late"]}

    builder = StateGraph(Queue).add_node(erase).add_node("after", lambda state: {})
    graph = builder.add_edge(START, "erase").add_edge("erase", "after").compile(checkpointer=saver)
    graph.update_state(CONFIG, {"log": ["old"]}, as_node="after")
    with pytest.raises(ThreadDeletedError):
        graph.invoke({"log": ["new"]}, CONFIG, durability=durability)
    assert list(saver.list(CONFIG)) == []
    assert graph.get_state(CONFIG).created_at is None
    again = queue_graph().compile(checkpointer=saver)
    assert again.invoke({"log": ["afresh"]}, CONFIG) == {"log": ["afresh"]}


def test_ten_threads_that_wait_all_get_their_turn(saver: Any) -> None:
    graph = queue_graph().compile(checkpointer=saver, on_conflict="wait")
    gate = threading.Barrier(TEN)

    def send(message: str) -> None:
        gate.wait(30)
        graph.invoke({"log": [message]}, CONFIG)

    with ThreadPoolExecutor(TEN) as pool:
        list(pool.map(send, MESSAGES))
    assert sorted(graph.get_state(CONFIG).values["log"]) == MESSAGES


async def test_ten_async_runs_that_wait_all_get_their_turn(saver: Any) -> None:
    graph = queue_graph().compile(checkpointer=saver)
    await asyncio.gather(*(graph.ainvoke({"log": [m]}, CONFIG, on_conflict="wait") for m in MESSAGES))
    assert sorted((await graph.aget_state(CONFIG)).values["log"]) == MESSAGES


@pytest.mark.parametrize("own", [None, True])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_that_waits_does_not_wait_for_its_own_sub_graphs(saver: Any, mode: str, own: Any) -> None:
    inner = queue_graph().compile(checkpointer=own, on_conflict="wait")
    builder = StateGraph(Queue).add_node("sub", inner).add_node("end", lambda state: {"log": ["end"]})
    graph = builder.add_edge(START, "sub").add_edge("sub", "end").compile(saver, on_conflict="wait")
    if mode == "sync":
        result = graph.invoke({"log": []}, CONFIG)
    else:
        result = asyncio.run(asyncio.wait_for(graph.ainvoke({"log": []}, CONFIG), 30))
    assert result == {"log": ["end"]}


def test_a_stream_that_was_left_does_not_keep_others_waiting(saver: Any) -> None:
    graph = queue_graph().compile(checkpointer=saver, on_conflict="wait")
    stream = graph.stream({"log": ["left"]}, CONFIG)
    next(stream)
    stream.close()
    assert graph.invoke({"log": ["next"]}, CONFIG)["log"] == ["left", "next"]


async def test_an_async_stream_that_was_left_does_not_keep_others_waiting(saver: Any) -> None:
    graph = queue_graph().compile(checkpointer=saver, on_conflict="wait")
    stream = graph.astream({"log": ["left"]}, CONFIG)
    await anext(stream)
    await stream.aclose()
    assert (await graph.ainvoke({"log": ["next"]}, CONFIG))["log"] == ["left", "next"]


async def test_a_cancelled_run_does_not_keep_others_waiting(saver: Any) -> None:
    inside = asyncio.Event()

    async def hang(state: Queue) -> dict[str, Any]:
        inside.set()
        await asyncio.Event().wait()
        return {}

    stuck = StateGraph(Queue).add_node(hang).add_edge(START, "hang").compile(saver, on_conflict="wait")
    run = asyncio.create_task(stuck.ainvoke({"log": ["stuck"]}, CONFIG))
    await asyncio.wait_for(inside.wait(), 30)
    graph = queue_graph().compile(checkpointer=saver, on_conflict="wait")
    waiting = asyncio.create_task(graph.ainvoke({"log": ["next"]}, CONFIG))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (await waiting)["log"] == ["stuck", "next"]


def test_a_run_that_failed_does_not_keep_others_waiting(saver: Any) -> None:
    def fail(state: Queue) -> dict[str, Any]:
        raise ValueError("broken")

    broken = StateGraph(Queue).add_node(fail).add_edge(START, "fail")
    with pytest.raises(ValueError, match="broken"):
        broken.compile(checkpointer=saver, on_conflict="wait").invoke({"log": ["a"]}, CONFIG)
    graph = queue_graph().compile(checkpointer=saver, on_conflict="wait")
    assert graph.invoke({"log": ["b"]}, CONFIG)["log"] == ["a", "b"]


def run_all(target: Callable[..., None], rows: list[tuple[Any, ...]]) -> None:
    """Run a child process for each row, and see all of them succeed."""
    children = [processes.Process(target=target, args=row) for row in rows]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * len(children)


def test_ten_processes_on_one_thread_lose_only_what_they_were_told(tmp_path: Path) -> None:
    path, gate, losses = tmp_path / "threads.db", processes.Barrier(TEN), processes.Manager().Queue()
    SqliteSaver(path).setup()
    run_all(send_until_taken, [(path, message, gate, losses) for message in MESSAGES])
    assert losses.qsize() >= TEN - 1, "all but one lost the first race"
    with SqliteSaver(path) as saver:
        graph = queue_graph().compile(checkpointer=saver)
        log = graph.get_state(CONFIG).values["log"]
        # A run that lost after its message was saved sent it again; none is missing.
        assert set(log) == set(MESSAGES)
        steps = [state.metadata["step"] for state in graph.get_state_history(CONFIG)]
        assert steps == list(range(steps[0], -2, -1)), "the thread is one line"


def test_ten_processes_that_wait_all_get_their_turn(tmp_path: Path) -> None:
    path, gate = tmp_path / "threads.db", processes.Barrier(TEN)
    run_all(send_in_turn, [(path, message, gate) for message in MESSAGES])
    with SqliteSaver(path) as saver:
        state = queue_graph().compile(checkpointer=saver).get_state(CONFIG)
    assert sorted(state.values["log"]) == MESSAGES


def test_ten_processes_share_a_file_without_noticing(tmp_path: Path) -> None:
    path, gate = tmp_path / "threads.db", processes.Barrier(TEN)
    run_all(send_alone, [(path, f"t{n}", gate) for n in range(TEN)])
    with SqliteSaver(path) as saver:
        graph = queue_graph().compile(checkpointer=saver)
        for n in range(TEN):
            config: Any = {"configurable": {"thread_id": f"t{n}"}}
            assert graph.get_state(config).values["log"] == [f"t{n} {k}" for k in range(10)]
            assert len(list(graph.get_state_history(config))) == 40
