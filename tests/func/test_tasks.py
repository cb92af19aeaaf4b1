"""What calls of tasks promise beside being saved: errors, order, limits, cancellation, surroundings."""

from __future__ import annotations

import asyncio
import logging
import operator
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from func.trees import HERE, paused
from threadmark.cache.memory import InMemoryCache
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.config import RunnableConfig, current_scope, get_config, get_stream_writer
from threadmark.errors import (
    GraphError,
    InvalidArgumentError,
    InvalidUpdateError,
    NodeCancelledError,
    NodeTimeoutError,
    UnknownInterruptError,
)
from threadmark.func import TaskFunction, TaskFuture, entrypoint, task
from threadmark.graph import START, StateGraph
from threadmark.pregel import Pregel
from threadmark.pregel.scope import TaskScope
from threadmark.runtime import Runtime
from threadmark.store.base import BaseStore
from threadmark.store.memory import InMemoryStore
from threadmark.types import CachePolicy, Command, StreamWriter, interrupt


@task
def double(n: int) -> int:
    """Return twice a number."""
    return 2 * n


@task
def fail(text: str) -> str:
    raise KeyError(text)


@task
def ask(question: str) -> str:
    return interrupt(question)


# Declaring


def test_a_task_keeps_the_name_and_words_of_its_function() -> None:
    assert isinstance(double, TaskFunction)
    assert (double.name, double.__name__, double.__doc__) == ("double", "double", "Return twice a number.")
    assert repr(double) == "<task double>"
    named = task(name="other")(lambda n: n)
    assert named.name == "other"


def test_what_cannot_be_a_task_or_an_entry_point_is_refused() -> None:
    def generator(_: int) -> Any:
        yield 1

    async def async_generator(_: int) -> Any:
        yield 1

    for code in (generator, async_generator, 5):
        with pytest.raises(GraphError):
            task(code)  # type: ignore[call-overload]
        with pytest.raises(GraphError):
            entrypoint()(code)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="takes no input"):
        entrypoint()(lambda: 1)
    with pytest.raises(InvalidArgumentError, match="parentheses"):
        entrypoint(lambda n: n)  # type: ignore[arg-type]


def test_a_task_outside_of_a_run_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'double' can only be called inside a node"):
        double(1)


def test_an_async_task_in_a_sync_run_says_how_to_run_it() -> None:
    @task
    async def later(n: int) -> int:
        return n

    @entrypoint()
    def work(n: int) -> int:
        return later(n).result()

    with pytest.raises(InvalidUpdateError, match="ainvoke"):
        work.invoke(1)


def test_a_method_can_be_a_task() -> None:
    class Shop:
        factor = 3

        @task
        def price(self, n: int) -> int:
            return self.factor * n

    @entrypoint()
    def work(n: int) -> int:
        return Shop().price(n).result()

    assert work.invoke(2) == 6


# Results and errors


def test_a_future_of_a_sync_run_can_be_waited_for_and_awaited() -> None:
    @entrypoint()
    def work(n: int) -> list[Any]:
        future = double(n)
        assert isinstance(future, TaskFuture)

        async def wait() -> int:
            return await double(n)

        return [future.result(), future.exception(), asyncio.run(wait())]

    assert work.invoke(2) == [4, None, 4]


async def test_a_task_called_on_the_loop_is_an_asyncio_task() -> None:
    @entrypoint()
    async def work(n: int) -> Any:
        calls = [double(n), double(n + 1)]
        done, pending = await asyncio.wait(calls)
        assert (len(done), len(pending)) == (2, 0)
        return [call.result() for call in calls] + await asyncio.gather(double(5), double(6))

    assert await work.ainvoke(1) == [2, 4, 10, 12]


