"""Commits saved together on Postgres leave what they leave one by one, whatever connection breaks."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from crash.test_line import loop_graph
from threadmark._db import postgres
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.pregel import committer

from .server import fresh

ROUNDS = 60


@pytest.fixture(autouse=True)
def any_superstep_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commits get in line however long a superstep takes."""
    monkeypatch.setattr(committer, "QUICK", math.inf)
    monkeypatch.setattr(committer, "ENOUGH", 0)


@pytest.fixture
def saver(uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    groups: list[int] = []
    committing = PostgresSaver._committing

    def counting(self: Any, *prepared: Any) -> Any:
        groups.append(len(prepared))
        return committing(self, *prepared)

    monkeypatch.setattr(PostgresSaver, "_committing", counting)
    with PostgresSaver(uri, schema=fresh()) as made:
        made.setup()
        yield made
    assert max(groups) > 1, "some commits were saved together"
    assert max(groups) <= PostgresSaver.commits_waiting


def invoke(mode: str, graph: Any, thread: str) -> Any:
    config = {"configurable": {"thread_id": thread}}
    if mode == "sync":
        return graph.invoke({"log": []}, config, durability="async")
    return asyncio.run(graph.ainvoke({"log": []}, config, durability="async"))


def check(graph: Any, thread: str, result: Any) -> None:
    log = [f"x{n}" for n in range(ROUNDS)]
    assert result["log"] == log
    history = list(graph.get_state_history({"configurable": {"thread_id": thread}}))
    assert [len(state.values["log"]) for state in history] == [*range(ROUNDS, -1, -1), 0]
    assert all(state.values["log"] == log[: len(state.values["log"])] for state in history)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_line_keeps_order_and_lists(mode: str, saver: Any) -> None:
    graph = loop_graph(saver, ROUNDS)
    check(graph, "t", invoke(mode, graph, "t"))


@pytest.mark.parametrize("answered", [False, True], ids=["not done", "done"])
def test_a_line_whose_connection_breaks_is_saved_once(
    answered: bool, saver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = postgres._Lent._sent
    graph = loop_graph(saver, ROUNDS)
    for at in range(4, 40, 3):
        left = [at]

        def breaking(lent: Any, statements: Any, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] == -1:
                if answered:
                    send(lent, statements)
                (lent._connection or lent._take()).pgconn.finish()
                raise psycopg.OperationalError("the connection was lost")
            return send(lent, statements)

        with monkeypatch.context() as patch:
            patch.setattr(postgres._Lent, "_sent", breaking)
            result = invoke("sync", graph, f"broken at {at}")
        assert left[0] < 0, "the connection was broken"
        check(graph, f"broken at {at}", result)
