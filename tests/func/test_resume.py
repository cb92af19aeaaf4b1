"""A finished task is finished: whatever fails, asks or is cut off around it, it is not run again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from func.trees import (
    HERE,
    Broken,
    World,
    async_walk,
    expected,
    next_input,
    paths,
    paused,
    sync_walk,
    trees,
)
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.func import entrypoint, task
from threadmark.graph import START, StateGraph
from threadmark.types import Command, RetryPolicy, interrupt

DURABILITIES = st.sampled_from(["sync", "async", "exit"])
RUNS = 100


def subsets(data: st.DataObject) -> Callable[[list[Any]], list[Any]]:
    """Return a function that chooses some of several questions, at least one."""
    return lambda questions: data.draw(st.lists(st.sampled_from(questions), min_size=1, unique_by=id))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), tree=trees, durability=DURABILITIES)
def test_every_task_of_a_workflow_finishes_once(data: Any, tree: Any, durability: Any) -> None:
    world = World()
    walk = sync_walk(world)

    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int) -> Any:
        return walk(tree, "r").result()

    given, result = 1, None
    for _ in range(RUNS):
        try:
            result = work.invoke(given, HERE, durability=durability)
        except Broken:
            given = None
            continue
        if not paused(result):
            break
        given = next_input(result, subsets(data))
    assert result == expected(tree)
    assert world.done == dict.fromkeys(paths(tree), 1)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), tree=trees, durability=DURABILITIES)
def test_every_task_of_an_async_workflow_finishes_once(data: Any, tree: Any, durability: Any) -> None:
    world = World()
    walk = async_walk(world)

    @entrypoint(checkpointer=InMemorySaver())
    async def work(_: int) -> Any:
        return await walk(tree, "r")

    async def run() -> Any:
        given, result = 1, None
        for _ in range(RUNS):
            try:
                result = await work.ainvoke(given, HERE, durability=durability)
            except Broken:
                given = None
                continue
            if not paused(result):
                break
            given = next_input(result, subsets(data))
        return result

    assert asyncio.run(run()) == expected(tree)
    assert world.done == dict.fromkeys(paths(tree), 1)


@settings(deadline=None, max_examples=25)
@given(data=st.data(), tree=trees, durability=DURABILITIES)
def test_every_run_may_be_in_another_process(data: Any, tree: Any, durability: Any) -> None:
    """Each run opens the file anew, declares its tasks anew, and is sync or async as it likes."""
    world = World()

    def run(file: str, given: Any) -> Any:
        walk = sync_walk(world)
        with SqliteSaver.from_conn_string(file) as saver:

            @entrypoint(checkpointer=saver)
            def work(_: int) -> Any:
                return walk(tree, "r").result()

            if data.draw(st.booleans()):
                return asyncio.run(work.ainvoke(given, HERE, durability=durability))
            return work.invoke(given, HERE, durability=durability)

    given, result = 1, None
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            try:
                result = run(f"{folder}/file.db", given)
            except Broken:
                given = None
                continue
            if not paused(result):
                break
            given = next_input(result, subsets(data))
    assert result == expected(tree)
    assert world.done == dict.fromkeys(paths(tree), 1)


DYING = """
import os, sys
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.func import entrypoint, task

file, log, last = sys.argv[1], sys.argv[2], int(sys.argv[3])

@task
def step(n):
    if n == last:
        os._exit(9)
    with open(log, "a") as out:
        out.write(f"{n} ")
    return n

with SqliteSaver.from_conn_string(file) as saver:
    @entrypoint(checkpointer=saver)
    def work(count):
        return [step(n).result() for n in range(count)]

    here = {"configurable": {"thread_id": "here"}}
    again = saver.get_tuple(here) is not None
    print(work.invoke(None if again else 5, here))