async def test_sync_code_in_an_async_run_waits_for_async_tasks() -> None:
    @task
    async def later(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    @entrypoint()
    def work(n: int) -> int:
        return later(later(n).result()).result()

    assert await work.ainvoke(1) == 3


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_an_error_reaches_the_caller_and_can_be_caught(durability: Any) -> None:
    @entrypoint(checkpointer=InMemorySaver())
    def careful(text: str) -> Any:
        error = fail(text).exception()
        try:
            fail(text).result()
        except KeyError as same:
            return [repr(error), repr(same)]

    @entrypoint(checkpointer=InMemorySaver())
    def careless(text: str) -> str:
        return fail(text).result()

    assert careful.invoke("x", HERE, durability=durability) == ["KeyError('x')"] * 2
    assert await careful.ainvoke("x", HERE, durability=durability) == ["KeyError('x')"] * 2
    for number in (1, 2):
        with pytest.raises(KeyError):
            careless.invoke(str(number), HERE, durability=durability)
        state = careless.get_state(HERE)
        assert (state.next, repr(state.tasks[0].error)) == (("careless",), f"KeyError('{number}')")


def test_wrong_arguments_are_an_error_of_the_call() -> None:
    @entrypoint()
    def work(_: int) -> str:
        return repr(double(1, 2).exception())  # type: ignore[call-arg]

    assert "positional argument" in work.invoke(1)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_result_that_cannot_be_saved_is_refused_where_it_is_returned(durability: Any) -> None:
    @task
    def odd() -> Any:
        return lambda: 1

    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int) -> str:
        return str(odd().exception())

    assert "'odd'" in work.invoke(1, HERE, durability=durability)


@dataclass
class Receipt:
    """Something that only a task's annotation names."""

    amount: int


def test_classes_that_tasks_return_come_back() -> None:
    @task
    def pay(amount: int) -> list[Receipt]:
        return [Receipt(amount)]

    @entrypoint(checkpointer=InMemorySaver())
    def work(n: int) -> list[int]:
        receipts = pay(n).result()
        return [receipts[0].amount, interrupt("?")]

    work.invoke(3, HERE)
    assert work.invoke(Command(resume=4), HERE) == [3, 4]


async def test_a_run_waits_for_tasks_that_nobody_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    @task
    def note(n: int) -> None:
        done.append(n)

    @entrypoint()
    def work(n: int) -> int:
        note(n)
        fail("unseen")
        fail("seen").exception()
        return n

    with caplog.at_level(logging.WARNING, "threadmark"):
        assert work.invoke(1) == 1
    assert await work.ainvoke(2) == 2
    assert done == [1, 2]
    assert [repr(record.exc_info[1]) for record in caplog.records if record.exc_info][:1] == [
        "KeyError('unseen')"
    ]


# Questions


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_parallel_tasks_ask_together_and_each_gets_its_answer(mode: str) -> None:
    @entrypoint(checkpointer=InMemorySaver())
    def work(names: list[str]) -> list[str]:
        return [future.result() for future in [ask(name) for name in names]]

    async def run(given: Any) -> Any:
        return work.invoke(given, HERE) if mode == "sync" else await work.ainvoke(given, HERE)

    result = await run(["a", "b", "c"])
    questions = {question.value: question.id for question in result["__interrupt__"]}
    assert questions.keys() == {"a", "b", "c"}
    assert {q.id for q in work.get_state(HERE).interrupts} == set(questions.values())
    result = await run(Command(resume={questions["b"]: "B"}))
    assert [question.value for question in result["__interrupt__"]] == ["a", "c"]
    with pytest.raises(UnknownInterruptError):
        await run(Command(resume={questions["b"]: "again"}))
    assert await run(Command(resume={questions["c"]: "C", questions["a"]: "A"})) == ["A", "B", "C"]


def test_a_task_without_an_answer_is_held_back() -> None:
    runs: list[str] = []

    @task
    def count(name: str) -> str:
        runs.append(name)
        return interrupt(name)

    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int) -> list[str]:
        return [future.result() for future in [count("a"), count("b")]]

    questions = {q.value: q.id for q in work.invoke(1, HERE)["__interrupt__"]}
    work.invoke(Command(resume={questions["b"]: 1}), HERE)
    assert sorted(runs) == ["a", "b", "b"]
    assert work.invoke(Command(resume=2), HERE) == [2, 1]
    assert sorted(runs) == ["a", "a", "b", "b"]


def test_a_question_that_the_caller_swallows_still_pauses() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int) -> Any:
        try:
            return ask("really?").result()
        except Exception:
            return "never mind"

    assert paused(work.invoke(1, HERE))
    assert work.invoke(Command(resume="yes"), HERE) == "yes"


