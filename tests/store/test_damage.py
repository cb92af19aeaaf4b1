"""Whatever stands in the tables of a store, reading and writing give a value or an error of ours."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from checkpoint.damage import NOT_UTF8, VALUES, Wound, columns, loosen
from threadmark.errors import ThreadmarkError
from threadmark.store.sqlite import SqliteStore

EACH = 12
"""How many values are tried in every column."""


def connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", check_same_thread=False)


def opened(connection: sqlite3.Connection) -> SqliteStore:
    index: Any = {"dims": 2, "embed": lambda texts: [[1.0, float(len(t))] for t in texts], "fields": ["text"]}
    return SqliteStore(connection, index=index)


def uses(store: SqliteStore) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield everything that can be done with a store."""
    yield "get", lambda: [store.get(("a", "b"), f"k{i}") for i in range(4)]
    yield "search", lambda: store.search(("a",))
    yield "by words and meaning", lambda: store.search((), query="hello")
    yield "filter", lambda: store.search((), filter={"n": {"$gte": 1}})
    yield "namespaces", lambda: store.list_namespaces()
    yield "count", lambda: store.count(("a",))
    yield "put", lambda: store.put(("a", "b"), "k1", {"text": "new"})
    yield "delete", lambda: store.delete(("a", "b"), "k2")
    yield "sweep", lambda: store.sweep_ttl()
    yield "reindex", lambda: store.reindex()
    yield "by the new index", lambda: store.search((), query="hello")


def wounds(connection: sqlite3.Connection) -> Iterator[Wound]:
    chance = random.Random(1)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in tables:
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
        for column in columns(connection, table):
            for value in chance.sample([*VALUES, f"sql:{NOT_UTF8}"], EACH):
                yield Wound(table, column, chance.choice(rows), value)


def inflicted(wound: Wound, connection: sqlite3.Connection) -> bool:
    try:
        return wound.inflict(connection)
    except sqlite3.Error:
        return False


def test_rubbish_is_an_error_of_ours_or_harmless() -> None:
    connection = connect()
    store = opened(connection)
    for i in range(4):
        store.put(("a", "b"), f"k{i}", {"text": f"hello {i}", "n": i}, ttl=60 if i == 3 else None)
    loosen(connection)
    raised = []
    for wound in wounds(connection):
        copy = connect()
        connection.backup(copy)
        if inflicted(wound, copy):
            for what, use in uses(opened(copy)):
                try:
                    use()
                except ThreadmarkError:
                    continue
                except Exception as error:
                    raised.append(f"{what}: {wound.table}.{wound.column} = {wound.value!r:.60}: {error!r}")
        copy.close()
    assert not raised
