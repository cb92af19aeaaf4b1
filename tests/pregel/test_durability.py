"""What a run saves, and when: failures and cancellations leave a record, errors of saving surface."""

from __future__ import annotations

import asyncio
import json
import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from threadmark.channels import BaseChannel, LastValue
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.errors import NodeCancelledError, SerializationError
from threadmark.graph import START, StateGraph

CONFIG: Any = {"configurable": {"thread_id": "t"}}
DURABILITIES = ["sync", "async", "exit"]


class State(TypedDict):
    log: Annotated[list[str], operator.add]


class Anything(TypedDict):
    thing: Any


def loop_graph(saver: Any, rounds: int) -> Any:
    builder = StateGraph(State).add_node("again", lambda state: {"log": ["x"]}).add_edge(START, "again")
    more = lambda state: "again" if len(state["log"]) < rounds else "__end__"  # noqa: E731
    return builder.add_conditional_edges("again", more, ["again", "__end__"]).compile(saver)


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_cancelled_run_leaves_a_record(saver: Any, durability: Any) -> None:
    started = asyncio.Event()
    ran: list[str] = []

    async def quick(state: State) -> dict[str, Any]:
        ran.append("quick")
        return {"log": ["quick"]}

    async def slow(state: State) -> dict[str, Any]:
        if started.is_set():
            return {"log": ["slow"]}
        started.set()
        await asyncio.Event().wait()
        return {}

    builder = StateGraph(State).add_node(quick).add_node(slow)
    graph = builder.add_edge(START, "quick").add_edge(START, "slow").compile(saver)
    run = asyncio.create_task(graph.ainvoke({"log": []}, CONFIG, durability=durability))
    await asyncio.wait_for(started.wait(), 30)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    state = await graph.aget_state(CONFIG)
    tasks = {task.name: task for task in state.tasks}
    assert isinstance(tasks["slow"].error, NodeCancelledError)
    assert state.next == ("slow",)
    assert tasks["quick"].result == {"log": ["quick"]}
    assert await graph.ainvoke(None, CONFIG) == {"log": ["quick", "slow"]}
    assert ran == ["quick"]


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_failed_run_leaves_the_same_record_whenever_it_is_saved(
    saver: Any, mode: str, durability: Any
) -> None:
    broken = [True]
    ran: list[str] = []

    def good(state: State) -> dict[str, Any]:
        ran.append("good")
        return {"log": ["good"]}

    def bad(state: State) -> dict[str, Any]:
        if broken:
            raise ValueError("no luck")
        return {"log": ["bad"]}

    builder = StateGraph(State).add_node("first", lambda state: {"log": ["first"]})
    builder.add_node(good).add_node(bad).add_edge(START, "first")
    graph = builder.add_edge("first", "good").add_edge("first", "bad").compile(saver)
    with pytest.raises(ValueError, match="no luck"):
        if mode == "sync":
            graph.invoke({"log": []}, CONFIG, durability=durability)
        else:
            asyncio.run(graph.ainvoke({"log": []}, CONFIG, durability=durability))
    state = graph.get_state(CONFIG)
    tasks = {task.name: task for task in state.tasks}
    assert str(tasks["bad"].error) == "no luck"
    assert isinstance(tasks["bad"].error, ValueError)
    assert state.next == (("bad",) if len(ran) else ("bad", "good"))
    assert state.values["log"] == ["first", *ran]
    broken.clear()
    assert graph.invoke(None, CONFIG) == {"log": ["first", "bad", "good"]}
    assert ran == ["good"]


class Slow(InMemorySaver):
    """A saver that counts how many commits are under way or wait at once."""

    waiting = 0
    most = 0

    def prepare(self, commit: Any) -> Any:
        type(self).waiting += 1
        type(self).most = max(type(self).most, type(self).waiting)
        return super().prepare(commit)

    async def acommit(self, prepared: Any) -> Any:
        for _ in range(10):
            await asyncio.sleep(0)
        result = await super().acommit(prepared)
        type(self).waiting -= 1
        return result


async def test_commits_do_not_pile_up_behind_a_slow_saver() -> None:
    Slow.waiting = Slow.most = 0
    saver = Slow()
    result = await loop_graph(saver, 50).ainvoke({"log": []}, CONFIG, durability="async")
    assert len(result["log"]) == 50
    assert Slow.most <= 2
    assert Slow.waiting == 0
    assert len(list(saver.list(CONFIG))) == 52


class Full(InMemorySaver):
    """A saver that cannot save after a while."""

    left = 0

    def commit(self, prepared: Any) -> Any:
        if type(self).left == 0:
            raise OSError("the disk is full")
        type(self).left -= 1
        return super().commit(prepared)

    async def acommit(self, prepared: Any) -> Any:
        await asyncio.sleep(0)
        return self.commit(prepared)


# With "exit" there is one commit, so that only the first can fail.
FAILING = [(durability, left) for durability in ("sync", "async") for left in range(4)] + [("exit", 0)]