def test_the_same_answer_is_not_used_twice() -> None:
    @task
    def ask_twice() -> list[str]:
        return [interrupt("first"), interrupt("second")]

    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int) -> list[str]:
        return ask_twice().result()

    work.invoke(1, HERE)
    work.invoke(Command(resume="one"), HERE)
    assert [q.value for q in work.invoke(None, HERE)["__interrupt__"]] == ["second"]
    assert work.invoke(Command(resume="two"), HERE) == ["one", "two"]


# Cancellation and time


class Pair(TypedDict):
    n: Annotated[list[int], operator.add]


async def test_a_cancelled_run_leaves_a_thread_that_can_be_read_and_resumed() -> None:
    started, runs = asyncio.Event(), []
    blocked = [True]

    @task
    def first() -> int:
        runs.append("first")
        return 1

    @task
    async def second() -> int:
        started.set()
        if blocked[0]:
            await asyncio.Event().wait()
        runs.append("second")
        return 2

    @entrypoint(checkpointer=InMemorySaver())
    async def work(_: int) -> int:
        return await first() + await second()

    for durability in ("sync", "async", "exit"):
        runs.clear()
        started.clear()
        blocked[0] = True
        run = asyncio.create_task(work.ainvoke(1, HERE, durability=durability))  # type: ignore[arg-type]
        await started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        state = await work.aget_state(HERE)
        assert state.next == ("work",)
        assert isinstance(state.tasks[0].error, NodeCancelledError)
        blocked[0] = False
        assert await work.ainvoke(None, HERE) == 3
        assert runs == ["first", "second"]


def until_stopping() -> None:
    """Wait in a thread until the run has decided that this code is to stop."""
    scope = current_scope()
    assert isinstance(scope, TaskScope)
    while not scope.is_stopping():
        threading.Event().wait(0.001)


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_call_that_cannot_be_stopped_is_finished_and_saved(durability: Any) -> None:
    begun, runs = threading.Event(), []

    @task
    def slow() -> str:
        runs.append("slow")
        if len(runs) == 1:
            begun.set()
            until_stopping()
        return "slow"

    @task
    def quick() -> str:
        begun.wait()
        if len(runs) == 1 and not broken:
            broken.append(1)
            raise KeyError("program")
        return "quick"

    broken: list[int] = []

    @entrypoint(checkpointer=InMemorySaver())
    async def work(_: int) -> list[str]:
        return list(await asyncio.gather(slow(), quick()))

    with pytest.raises(KeyError):
        await work.ainvoke(1, HERE, durability=durability)
    assert await work.ainvoke(None, HERE) == ["slow", "quick"]
    assert runs == ["slow"]


async def test_a_node_that_cannot_be_stopped_is_finished_and_saved() -> None:
    begun, runs = threading.Event(), []
    broken = [True]

    def slow(state: Pair) -> Pair:
        runs.append("slow")
        begun.set()
        until_stopping()
        return {"n": [1]}

    def quick(state: Pair) -> Pair:
        begun.wait()
        if broken[0]:
            raise KeyError("program")
        return {"n": [2]}

    graph = StateGraph(Pair).add_node("slow", slow).add_node("quick", quick)
    graph.add_edge(START, "slow").add_edge(START, "quick")
    app = graph.compile(checkpointer=InMemorySaver())
    with pytest.raises(KeyError):
        await app.ainvoke({"n": []}, HERE)
    broken[0] = False
    assert await app.ainvoke(None, HERE) == {"n": [2, 1]}
    assert runs == ["slow"]


async def test_async_code_that_is_to_stop_calls_no_more_tasks() -> None:
    begun, runs = threading.Event(), []

    @task
    def step(n: int) -> int:
        runs.append(n)
        begun.set()
        until_stopping()
        return n

    @task
    async def steps() -> list[int]:
        return [await step(n) for n in range(3)]

    @task
    def broken() -> None:
        begun.wait()
        raise KeyError("program")

    @entrypoint(checkpointer=InMemorySaver())
    async def work(_: int) -> None:
        await asyncio.gather(steps(), broken())

    with pytest.raises(KeyError):
        await work.ainvoke(1, HERE)
    assert runs == [0]


