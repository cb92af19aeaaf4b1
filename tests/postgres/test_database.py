"""The driver under the savers and stores: what failed leaves connections as good as they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from threadmark._db.effects import Execute, Operation, Transaction
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
