"""What was deleted by hand from the tables is missed, as it is on SQLite."""

from __future__ import annotations

import psycopg
import pytest

from checkpoint.damage import NAMES, at, fill, graph_for
from checkpoint.test_damage import everything
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.errors import StorageCorruptError

from .server import fresh

ROWS = {
    "tm_checkpoints": ("thread", "seq"),
    "tm_values": ("thread", "space", "version", "channel"),
    "tm_logs": ("thread", "space", "channel", "log", "start"),
}
EVERY = 5
"""Deleting one row after the other takes a while: every fifth is deleted."""


def test_no_row_of_the_state_can_go_unnoticed(uri: str) -> None:
    schema = fresh()
    with PostgresSaver(uri, schema=schema) as saver, psycopg.connect(uri, autocommit=True) as other:
        saver.setup()
        fill(saver)
        other.execute(f'SET search_path TO "{schema}"')
        names = dict(other.execute("SELECT thread, thread_id FROM tm_threads").fetchall())
        # Errors equal nothing but themselves, so the thread that failed is not compared.
        whole = [everything(saver, name) for name in NAMES if name != "failed"]
        for table, key in ROWS.items():
            columns = ", ".join(key)
            for row in other.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}").fetchall()[::EVERY]:
                which = " AND ".join(f"{column} = %s" for column in key)
                other.execute(f"CREATE TEMP TABLE taken AS SELECT * FROM {table} WHERE {which}", row)
                other.execute(f"DELETE FROM {table} WHERE {which}", row)
                with pytest.raises(StorageCorruptError) as raised:
                    everything(saver, names[row[0]])
                assert raised.value.thread_id == names[row[0]]
                other.execute(f"INSERT INTO {table} SELECT * FROM taken")
                other.execute("DROP TABLE taken")
        assert [everything(saver, name) for name in NAMES if name != "failed"] == whole


@pytest.mark.parametrize("name", NAMES)
def test_a_branch_that_is_gone_is_noticed(uri: str, name: str) -> None:
    schema = fresh()
    with PostgresSaver(uri, schema=schema) as saver, psycopg.connect(uri, autocommit=True) as other:
        saver.setup()
        fill(saver)
        other.execute(f"DELETE FROM \"{schema}\".tm_heads WHERE ns = ''")
        for use in (saver.get_tuple, saver.branches, lambda config: [*saver.list(config)]):
            with pytest.raises(StorageCorruptError):
                use(at(name))
        with pytest.raises(StorageCorruptError):
            graph_for(saver).invoke({"log": ["anew"]}, at(name))