async def test_a_cancelled_call_is_an_error_that_its_caller_may_handle() -> None:
    @task
    async def endless() -> None:
        await asyncio.Event().wait()

    @entrypoint(checkpointer=InMemorySaver())
    async def work(n: int) -> int:
        call = endless()
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await double(n)

    assert await work.ainvoke(2, HERE) == 4


async def test_when_one_of_several_fails_the_others_are_cancelled() -> None:
    ends: list[str] = []

    @task
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    @entrypoint(checkpointer=InMemorySaver())
    async def work(_: int) -> None:
        await asyncio.gather(endless(), fail("x"))

    with pytest.raises(KeyError):
        await work.ainvoke(1, HERE)
    assert ends == ["cancelled"]


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_code_that_ran_out_of_time_calls_no_more_tasks(mode: str) -> None:
    over, tried, runs = threading.Event(), threading.Event(), []
    seen: list[BaseException | None] = []

    @task
    def charge() -> None:
        runs.append("charged")

    @entrypoint(checkpointer=InMemorySaver(), timeout=0.01)
    def work(_: int) -> None:
        over.wait()
        try:
            charge()
        except NodeCancelledError as error:
            seen.append(error)
        tried.set()

    with pytest.raises(NodeTimeoutError):
        work.invoke(1, HERE) if mode == "sync" else await work.ainvoke(1, HERE)
    over.set()
    tried.wait()
    assert (len(seen), runs) == (1, [])


def test_a_task_has_a_timeout_of_its_own() -> None:
    over = threading.Event()

    @task(timeout=0.01)
    def slow() -> None:
        over.wait()

    @entrypoint()
    def work(_: int) -> str:
        return type(slow().exception()).__name__

    assert work.invoke(1) == "NodeTimeoutError"
    over.set()


# Side by side


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_limit_holds_and_does_not_stop_tasks_that_call_tasks(mode: str) -> None:
    lock, running, most = threading.Lock(), [0], [0]

    @task
    def leaf(n: int) -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        with lock:
            running[0] -= 1
        return n

    @task
    def branch(n: int) -> int:
        return sum(future.result() for future in [leaf(i) for i in range(n)])

    @entrypoint()
    def work(n: int) -> int:
        return sum(future.result() for future in [branch(n) for _ in range(n)])

    limited: RunnableConfig = {"max_concurrency": 1}
    result = work.invoke(4, limited) if mode == "sync" else await work.ainvoke(4, limited)
    assert result == 24
    assert most == [1]


async def test_waiting_nodes_do_not_take_the_threads_of_the_tasks_they_wait_for() -> None:
    with ThreadPoolExecutor(2) as pool:
        asyncio.get_running_loop().set_default_executor(pool)

        @entrypoint()
        def work(n: int) -> int:
            return double(double(n).result()).result()

        results = await asyncio.gather(*(work.ainvoke(n) for n in range(10)))
    assert results == [4 * n for n in range(10)]


@pytest.mark.parametrize("modes", ["updates", "tasks", "custom"])
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_what_a_task_does_is_shown_while_the_entry_point_runs(mode: str, modes: Any) -> None:
    shown = threading.Event()

    @task
    def step(n: int) -> int:
        get_stream_writer()("step")
        return n

    @entrypoint(checkpointer=InMemorySaver())
    def work(n: int) -> int:
        result = step(n).result()
        assert shown.wait(20), "the chunk must come before the end of the node"
        return result

    chunks = []

    def hear(chunk: Any) -> None:
        chunks.append(chunk)
        if "step" in repr(chunk):
            shown.set()

    if mode == "sync":
        for chunk in work.stream(1, HERE, stream_mode=modes):
            hear(chunk)
    else:
        async for chunk in work.astream(1, HERE, stream_mode=modes):
            hear(chunk)
    assert shown.is_set()
    if modes == "updates":
        assert chunks == [{"step": 1}, {"work": 1}]


def test_a_stream_that_is_closed_early_leaves_a_thread_that_can_be_resumed() -> None:
    runs: list[int] = []

    @task
    def step(n: int) -> int:
        runs.append(n)
        return n

    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int) -> list[int]:
        return [step(n).result() for n in range(3)]

    stream = work.stream(1, HERE, stream_mode="updates")
    assert next(stream) == {"step": 0}
    stream.close()  # type: ignore[attr-defined]
    assert work.invoke(None, HERE) == [0, 1, 2]
    assert runs == [0, 1, 2]


