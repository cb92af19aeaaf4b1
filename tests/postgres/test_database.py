"""The driver under the savers and stores: what failed leaves connections as good as they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from threadmark._db import postgres_session
from threadmark._db.effects import Execute, ExecuteMany, Operation, Transaction
from threadmark._db.postgres import PostgresDatabase
from threadmark._db.postgres_session import Unheard
from threadmark.errors import StorageBusyError

from .server import fresh


def opened(target: Any) -> PostgresDatabase:
    return PostgresDatabase(target, limit=1, timeout=5, patience=5, pipeline=True, prepare_threshold=1)


@pytest.fixture
def table(uri: str) -> Iterator[str]:
    name = fresh()
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} (n bigint PRIMARY KEY)")  # type: ignore[arg-type]
        yield name
        connection.execute(f"DROP TABLE {name}")  # type: ignore[arg-type]


def add(table: str, numbers: list[int], n: int) -> Operation[list[tuple[Any, ...]]]:
    """Add numbers, and then ask something that was never asked before."""
    yield Execute(f"INSERT INTO {table} SELECT unnest($1::bigint[])", (numbers,))
    yield Unheard(f"SELECT {n % 4} + $1::bigint", (1,))
    return (yield Execute(f"SELECT {n % 4}, n FROM {table} WHERE n = $1::bigint", (numbers[0],)))


@pytest.mark.parametrize("given", [False, True], ids=["own", "given, in a transaction"])
def test_a_pipeline_that_fails_leaves_no_statement_that_is_prepared_for_the_client_alone(
    uri: str, table: str, given: bool
) -> None:
    with psycopg.connect(uri) as connection:
        connection.prepare_threshold = 1
        if given:
            connection.execute("SELECT 1")
        with opened(connection if given else uri) as database:
            for n in range(12):
                with pytest.raises(StorageBusyError):
                    database.perform(operation(add(table, [n, n], n)))
                assert database.perform(operation(add(table, [n], n))) == [(n % 4, n)]


def operation(body: Operation[Any]) -> Operation[Any]:
    return (yield Transaction(body))


def test_rows_that_are_only_inserted_go_together() -> None:
    sql = "\n    INSERT INTO t (a, b)\n    VALUES ($1, $2)\n    ON CONFLICT DO NOTHING\n"
    rows = [(n, str(n)) for n in range(70)]
    together = postgres_session._many(ExecuteMany(sql, rows))
    assert [len(params) // 2 for _, params in together] == [32, 32, 6]
    assert [value for _, params in together for value in params] == [value for row in rows for value in row]
    assert " ".join(together[2][0].split()) == (
        "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4), ($5, $6), ($7, $8), ($9, $10), ($11, $12) "
        "ON CONFLICT DO NOTHING"
    )


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = excluded.b",
        "INSERT INTO t (a, b) SELECT $1, $2",
        "DELETE FROM t WHERE a = $1 AND b = $2",
        "INSERT INTO t (a, b) VALUES ($1, $2::text)",
    ],
)
def test_other_statements_stay_apart(sql: str) -> None:
    rows = [(1, "a"), (2, "b")]
    assert postgres_session._many(ExecuteMany(sql, rows)) == [(sql, row) for row in rows]