"""


def test_tasks_that_finished_before_the_process_died_are_not_run_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for last in (2, 4, -1):
        arguments = [sys.executable, "-c", DYING, str(tmp_path / "file.db"), str(log), str(last)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        assert done.returncode == (9 if last >= 0 else 0), done.stderr
    assert done.stdout.strip() == "[0, 1, 2, 3, 4]"
    assert log.read_text() == "0 1 2 3 4 "


class State(TypedDict):
    seen: str


def nested(runs: list[str], lasting: bool) -> Any:
    """Return a graph whose sub-graph has a node that calls a task and then asks."""

    @task
    def charge(what: str) -> str:
        runs.append(what)
        return f"charged {what}"

    def node(state: State) -> State:
        receipt = charge(state["seen"]).result()
        return {"seen": f"{receipt}, {interrupt('fine?')}"}

    inner = StateGraph(State).add_node("node", node).add_edge(START, "node")
    graph = StateGraph(State).add_node("sub", inner.compile(checkpointer=lasting or None))
    return graph.add_edge(START, "sub").compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("lasting", [False, True])
async def test_a_task_in_a_subgraph_is_not_run_again_after_a_question(lasting: bool) -> None:
    for mode in ("sync", "async"):
        runs: list[str] = []
        app = nested(runs, lasting)

        async def run(given: Any, app: Any = app, mode: str = mode) -> Any:
            return app.invoke(given, HERE) if mode == "sync" else await app.ainvoke(given, HERE)

        assert paused(await run({"seen": "tea"}))
        assert await run(Command(resume="yes")) == {"seen": "charged tea, yes"}
        assert runs == ["tea"]


def test_a_graph_inside_a_task_goes_on_where_it_was() -> None:
    runs: list[str] = []

    def first(state: State) -> State:
        runs.append("first")
        return {"seen": "first"}

    def second(state: State) -> State:
        return {"seen": f"{state['seen']} {interrupt(state['seen'])}"}

    graph = StateGraph(State).add_node("first", first).add_node("second", second)
    app = graph.add_edge(START, "first").add_edge("first", "second").compile()

    @task
    def inside(name: str) -> str:
        return name + app.invoke({"seen": ""})["seen"]

    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int) -> list[str]:
        return [future.result() for future in [inside("a "), inside("b ")]]

    questions = work.invoke(1, HERE)["__interrupt__"]
    assert len(questions) == 2
    assert runs == ["first"] * 2
    answers = {question.id: str(index) for index, question in enumerate(questions)}
    assert work.invoke(Command(resume=answers), HERE) == ["a first 0", "b first 1"]
    assert runs == ["first"] * 2


@pytest.mark.parametrize("saver", [InMemorySaver(), None])
def test_another_attempt_finds_what_finished_in_the_first(saver: Any) -> None:
    runs: list[str] = []

    @task
    def step(name: str) -> list[str]:
        runs.append(name)
        return [name]

    @entrypoint(checkpointer=saver, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    def work(_: int) -> list[str]:
        first = step("a").result()
        if len(runs) < 2:
            step("b").result()
            raise ConnectionError("try again")
        return first + step("b").result() + step("c").result()

    assert work.invoke(1, HERE) == ["a", "b", "c"]
    assert runs == ["a", "b", "c"]


def test_another_attempt_gets_a_result_as_it_was_saved() -> None:
    attempts: list[int] = []
    policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3)

    @task
    def step() -> list[str]:
        return ["saved"]

    @entrypoint(checkpointer=InMemorySaver(), retry_policy=policy)
    def work(asks: bool) -> list[str]:
        attempts.append(1)
        result = step().result()
        if asks:
            interrupt("go on?")
        result.append("changed in place")
        if len(attempts) < 3:
            raise ConnectionError("try again")
        return result

    assert work.invoke(False, HERE) == ["saved", "changed in place"]
    attempts.clear()
    assert paused(work.invoke(True, HERE))
    assert work.invoke(Command(resume=True), HERE) == ["saved", "changed in place"]
    assert len(attempts) == 3


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_resumed_run_gets_a_result_as_it_was_returned(durability: Any) -> None:
    @task
    def step() -> list[str]:
        return ["returned"]

    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int) -> Any:
        result = step().result()
        found = list(result)
        result.append("changed in place")
        return [found, interrupt("?")]

    work.invoke(1, HERE, durability=durability)
    assert work.invoke(Command(resume=1), HERE, durability=durability) == [["returned"], 1]


def test_a_new_input_begins_anew() -> None:
    runs: list[int] = []

    @task
    def step(n: int) -> int:
        runs.append(n)
        return n

    @entrypoint(checkpointer=InMemorySaver())
    def work(n: int) -> Any:
        return [step(n).result(), interrupt("?")]

    work.invoke(1, HERE)
    work.invoke(2, HERE)
    assert work.invoke(Command(resume="yes"), HERE) == [2, "yes"]
    assert runs == [1, 2]


def test_an_answer_for_the_past_reaches_the_task_that_asked() -> None:
    runs: list[str] = []

    @task
    def ask(question: str) -> str:
        return interrupt(question)

    @task
    def charge() -> str:
        runs.append("charged")
        return "charged"

    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int) -> list[str]:
        first = ask("a").result()
        return [first, charge().result(), ask("b").result(), interrupt("c")]

    work.invoke(1, HERE)
    work.invoke(Command(resume="1"), HERE)
    past = work.get_state(HERE)
    work.invoke(2, HERE)
    assert runs == ["charged"]
    assert [q.value for q in work.invoke(Command(resume="2"), past.config)["__interrupt__"]] == ["c"]
    assert work.invoke(Command(resume="3"), HERE) == ["1", "charged", "2", "3"]
    assert runs == ["charged"]


def test_a_replay_of_the_past_runs_its_tasks_again() -> None:
    runs: list[int] = []

    @task
    def step(n: int) -> int:
        runs.append(n)
        return n

    @entrypoint(checkpointer=InMemorySaver())
    def work(n: int) -> list[Any]:
        return [step(n).result(), interrupt("?")]

    work.invoke(1, HERE)
    past = work.get_state(HERE)
    work.invoke(2, HERE)
    work.invoke(None, past.config)
    assert runs == [1, 2, 1]
    assert work.invoke(Command(resume="yes"), HERE) == [1, "yes"]
