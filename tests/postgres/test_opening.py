"""What a saver may be opened with, where its tables are, and what it says when something is missing."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg
import psycopg_pool
import pytest

from checkpoint.helpers import Run, config, fill, shown
from threadmark._db.postgres_tables import Names
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.checkpoint.postgres.tables import MIGRATIONS
from threadmark.errors import InvalidArgumentError, StorageFormatError, StorageUnavailableError
from threadmark.store.postgres import PostgresStore
from threadmark.store.postgres.aio import AsyncPostgresStore

from .server import fresh

HOSTILE = ['a"; DROP SCHEMA public CASCADE; --', "%s", "$1", "Ünïcode %(x)s", "a.b", "'", "\\"]


@pytest.fixture
def schema(uri: str) -> str:
    with PostgresSaver(uri, schema=(name := fresh())) as saver:
        saver.setup()
    return name


@pytest.mark.parametrize("name", HOSTILE)
def test_tenants_with_schemas_of_any_name_never_see_each_other(uri: str, name: str) -> None:
    with PostgresSaver(uri, schema=name) as one, PostgresSaver(uri, schema=name + "2") as two:
        one.setup()
        two.setup()
        fill(one)
        before = shown(one)
        assert two.get_tuple(config("t")) is None
        assert list(two.list(None)) == []
        fill(two)
        two.delete_thread("t")
        assert shown(one) == before
        one.delete_thread("t")


@pytest.mark.parametrize("name", HOSTILE)
def test_tenants_with_prefixes_of_any_text_never_see_each_other(uri: str, schema: str, name: str) -> None:
    short = name[:20]
    with (
        PostgresSaver(uri, schema=schema, prefix=short) as one,
        PostgresSaver(uri, schema=schema, prefix=short + "2") as two,
        PostgresStore(uri, schema=schema, prefix=short + "s") as store,
    ):
        for each in (one, two, store):
            each.setup()
        fill(one)
        store.put(("a",), "k", {"n": 1})
        assert two.get_tuple(config("t")) is None
        assert list(two.list(None)) == []
        assert one.get_tuple(config("t"))
        item = store.get(("a",), "k")
        assert item
        assert item.value == {"n": 1}


@pytest.mark.parametrize(
    "names", [{"schema": "x\x00"}, {"schema": ""}, {"schema": "s" * 64}, {"prefix": "p" * 40}]
)
def test_names_that_postgres_would_cut_or_refuse_are_refused(uri: str, names: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        PostgresSaver(uri, **names)


def test_setup_inside_a_transaction_is_part_of_it(uri: str) -> None:
    schema = fresh()
    with psycopg.connect(uri) as connection:
        connection.execute("SELECT 1")
        saver = PostgresSaver(connection, schema=schema)
        saver.setup()
        Run(saver).step("c0", n=1)
        connection.rollback()
        with PostgresSaver(uri, schema=schema) as other, pytest.raises(StorageFormatError, match="setup"):
            other.get_tuple(config("t"))
        saver.setup()
        with connection.transaction():
            Run(saver).step("c0", n=2)
        with PostgresSaver(uri, schema=schema) as other:
            found = other.get_tuple(config("t"))
            assert found
            assert found.checkpoint["channel_values"] == {"n": 2}
            other.setup()
        assert connection.autocommit is False


def test_tables_of_a_later_release_are_left_alone(uri: str, schema: str) -> None:
    table = Names(schema, "tm_").table("components")
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"UPDATE {table} SET version = {len(MIGRATIONS) + 1}")  # type: ignore[arg-type]
    with PostgresSaver(uri, schema=schema) as saver, pytest.raises(StorageFormatError, match="newer"):
        saver.setup()


async def test_one_saver_serves_threads_and_event_loops_however_it_was_opened(uri: str, schema: str) -> None:
    async with (
        await psycopg.AsyncConnection.connect(uri) as aconnection,
        psycopg_pool.AsyncConnectionPool(uri, min_size=1, max_size=2) as apool,
    ):
        with (
            psycopg.connect(uri) as connection,
            psycopg_pool.ConnectionPool(uri, min_size=1, max_size=2) as pool,
        ):
            for n, target in enumerate((uri, aconnection, apool, connection, pool)):
                with PostgresSaver(target, schema=schema) as saver:
                    where = config(f"both{n}")
                    Run(saver, f"both{n}").step("c0", n=n)  # In the loop's own thread.
                    found = await asyncio.gather(*(saver.aget_tuple(where) for _ in range(20)))
                    assert {one.checkpoint["id"] for one in found if one} == {"c0"}
                    assert await asyncio.to_thread(saver.get_tuple, where)


async def test_a_pool_is_used_as_a_pool(uri: str, schema: str) -> None:
    gate = asyncio.Event()
    holding = asyncio.Semaphore(0)

    async def configure(connection: Any) -> None:
        await connection.set_autocommit(True)

    async with psycopg_pool.AsyncConnectionPool(uri, min_size=6, max_size=6, configure=configure) as pool:
        saver = PostgresSaver(pool, schema=schema)
        take = pool.getconn

        async def taken() -> Any:
            connection = await take()
            holding.release()
            await gate.wait()
            return connection

        pool.getconn = taken  # type: ignore[method-assign, assignment]
        reads = [asyncio.ensure_future(saver.aget_tuple(config("t"))) for _ in range(20)]
        async with asyncio.timeout(20):
            for _ in range(6):
                await holding.acquire()
        gate.set()
        await asyncio.gather(*reads)


async def test_the_loop_is_free_while_a_sync_connection_works(uri: str, schema: str) -> None:
    with psycopg.connect(uri) as connection:
        saver = PostgresSaver(connection, schema=schema)
        used: set[int] = set()
        perform = saver._server.perform
        saver._server.perform = lambda op: (used.add(threading.get_ident()), perform(op))[1]  # type: ignore[method-assign]
        assert await saver.aget_tuple(config("nobody")) is None
        assert used
        assert threading.get_ident() not in used


def test_any_text_is_storable_where_values_and_metadata_are(uri: str, schema: str) -> None:
    with PostgresSaver(uri, schema=schema) as saver:
        text = "q\x00\ud800\U0001f600"
        Run(saver, "nul").step("c0", s=text, about={"note": text, "k\x00": "v"})
        found = saver.get_tuple(config("nul"))
        assert found
        assert found.checkpoint["channel_values"] == {"s": text}
        assert found.metadata == {"note": text, "k\x00": "v"}
        assert [thread.thread_id for thread in saver.threads.search({"k\x00": "v"}).threads] == ["nul"]
        for bad in ("nul\x00", "\ud800"):
            with pytest.raises(InvalidArgumentError):
                saver.get_tuple(config(bad))


def test_secrets_stay_out_of_errors() -> None:
    for target in ("postgresql://me:s3cret@/x?host=/nowhere", "host=/nowhere password=s3cret dbname=x"):
        with PostgresSaver(target, patience=0.1) as saver, pytest.raises(StorageUnavailableError) as caught:
            saver.setup()
        assert "s3cret" not in str(caught.value)
    for broken in ("postgresql://me:s3cret@[/x", "password=s3cret nonsense"):
        with pytest.raises(InvalidArgumentError) as refused:
            PostgresSaver(broken)
        assert "s3cret" not in str(refused.value)
    for wrong in (3, None, object()):
        with pytest.raises(InvalidArgumentError, match="connection string"):
            PostgresSaver(wrong)  # type: ignore[arg-type]


async def test_async_programs_find_what_they_look_for(uri: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(uri, schema=fresh()) as saver:
        await saver.setup()
        assert await saver.aget_tuple(config("t")) is None
    async with AsyncPostgresStore.from_conn_string(uri, schema=fresh()) as store:
        await store.setup()
        await store.aput(("a",), "k", {"n": 1}, ttl=None)
        assert await store.sweep_ttl() == 0
