"""The past can be read, replayed, forked and edited, also in sub-graphs; no branch leaks into another."""

from __future__ import annotations

import operator
import time
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.errors import CheckpointNotFoundError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, interrupt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def row(ran: list[str], *names: str) -> Any:
    """Return a builder with nodes in a row that note their names; `review` asks."""
    builder = StateGraph(State)
    for start, name in zip([START, *names], names, strict=False):

        def node(state: State, name: str = name) -> dict[str, Any]:
            ran.append(name)
            return {"log": [interrupt("ok?") if name == "review" else name]}

        builder.add_node(name, node).add_edge(start, name)
    return builder


def line(config: Any) -> Any:
    """Return the config of the thread and namespace of a checkpoint."""
    return {"configurable": {k: config["configurable"][k] for k in ("thread_id", "checkpoint_ns")}}


def at(graph: Any, *nodes: str, config: Any = CONFIG) -> Any:
    """Return the newest snapshot whose next nodes are these."""
    return next(s for s in graph.get_state_history(config) if s.next == nodes)


def test_a_replay_inside_a_sub_graph_begins_where_it_was_told(saver: Any) -> None:
    ran: list[str] = []
    inner = row(ran, "a", "b", "c", "review").compile()
    graph = StateGraph(State).add_node("sub", inner).add_edge(START, "sub").compile(saver)
    graph.invoke({"log": []}, CONFIG)
    address = graph.get_state(CONFIG, subgraphs=True).tasks[0].state.config
    before_c = at(graph, "c", config=line(address))
    ran.clear()
    assert "__interrupt__" in graph.invoke(None, before_c.config)
    assert ran == ["c", "review"]
    assert graph.invoke(Command(resume="fine"), CONFIG)["log"] == ["a", "b", "c", "fine"]


@pytest.mark.parametrize("own", [None, True])
def test_a_finished_sub_graph_can_be_read_from_the_checkpoint_it_ran_from(saver: Any, own: Any) -> None:
    inner = row([], "a", "b").compile(checkpointer=own)
    graph = StateGraph(State).add_node("sub", inner).add_edge(START, "sub").compile(saver)
    graph.invoke({"log": ["in"]}, CONFIG)
    before = at(graph, "sub")
    (task,) = graph.get_state(before.config, subgraphs=True).tasks
    assert task.state.values == {"log": ["in", "a", "b"]}
    assert task.state.next == ()
    history = list(graph.get_state_history(line(task.state.config)))
    assert [s.next for s in history][-1] == ("__start__",)
    assert history[0].values == {"log": ["in", "a", "b"]}


def test_an_edit_of_the_past_leaves_the_other_branch_alone(saver: Any) -> None:
    graph = row([], "a", "b").compile(saver)
    graph.invoke({"log": []}, CONFIG)
    left, base = graph.get_state(CONFIG), at(graph, "b")
    edited = graph.update_state(base.config, {"log": ["edited"]})
    assert graph.get_state(edited).values == {"log": ["a", "edited"]}
    forked = graph.invoke(None, edited)
    assert forked == {"log": ["a", "edited", "b"]}
    assert graph.get_state(left.config).values == {"log": ["a", "b"]}
    assert graph.get_state(base.config).values == {"log": ["a"]}
    assert graph.get_state(CONFIG).values == forked, "the fork is where the thread goes on"
    assert graph.get_state(CONFIG).parent_config == edited


def test_a_fork_does_not_see_what_the_other_branch_wrote(saver: Any) -> None:
    graph = row([], "a").compile(saver)
    graph.invoke({"log": ["A"]}, CONFIG)
    base = graph.get_state(CONFIG)
    graph.invoke({"log": ["B"]}, CONFIG)
    assert graph.invoke({"log": ["C"]}, base.config) == {"log": ["A", "a", "C", "a"]}
    values = [s.values["log"] for s in graph.get_state_history(CONFIG)]
    assert ["A", "a", "B", "a"] in values
    assert not any("B" in log and "C" in log for log in values)


def test_a_replay_runs_what_follows_again_and_keeps_the_past(saver: Any) -> None:
    ran: list[str] = []
    graph = row(ran, "a", "b", "c").compile(saver)
    graph.invoke({"log": []}, CONFIG)
    count = len(list(graph.get_state_history(CONFIG)))
    ran.clear()
    assert graph.invoke(None, at(graph, "b").config) == {"log": ["a", "b", "c"]}
    assert ran == ["b", "c"]
    assert len(list(graph.get_state_history(CONFIG))) > count


def test_the_latest_checkpoint_is_the_last_one_saved_also_when_the_clock_steps_back(
    saver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = row([], "a", "b").compile(saver)
    graph.invoke({"log": ["first"]}, CONFIG)
    real = time.time_ns
    for back in (3_600, 86_400, 10**8):
        monkeypatch.setattr(time, "time_ns", lambda back=back: real() - back * 10**9)
        result = graph.invoke({"log": [f"{back} s ago"]}, CONFIG)
        assert graph.get_state(CONFIG).values == result
        graph.update_state(CONFIG, {"log": ["edit"]}, as_node="b")
        assert graph.get_state(CONFIG).values["log"][-1] == "edit"
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    graph.invoke({"log": ["the clock stands"]}, CONFIG)
    ids = [s.config["configurable"]["checkpoint_id"] for s in graph.get_state_history(CONFIG)]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == len(ids)


def test_reading_an_unknown_thread_creates_nothing(saver: Any) -> None:
    graph = row([], "a").compile(saver)
    for n in range(20):
        config: Any = {"configurable": {"thread_id": f"ghost {n}"}}
        assert graph.get_state(config).created_at is None
        assert list(graph.get_state_history(config)) == []
    assert list(saver.list(None)) == []
    assert saver.threads.count() == 0
    if isinstance(saver, InMemorySaver):
        assert not saver.storage
        assert not saver.writes
        assert not saver.blobs


def test_a_checkpoint_that_is_not_there_is_an_error(saver: Any) -> None:
    graph = row([], "a").compile(saver)
    graph.invoke({"log": []}, CONFIG)
    lost: Any = {"configurable": {"thread_id": "t", "checkpoint_id": "1ef00000-0000-6000-8000-000000000000"}}
    for call in (lambda: graph.get_state(lost), lambda: graph.invoke(None, lost)):
        with pytest.raises(CheckpointNotFoundError):
            call()


def test_two_runs_of_a_sub_graph_in_one_node_are_kept_apart(saver: Any) -> None:
    ran: list[str] = []
    inner = row(ran, "a", "review").compile()

    def both(state: State) -> dict[str, Any]:
        return {"log": [*inner.invoke({"log": ["1"]})["log"], *inner.invoke({"log": ["2"]})["log"]]}

    graph = StateGraph(State).add_node(both).add_edge(START, "both").compile(saver)
    graph.invoke({"log": []}, CONFIG)
    graph.invoke(Command(resume="one"), CONFIG)
    assert graph.invoke(Command(resume="two"), CONFIG) == {"log": ["1", "a", "one", "2", "a", "two"]}
    assert ran.count("a") == 2