# Surroundings


class State(TypedDict):
    n: int


def test_a_node_of_a_graph_may_call_tasks() -> None:
    runs: list[int] = []

    @task
    def step(n: int) -> int:
        runs.append(n)
        return n + 1

    def node(state: State) -> State:
        return {"n": step(state["n"]).result() + interrupt("?")}

    app = (
        StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=InMemorySaver())
    )
    shown = list(app.stream({"n": 1}, HERE, stream_mode="updates"))
    assert shown[0] == {"step": 2}
    assert app.invoke(Command(resume=10), HERE) == {"n": 12}
    assert runs == [1]


def test_a_task_is_handed_its_surroundings_unless_they_are_passed() -> None:
    store = InMemoryStore()

    @task
    def look(
        n: int, store: BaseStore, writer: StreamWriter, *, config: RunnableConfig, runtime: Runtime[Any]
    ) -> Any:
        writer(n)
        return [config["configurable"]["mine"], runtime.context, store is runtime.store]

    @entrypoint(store=store)
    def work(n: int) -> Any:
        own: RunnableConfig = {"configurable": {"mine": "passed"}}
        return [look(n).result(), look(n, config=own).result()]  # type: ignore[call-arg]

    chunks = list(
        work.stream(1, {"configurable": {"mine": "run's"}}, context="c", stream_mode=["custom", "values"])
    )
    assert chunks == [
        ("custom", 1),
        ("custom", 1),
        ("values", [["run's", "c", True], ["passed", "c", True]]),
    ]


def test_graphs_in_tasks_save_to_namespaces_of_their_own() -> None:
    app = (
        StateGraph(State)
        .add_node("node", lambda state: {"n": state["n"] + 1})
        .add_edge(START, "node")
        .compile()
    )
    saver = InMemorySaver()

    @task
    def run(n: int) -> Any:
        return app.invoke({"n": n})["n"], get_config()["metadata"]["langgraph_checkpoint_ns"]

    @entrypoint(checkpointer=saver)
    def work(n: int) -> Any:
        return [run(n).result(), run(10 * n).result()]

    (first, first_ns), (second, second_ns) = work.invoke(1, HERE)
    assert (first, second) == (2, 11)
    assert first_ns.startswith("run:")
    assert set(saver.storage["here"]) == {"", first_ns, second_ns}


def test_results_are_cached_by_arguments_and_forgotten_on_demand() -> None:
    runs: list[int] = []

    @task(cache_policy=CachePolicy(key_func=lambda n, *, note: str(n)))
    def slow(n: int, *, note: str) -> int:
        runs.append(n)
        return n

    cache = InMemoryCache[Any]()

    @entrypoint(cache=cache)
    def work(note: str) -> list[int]:
        return [slow(1, note=note).result(), slow(2, note=note).result()]

    assert work.invoke("a") == work.invoke("b") == [1, 2]
    assert runs == [1, 2]
    slow.clear_cache(cache)
    work.invoke("c")
    assert runs == [1, 2, 1, 2]


@pytest.mark.parametrize("value", [0, "", [], None, False])
def test_the_last_result_is_found_again_whatever_it_is(value: Any) -> None:
    seen: list[Any] = []

    @entrypoint(checkpointer=InMemorySaver())
    def work(_: int, *, previous: Any = "nothing") -> Any:
        seen.append(previous)
        return entrypoint.final(value="out", save=value)

    assert work.invoke(1, HERE) == work.invoke(2, HERE) == "out"
    assert seen == [None, value]
    assert type(seen[1]) is type(value)


def test_a_command_cannot_update_an_entry_point() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    def work(n: int) -> int:
        return n

    assert isinstance(work, Pregel)
    with pytest.raises(InvalidUpdateError, match="no state"):
        work.invoke(Command(update={"n": 1}), HERE)
    work.invoke(1, HERE)
    work.update_state(HERE, 5)
    assert work.get_state(HERE).values == 5


def test_an_entry_point_can_be_drawn() -> None:
    @entrypoint()
    def work(n: int) -> int:
        return n

    edges = [(edge.source, edge.target) for edge in work.get_graph().edges]
    assert edges == [("__start__", "work"), ("work", "__end__")]