@pytest.mark.parametrize(("durability", "left"), FAILING)
@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_error_while_saving_reaches_the_caller(
    durability: Any, mode: str, inline: bool, left: int
) -> None:
    saver = type("Full", (Full,), {"left": left, "commit_inline": inline})()
    graph = loop_graph(saver, 8)
    with pytest.raises(OSError, match="the disk is full"):
        if mode == "sync":
            graph.invoke({"log": []}, CONFIG, durability=durability)
        else:
            asyncio.run(graph.ainvoke({"log": []}, CONFIG, durability=durability))
    saved = list(saver.list(CONFIG))
    assert len(saved) == left, "what was saved before is there, and nothing after it"


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_value_that_cannot_be_saved_names_channel_and_node(saver: Any, durability: Any) -> None:
    builder = StateGraph(Anything).add_node("maker", lambda state: {"thing": {"fn": [lambda: 1]}})
    graph = builder.add_edge(START, "maker").compile(saver)
    with pytest.raises(SerializationError) as caught:
        graph.invoke({"thing": None}, CONFIG, durability=durability)
    assert (caught.value.channel, caught.value.path) == ("thing", "['fn'][0]")
    assert "maker" in str(caught.value) or durability == "exit"


def test_what_is_changed_in_place_later_does_not_leak_into_an_earlier_checkpoint(saver: Any) -> None:
    def first(state: Anything) -> dict[str, Any]:
        return {"thing": {"n": [1]}}

    def second(state: Anything) -> dict[str, Any]:
        state["thing"]["n"].append(2)
        return {"thing": state["thing"]}

    builder = StateGraph(Anything).add_node(first).add_node(second)
    graph = builder.add_edge(START, "first").add_edge("first", "second").compile(saver)
    graph.invoke({"thing": None}, CONFIG)
    values = [s.values.get("thing") for s in graph.get_state_history(CONFIG)]
    assert values[:2] == [{"n": [1, 2]}, {"n": [1]}]


def test_what_is_configurable_is_not_saved(saver: Any) -> None:
    config: Any = {
        "configurable": {"thread_id": "t", "api_key": "hunter2", "user": {"token": "hunter2"}},
        "metadata": {"kept": "yes"},
    }
    graph = loop_graph(saver, 2)
    graph.invoke({"log": []}, config)
    graph.update_state(config, {"log": ["x"]}, as_node="again")
    for state in graph.get_state_history(config):
        assert state.metadata["kept"] == "yes"
        assert "api_key" not in state.metadata
    stored = [(s.metadata, s.checkpoint, s.pending_writes) for s in saver.list(config)]
    assert "hunter2" not in json.dumps(stored, default=repr)


def test_a_handler_whose_work_was_saved_does_not_run_again(saver: Any) -> None:
    handled: list[str] = []
    broken = [True]

    def fails(state: State) -> dict[str, Any]:
        raise ValueError("handled")

    def handler(state: State) -> dict[str, Any]:
        handled.append("once")
        return {"log": ["handled"]}

    def other(state: State) -> dict[str, Any]:
        if broken:
            raise ValueError("not handled")
        return {"log": ["other"]}

    builder = StateGraph(State).add_node("a", fails, error_handler=handler).add_node("b", other)
    builder.add_node("before", lambda state: {}).add_edge(START, "before")
    graph = builder.add_edge("before", "a").add_edge("before", "b").compile(saver)
    with pytest.raises(ValueError, match="not handled"):
        graph.invoke({"log": []}, CONFIG)
    done = list(handled)
    broken.clear()
    assert graph.invoke(None, CONFIG) == {"log": ["handled", "other"]}
    assert handled == ["once"]
    assert graph.get_state(CONFIG).next == ()
    assert done in ([], ["once"])


def test_the_work_of_a_superstep_does_not_grow_with_the_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    def calls_with(width: int) -> int:
        state: Any = TypedDict("Wide", {f"key{n}": int for n in range(width)})  # type: ignore[misc]
        builder = StateGraph(state)
        names = [f"node{n}" for n in range(20)]
        for n, (start, name) in enumerate(zip([START, *names], names, strict=False)):
            builder.add_node(name, lambda s, n=n: {"key0": n}, input_schema=Only).add_edge(start, name)
        graph = builder.compile(InMemorySaver())
        calls = 0

        def counted(method: Any) -> Any:
            def call(*args: Any) -> Any:
                nonlocal calls
                calls += 1
                return method(*args)

            return call

        with monkeypatch.context() as patch:
            for kind in (BaseChannel, LastValue):
                for name in ("update", "consume", "finish", "checkpoint", "copy"):
                    if name in kind.__dict__:
                        patch.setattr(kind, name, counted(kind.__dict__[name]))
            graph.invoke({"key0": 0}, CONFIG)
        return calls

    assert calls_with(400) == calls_with(4)


class Only(TypedDict):
    key0: int
