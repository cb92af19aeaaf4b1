"""Commits that are saved together leave what they leave one by one, and fail together."""

from __future__ import annotations

import asyncio
import math
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from crash.corpus import STORIES, Story
from crash.player import Player
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import StorageError, ThreadConflictError, ThreadDeletedError
from threadmark.graph import START, StateGraph
from threadmark.pregel import committer

CONFIG: Any = {"configurable": {"thread_id": "t"}}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "latest": {"history": "latest"},
    "encrypted": {"serde": EncryptedSerializer.from_pycryptodome_aes(key=bytes(32))},
}


class Grouping(SqliteSaver):
    """A saver that counts how many commits were saved together, and may fail at one of them."""

    def __init__(self, path: Any, **options: Any) -> None:
        super().__init__(path, **options)
        self.groups: list[int] = []
        self.left = math.inf

    def commit_many(self, prepared: Sequence[Any]) -> Any:
        self.note(prepared)
        return super().commit_many(prepared)

    async def acommit_many(self, prepared: Sequence[Any]) -> Any:
        self.note(prepared)
        return await super().acommit_many(prepared)

    def note(self, prepared: Sequence[Any]) -> None:
        self.groups.append(len(prepared))
        self.left -= len(prepared)
        if self.left < 0:
            raise StorageError("the disk is full")


@pytest.fixture(autouse=True)
def any_superstep_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commits get in line however long a superstep takes."""
    monkeypatch.setattr(committer, "QUICK", math.inf)
    monkeypatch.setattr(committer, "ENOUGH", 0)


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    last: str


def loop_graph(saver: Any, rounds: int, ran: list[int] | None = None) -> Any:
    def again(state: State) -> State:
        count = len(state["log"])
        if ran is not None:
            ran.append(count)
        return {"log": [f"x{count}"], "last": f"{count}"}

    more = lambda state: "again" if len(state["log"]) < rounds else "__end__"  # noqa: E731
    builder = StateGraph(State).add_node(again).add_edge(START, "again")
    return builder.add_conditional_edges("again", more, ["again", "__end__"]).compile(saver)


def invoke(mode: str, graph: Any, given: Any) -> Any:
    if mode == "sync":
        return graph.invoke(given, CONFIG, durability="async")
    return asyncio.run(graph.ainvoke(given, CONFIG, durability="async"))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_line_leaves_the_same_record(story: Story, mode: str, options: str, tmp_path: Path) -> None:
    with Player(mode) as player, Grouping(tmp_path / "threads.db", **OPTIONS[options]) as saver:
        alone = player.play(story, saver, "alone", durability="sync")[:2]
        assert not saver.groups
        assert player.play(story, saver, "in line", durability="async")[:2] == alone


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_long_line_keeps_order_and_lists(mode: str, options: str, tmp_path: Path) -> None:
    with Grouping(tmp_path / "threads.db", **OPTIONS[options]) as saver:
        graph = loop_graph(saver, 300)
        result = invoke(mode, graph, {"log": []})
        assert max(saver.groups) > 1
        assert max(saver.groups) <= saver.commits_waiting
        log = [f"x{n}" for n in range(300)]
        assert result["log"] == log == graph.get_state(CONFIG).values["log"]
        history = list(graph.get_state_history(CONFIG))
        lengths = [len(state.values["log"]) for state in history]
        assert lengths == ([300] if options == "latest" else [*range(300, -1, -1), 0])
        assert all(state.values["log"] == log[: len(state.values["log"])] for state in history)


@pytest.mark.parametrize("left", range(1, 40, 3))
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_failure_in_the_line_reaches_the_caller_and_saves_nothing_after_it(
    mode: str, left: int, tmp_path: Path
) -> None:
    ran: list[int] = []
    with Grouping(tmp_path / "threads.db") as saver:
        saver.left = left
        graph = loop_graph(saver, 100, ran)
        with pytest.raises(StorageError, match="the disk is full"):
            invoke(mode, graph, {"log": []})
        saved = len(graph.get_state(CONFIG).values["log"])
        assert saved <= left
        assert len(ran) - saved <= 2 * saver.commits_waiting + 1, "few run without being saved"
        saver.left = math.inf
        result = invoke(mode, graph, None)
        assert result["log"] == [f"x{n}" for n in range(100)]
        assert ran[-(100 - saved) :] == list(range(saved, 100)), "only what was not saved runs again"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_overtaken_or_deleted_thread_refuses_the_whole_line(mode: str, tmp_path: Path) -> None:
    with Grouping(tmp_path / "threads.db") as saver, SqliteSaver(tmp_path / "threads.db") as other:
        elsewhere = loop_graph(other, 3)

        def disturbing(disturb: Any) -> Any:
            def node(state: State) -> State:
                if len(state["log"]) == 20:
                    disturb()
                return {"log": ["x"]}

            more = lambda state: "node" if len(state["log"]) < 40 else "__end__"  # noqa: E731
            builder = StateGraph(State).add_node(node).add_edge(START, "node")
            return builder.add_conditional_edges("node", more, ["node", "__end__"]).compile(saver)

        def move_on() -> None:
            # The line may move the head between the other's look and its move.
            while True:
                try:
                    elsewhere.update_state(CONFIG, {"last": "moved"}, as_node="again")
                    return
                except ThreadConflictError:
                    continue

        with pytest.raises(ThreadConflictError):
            invoke(mode, disturbing(move_on), {"log": []})
        state = elsewhere.get_state(CONFIG)
        assert state.values["last"] == "moved"
        assert len(state.values["log"]) <= 20
        with pytest.raises(ThreadDeletedError):
            invoke(mode, disturbing(lambda: other.delete_thread("t")), {"log": []})
        assert elsewhere.get_state(CONFIG).created_at is None


async def test_what_is_shown_is_saved(tmp_path: Path) -> None:
    with Grouping(tmp_path / "threads.db") as saver, SqliteSaver(tmp_path / "threads.db") as other:
        graph, looking = loop_graph(saver, 30), loop_graph(other, 30)
        for chunk in graph.stream({"log": []}, CONFIG, stream_mode="values", durability="async"):
            assert looking.get_state(CONFIG).values["log"] == chunk["log"]
        CONFIG_2: Any = {"configurable": {"thread_id": "u"}}
        async for chunk in graph.astream({"log": []}, CONFIG_2, stream_mode="values", durability="async"):
            assert (await looking.aget_state(CONFIG_2)).values["log"] == chunk["log"]
