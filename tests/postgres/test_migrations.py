"""Tables are brought up to date once, whole or not at all, by whoever comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from threadmark._db import postgres
from threadmark._db.effects import Operation
from threadmark._db.postgres import PostgresDatabase
from threadmark._db.postgres_session import Again
from threadmark._db.postgres_tables import Names, migrate
from threadmark.checkpoint.postgres import tables
from threadmark.errors import StorageError, StorageFormatError
from threadmark.store.postgres import PostgresStore, statements

from .server import fresh
from .test_locks import all_at_once
from .test_lost import Breaker

FIRST = ["CREATE TABLE tm_things (n bigint PRIMARY KEY, name text)"]
SECOND = [
    "ALTER TABLE tm_things ADD COLUMN length bigint",
    "UPDATE tm_things SET length = length(name)",
    "INSERT INTO tm_things SELECT max(n) + 1, 'migrated', 8 FROM tm_things",
]
OLD, NEW = [FIRST], [FIRST, SECOND]
MIGRATED = [(1, "one", 3), (2, "three", 5), (3, "migrated", 8)]


def opened(target: Any) -> PostgresDatabase:
    return PostgresDatabase(target, limit=1, timeout=5, patience=10, pipeline=True, prepare_threshold=5)


def up_to_date(names: Names, versions: Sequence[Sequence[str]]) -> Operation[None]:
    return Again(lambda: migrate(names, "things", versions))


def of_first_version(uri: str) -> Names:
    """Make tables as the first release did, with something in them."""
    names = Names(fresh(), "tm_")
    with opened(uri) as database, psycopg.connect(uri, autocommit=True) as connection:
        database.perform(up_to_date(names, OLD))
        connection.execute(names.worded("INSERT INTO tm_things VALUES (1, 'one'), (2, 'three')"))  # type: ignore[arg-type]
    return names


def things(target: Any, names: Names) -> list[Any]:
    return list(target.execute(names.worded("SELECT * FROM tm_things ORDER BY n")))


def _migrate(uri: str, names: Names, gate: Any) -> None:
    with opened(uri) as database:
        gate.wait()
        database.perform(up_to_date(names, NEW))


def test_of_ten_processes_one_migrates(uri: str) -> None:
    names = of_first_version(uri)
    all_at_once(_migrate, uri, [names] * 10)
    with psycopg.connect(uri) as connection:
        assert things(connection, names) == MIGRATED


@pytest.mark.parametrize("answered", [False, True], ids=["not done", "done"])
def test_a_migration_that_is_cut_off_anywhere_is_done_whole_by_the_next(
    uri: str, answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = 0
    while True:
        names, breaker = of_first_version(uri), Breaker(at, answered)
        with opened(uri) as database, monkeypatch.context() as patch:
            patch.setattr(postgres._Lent, "_sent", breaker.wrap(postgres._Lent._sent))
            database.perform(up_to_date(names, NEW))
        with psycopg.connect(uri) as connection:
            assert things(connection, names) == MIGRATED, f"cut off at exchange {at}"
        if breaker.left >= 0:
            break
        at += 1
    assert at > 3


def test_a_migration_that_fails_changes_nothing(uri: str) -> None:
    names = of_first_version(uri)
    with opened(uri) as database, psycopg.connect(uri, autocommit=True) as connection:
        before = things(connection, names)
        with pytest.raises(StorageError):
            database.perform(up_to_date(names, [FIRST, [*SECOND, "SELECT 1 / 0 FROM tm_things"]]))
        assert things(connection, names) == before
        database.perform(up_to_date(names, NEW))
        assert things(connection, names) == MIGRATED


def test_a_migration_inside_a_transaction_is_part_of_it(uri: str) -> None:
    names = of_first_version(uri)
    with psycopg.connect(uri) as connection:
        before = things(connection, names)
        database = opened(connection)
        database.perform(up_to_date(names, NEW))
        assert things(connection, names) == MIGRATED
        connection.rollback()
        assert things(connection, names) == before


def test_an_older_release_refuses_newer_tables_and_leaves_them_alone(uri: str) -> None:
    names = of_first_version(uri)
    with opened(uri) as database, psycopg.connect(uri) as connection:
        database.perform(up_to_date(names, NEW))
        with pytest.raises(StorageFormatError, match=r"version 2.*up to 1.*newer threadmark"):
            database.perform(up_to_date(names, OLD))
        assert things(connection, names) == MIGRATED


def test_no_name_is_another_one_with_something_before_it() -> None:
    """Or the tables of one prefix could be those of another."""
    scripts = [
        *tables.MIGRATIONS,
        *tables.migrations(3),
        *statements.MIGRATIONS,
        *statements.VECTOR_MIGRATIONS,
    ]
    names = {"components"}
    for statement in (statement for script in scripts for statement in script):
        names.update(word.strip("(;")[3:] for word in statement.split() if word.startswith(("tm_", "ix_")))
    assert len(names) > 30
    assert not [(a, b) for a in names for b in names if a != b and a.endswith(b)]


def _embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, len(text)] for text in texts]


def with_vectors(uri: str, schema: str) -> PostgresStore:
    return PostgresStore(uri, schema=schema, index={"embed": _embed, "dims": 2})


def indexes(uri: str, schema: str) -> list[Any]:
    with psycopg.connect(uri) as connection:
        return list(
            connection.execute(
                "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                " WHERE i.indrelid = %s::regclass AND c.relname LIKE '%%vectors_2%%'",
                [f'"{schema}".tm_store_vectors'],
            )
        )


def _set_up(uri: str, schema: str, gate: Any) -> None:
    with with_vectors(uri, schema) as store:
        gate.wait()
        store.setup()


@pytest.mark.parametrize("state", ["empty", "filled", "half made"])
def test_of_several_processes_one_makes_the_index_of_vectors(uri: str, state: str) -> None:
    schema = fresh()
    if state != "empty":
        with with_vectors(uri, schema) as store, psycopg.connect(uri, autocommit=True) as connection:
            store.setup()
            store.put(("a",), "k", {"text": "x"})
            index = f'"{schema}".tm_store_vectors_2_ip'
            if state == "filled":
                connection.execute(f"DROP INDEX {index}")  # type: ignore[arg-type]
            else:
                connection.execute(
                    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [index]
                )
    all_at_once(_set_up, uri, [schema] * 4)
    assert indexes(uri, schema) == [("tm_store_vectors_2_ip", True)]
