"""What the thread index says of a thread after a run, however that ended."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.errors import EmptyInputError, InvalidUpdateError, ThreadConflictError, UnknownInterruptError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, interrupt

CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 6}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    last: int


def raises(error: BaseException) -> Callable[[State], Any]:
    def code(state: State) -> Any:
        raise error

    return code


ENDINGS: dict[str, tuple[str, Any]] = {
    "the end": ("idle", lambda state: {"log": ["second"]}),
    "a question": ("paused", lambda state: interrupt("?")),
    "an error": ("failed", raises(LookupError("no"))),
    "a wrong return": ("failed", lambda state: 5),
    "a wrong goto": ("failed", lambda state: Command(goto="nowhere")),
    "what cannot be saved": ("failed", lambda state: {"log": [lambda: None]}),
    "an interruption": ("failed", raises(KeyboardInterrupt())),
    "a loop": ("failed", lambda state: Command(goto="first")),
    "two values for one key": ("failed", lambda state: Command(goto=["third", "fourth"])),
}


def graph_of(saver: Any, code: Any, **options: Any) -> Any:
    builder = StateGraph(State).add_node("first", lambda state: {"log": ["first"]})
    builder.add_node("second", code, destinations=("first", "third", "fourth"))
    builder.add_node("third", lambda state: {"last": 3}).add_node("fourth", lambda state: {"last": 4})
    return builder.add_edge(START, "first").add_edge("first", "second").compile(saver, **options)


def run(graph: Any, mode: str, durability: Any) -> None:
    """Run a graph, whatever comes of it."""
    with suppress(Exception, KeyboardInterrupt):
        if mode == "sync":
            graph.invoke({"log": []}, CONFIG, durability=durability)
        else:
            asyncio.run(graph.ainvoke({"log": []}, CONFIG, durability=durability))


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_index_says_how_a_run_ended(saver: Any, mode: str, durability: Any, ending: str) -> None:
    status, code = ENDINGS[ending]
    graph_of(saver, lambda state: None).invoke({"log": []}, CONFIG)
    run(graph_of(saver, code), mode, durability)
    assert saver.threads.get("t").status == status


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("breakpoint", [{"interrupt_before": ["second"]}, {"interrupt_after": ["first"]}])
def test_a_breakpoint_is_a_pause(saver: Any, mode: str, durability: Any, breakpoint: Any) -> None:
    graph = graph_of(saver, ENDINGS["the end"][1], **breakpoint)
    run(graph, mode, durability)
    assert saver.threads.get("t").status == "paused"
    assert graph.invoke(None, CONFIG) == {"log": ["first", "second"]}
    assert saver.threads.get("t").status == "idle"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_at_its_limit_can_go_on(saver: Any, durability: Any) -> None:
    rounds = iter([Command(goto="first")] * 3)
    graph = graph_of(saver, lambda state: next(rounds, {"log": ["second"]}))
    run(graph, "sync", durability)
    assert saver.threads.get("t").status == "failed"
    graph.invoke(None, CONFIG, durability=durability)
    assert saver.threads.get("t").status == "idle"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_stream_that_is_left_and_a_run_that_is_cancelled_have_failed(
    saver: Any, durability: Any
) -> None:
    graph = graph_of(saver, ENDINGS["the end"][1])
    stream = graph.stream({"log": []}, CONFIG, durability=durability)
    assert next(stream) == {"first": {"log": ["first"]}}
    stream.close()
    assert saver.threads.get("t").status == "failed"
    saver.delete_thread("t")
    started = asyncio.Event()

    async def endless(state: State) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(graph_of(saver, endless).ainvoke({"log": []}, CONFIG, durability=durability))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert saver.threads.get("t").status == "failed"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_is_refused_changes_no_status(saver: Any, durability: Any) -> None:
    graph = graph_of(saver, ENDINGS["the end"][1])
    for error, given in ((EmptyInputError, None), (InvalidUpdateError, 5), (UnknownInterruptError, "no")):
        wrong = Command(resume="yes") if given == "no" else given
        with pytest.raises(error):
            graph.invoke(wrong, CONFIG, durability=durability)
        assert saver.threads.get("t") is None
    graph.invoke({"log": []}, CONFIG)
    for error, given in ((InvalidUpdateError, 5), (UnknownInterruptError, Command(resume="yes"))):
        with pytest.raises(error):
            graph.invoke(given, CONFIG, durability=durability)
        assert saver.threads.get("t").status == "idle"


def test_who_lost_a_race_does_not_say_how_the_thread_is(saver: Any) -> None:
    inner = graph_of(saver, ENDINGS["the end"][1])

    def overtaken(state: State) -> Any:
        # A run of its own: it does not know that a node of another one asked for it.
        other = threading.Thread(target=inner.invoke, args=({"log": ["other"]}, CONFIG))
        other.start()
        other.join()
        raise LookupError

    builder = StateGraph(State).add_node("only", overtaken).add_edge(START, "only")
    with pytest.raises((LookupError, ThreadConflictError)):
        builder.compile(saver).invoke({"log": []}, CONFIG, durability="sync")
    assert saver.threads.get("t").status == "idle"


def test_a_sub_graph_that_fails_and_is_caught_does_not_fail_its_thread() -> None:
    saver = InMemorySaver()
    inner = graph_of(None, raises(LookupError("no")))

    def outer(state: State) -> Any:
        try:
            inner.invoke({"log": []})
        except LookupError:
            return {"log": ["caught"]}

    graph = StateGraph(State).add_node("outer", outer).add_edge(START, "outer").compile(saver)
    assert graph.invoke({"log": []}, CONFIG) == {"log": ["caught"]}
    info = saver.threads.get("t")
    assert info is not None
    assert info.status == "idle"
