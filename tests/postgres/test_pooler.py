"""Everything works when a pooler in transaction mode stands between."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import psycopg
import pytest

from checkpoint.helpers import config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.errors import StorageError
from threadmark.graph import START, StateGraph
from threadmark.store.postgres import PostgresStore
from threadmark.testing import SAVER_CHECKS, Check, run_saver_check
from threadmark.testing.stores import STORE_CHECKS, StoreCheck, StoreOptions, run_store_check

from .pooler import pooler
from .server import fresh

SIZE = 3


@pytest.fixture
def pooled(uri: str) -> Iterator[str]:
    """How to connect to the server through a pooler, whose connections no other test holds."""
    with pooler(uri, SIZE) as through:
        yield through


def opened(uri: str, **options: Any) -> PostgresSaver:
    saver = PostgresSaver(uri, schema=fresh(), prepare_threshold=None, **options)
    saver.setup()
    return saver


@pytest.mark.parametrize("check", SAVER_CHECKS, ids=str)
def test_promise(check: Check, pooled: str) -> None:
    run_saver_check(check, lambda: opened(pooled), "async" if check.group == "engine" else "sync")


@pytest.mark.parametrize("check", STORE_CHECKS, ids=str)
def test_store_keeps(check: StoreCheck, pooled: str) -> None:
    def made(options: StoreOptions) -> PostgresStore:
        store = PostgresStore(
            pooled,
            schema=fresh(),
            index=options.index,
            ttl=options.ttl,
            clock=options.clock,
            prepare_threshold=None,
        )
        store.setup()
        return store

    run_store_check(check, made, "sync")


class State(TypedDict):
    log: Annotated[list[int], operator.add]


async def test_more_runs_than_connections_at_once(pooled: str) -> None:
    graph = StateGraph(State).add_node("node", lambda state: {"log": [len(state["log"])]})
    with opened(pooled, max_connections=20) as saver:
        app = graph.add_edge(START, "node").compile(checkpointer=saver)
        for _ in range(3):
            await asyncio.gather(*(app.ainvoke({"log": []}, config(f"t{n}")) for n in range(40)))
        found = [await app.aget_state(config(f"t{n}")) for n in range(40)]
        assert [state.values["log"] for state in found] == [[0, 1, 2]] * 40


def test_each_transaction_may_have_another_connection(pooled: str) -> None:
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
        seen = {connection.execute("SELECT pg_backend_pid()").fetchone() for _ in range(10)}
    assert len(seen) == SIZE


def test_statements_that_were_prepared_and_forgotten_are_explained(pooled: str) -> None:
    with (
        opened(pooled) as saver,
        PostgresSaver(pooled, schema=saver._names.schema) as preparing,
        pytest.raises(StorageError, match="prepare_threshold=None"),
    ):
        for _ in range(20):
            preparing.get_tuple(config("t"))
