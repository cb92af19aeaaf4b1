"""The Postgres saver keeps every promise of the kit, however it was opened."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import psycopg_pool
import pytest
from psycopg.rows import dict_row

from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.testing import SAVER_CHECKS, Check, run_saver_check

from .server import fresh


def made(target: Any, **options: Any) -> PostgresSaver:
    saver = PostgresSaver(target, schema=fresh(), **options)
    saver.setup()
    return saver


@contextmanager
def on_connection(uri: str) -> Any:
    """A connection as somebody has it: with transactions, and rows as dictionaries."""
    with psycopg.connect(uri, row_factory=dict_row) as connection:
        yield made(connection)


@contextmanager
def on_pool(uri: str) -> Any:
    with psycopg_pool.ConnectionPool(uri, min_size=1, max_size=3, open=True) as pool:
        yield made(pool)


@asynccontextmanager
async def on_async_connection(uri: str) -> Any:
    async with await psycopg.AsyncConnection.connect(uri) as connection:
        with PostgresSaver(connection, schema=fresh()) as saver:
            await saver.asetup()
            yield saver


@asynccontextmanager
async def on_async_pool(uri: str) -> Any:
    async with psycopg_pool.AsyncConnectionPool(uri, min_size=1, max_size=3) as pool:
        with PostgresSaver(pool, schema=fresh()) as saver:
            await saver.asetup()
            yield saver


@contextmanager
def split(uri: str) -> Any:
    with PostgresSaver(uri, schema=fresh()) as saver:
        saver.setup(partitions=3)
        yield saver


OPENED: dict[str, Callable[[str], Any]] = {
    "connection": on_connection,
    "pool": on_pool,
    "async connection": on_async_connection,
    "async pool": on_async_pool,
    "partitions": split,
    "never prepared, no pipeline": lambda uri: made(uri, prepare_threshold=None, pipeline=False),
}
SOME = [check for check in SAVER_CHECKS if check.group == "engine"]


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("check", SAVER_CHECKS, ids=str)
def test_promise(check: Check, face: Any, uri: str) -> None:
    run_saver_check(check, lambda: made(uri), face)


@pytest.mark.parametrize("name", OPENED)
@pytest.mark.parametrize("check", SOME, ids=str)
def test_promise_of_commits(check: Check, name: str, uri: str) -> None:
    face: Any = "async" if "async" in name or name == "pool" else "sync"
    run_saver_check(check, lambda: OPENED[name](uri), face)
