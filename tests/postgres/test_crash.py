"""Servers and clients that die in the middle of runs: no acknowledged step is lost, none runs twice."""

from __future__ import annotations

import asyncio
import collections
import multiprocessing
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.graph import END, START, StateGraph

from .server import Server, fresh
from .test_locks import all_at_once


class State(TypedDict):
    n: int
    log: Annotated[list[int], lambda old, new: old + new]


def app(saver: PostgresSaver, node: Any, steps: int) -> Any:
    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    graph.add_conditional_edges("node", lambda s: "node" if s["n"] < steps else END, ["node", END])
    return graph.compile(checkpointer=saver)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "postgres")
    yield server
    server.close()


async def test_a_server_that_crashes_again_and_again_costs_time_and_nothing_else(own_server: Server) -> None:
    runs, steps = 200, 8
    ran: collections.Counter[tuple[str, int]] = collections.Counter()
    crashes = [runs * steps * part // 4 for part in (1, 2, 3)]
    due = asyncio.Event()

    async def node(state: State, config: Any) -> dict[str, Any]:
        ran[config["configurable"]["thread_id"], state["n"]] += 1
        if crashes and sum(ran.values()) > crashes[0]:
            due.set()
        return {"n": state["n"] + 1, "log": [state["n"]]}

    async def crash() -> None:
        while crashes:
            await due.wait()
            await asyncio.to_thread(own_server.crash)
            await asyncio.to_thread(own_server.start)
            crashes.pop(0)
            due.clear()

    async with PostgresSaver(own_server.uri, max_connections=8) as saver:
        await saver.asetup()
        graph = app(saver, node, steps)
        configs = [{"configurable": {"thread_id": f"t{n}"}} for n in range(runs)]
        starts = [graph.ainvoke({"n": 0, "log": []}, config, durability="sync") for config in configs]
        ended, _ = await asyncio.gather(asyncio.gather(*starts), crash())
        assert ended == [{"n": steps, "log": list(range(steps))}] * runs
        assert set(ran.values()) == {1}
        for config in configs[::20]:
            history = [found async for found in saver.alist(config)]
            assert len(history) == steps + 2
            assert history[0].checkpoint["channel_values"]["log"] == list(range(steps))


def _work(uri: str, schema: str, path: str, steps: int) -> None:
    with PostgresSaver(uri, schema=schema) as saver, Path(path).open("a", buffering=1) as notes:

        def node(state: State) -> dict[str, Any]:
            # That it runs says that what it is given was saved.
            notes.write(f"{state['n']}\n")
            return {"n": state["n"] + 1, "log": [state["n"]]}

        config = {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 10}
        graph = app(saver, node, steps)
        started = saver.get_tuple(config) is not None
        graph.invoke(None if started else {"n": 0, "log": []}, config, durability="sync")


def test_a_client_that_is_killed_again_and_again_goes_on_where_it_was(uri: str, tmp_path: Path) -> None:
    schema, path, steps = fresh(), tmp_path / "notes", 400
    path.touch()
    with PostgresSaver(uri, schema=schema) as saver:
        saver.setup()
        config: Any = {"configurable": {"thread_id": "t"}}
        context = multiprocessing.get_context("spawn")
        chance = random.Random(3)
        saved_at: list[tuple[int, int]] = []
        while True:
            before = len(path.read_text().split())
            child = context.Process(target=_work, args=(uri, schema, str(path), steps))
            child.start()
            wanted = before + chance.randrange(20, 120)
            while child.is_alive() and len(path.read_text().split()) < wanted:
                child.join(0.002)
            if not child.is_alive():
                break
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()
            found = saver.get_tuple(config)
            assert found
            ran = list(map(int, path.read_text().split()))
            saved_at.append((len(ran), found.checkpoint["channel_values"]["n"]))
            assert saved_at[-1][1] >= max(ran), "a step was lost that others had built on"
        assert child.exitcode == 0
        assert len(saved_at) >= 2
        found = saver.get_tuple(config)
        assert found
        assert found.checkpoint["channel_values"]["log"] == list(range(steps))
        assert len(list(saver.list(config))) == steps + 2
        ran = list(map(int, path.read_text().split()))
        assert set(ran) == set(range(steps))
        for lines, saved in saved_at:
            # The server may finish the last statement of a killed client after it was looked at.
            assert min(ran[lines:]) >= saved, "a step that was saved ran again"


def _lease(uri: str, schema: str, names: list[str], gate: Any, answers: Any) -> None:
    from datetime import timedelta

    with PostgresSaver(uri, schema=schema) as saver:
        gate.wait()
        token = str(os.getpid())
        answers.put([name for name in names if saver.take_lease(name, token, timedelta(minutes=5))])


def test_of_several_processes_one_gets_each_lease(uri: str) -> None:
    schema = fresh()
    with PostgresSaver(uri, schema=schema) as saver:
        saver.setup()
    context = multiprocessing.get_context("spawn")
    names = [f"thread{n}" for n in range(30)]
    gate, answers = context.Barrier(4), context.Queue()
    workers = [context.Process(target=_lease, args=(uri, schema, names, gate, answers)) for _ in range(4)]
    for worker in workers:
        worker.start()
    taken = [name for _ in workers for name in answers.get(timeout=60)]
    for worker in workers:
        worker.join()
    assert sorted(taken) == sorted(names)


def _setup(uri: str, schema: str, gate: Any) -> None:
    with PostgresSaver(uri, schema=schema) as saver:
        gate.wait()
        saver.setup()
        saver.get_tuple({"configurable": {"thread_id": "t"}})


def test_ten_processes_set_up_at_once(uri: str) -> None:
    schema = fresh()
    all_at_once(_setup, uri, [schema] * 10)
