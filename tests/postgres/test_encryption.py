"""Where the serializer encrypts, the tables hold in clear what may be searched for, and nothing else."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

import psycopg
from psycopg import sql

from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.constants import END, START
from threadmark.graph import StateGraph

from .server import fresh

KEY = bytes(range(32))
SECRET = "the-secret-word"


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def everything(uri: str, schema: str) -> str:
    """Return all rows of a schema, with bytes as they are."""
    found = []
    with psycopg.connect(uri) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,))
        for (table,) in tables.fetchall():
            rows = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, table)))
            found += rows.fetchall()
    return repr(found)


def labels(uri: str, schema: str) -> list[tuple[str, str]]:
    with psycopg.connect(uri) as connection:
        statement = sql.SQL("SELECT DISTINCT name, value FROM {} ORDER BY name, value")
        found = connection.execute(statement.format(sql.Identifier(schema, "tm_labels")))
        return [(name, value) for name, value in found.fetchall()]


def filled(uri: str, schema: str, serde: EncryptedSerializer | None) -> None:
    with PostgresSaver(uri, schema=schema, serde=serde) as saver:
        saver.setup()
        builder = StateGraph(State)
        builder.add_node("say", lambda state: {"said": [SECRET]})
        builder.add_edge(START, "say")
        builder.add_edge("say", END)
        graph = builder.compile(checkpointer=saver)
        for thread_id in ("t", "other"):
            about = {"user": SECRET, "team": "clear"}
            graph.invoke({"said": []}, {"configurable": {"thread_id": thread_id}, "metadata": about})


def test_only_searchable_keys_stand_in_clear_and_they_lead_the_search(uri: str) -> None:
    schema = fresh()
    serde = EncryptedSerializer(KEY, searchable=["team"])
    filled(uri, schema, serde)
    assert SECRET not in everything(uri, schema)
    assert labels(uri, schema) == [("team", '"clear')]
    with PostgresSaver(uri, schema=schema, serde=serde) as saver:
        for wanted in ({"team": "clear"}, {"user": SECRET}, {"user": SECRET, "team": "clear"}):
            assert len(saver.threads.search(wanted).threads) == 2
        assert not saver.threads.search({"team": "other"}).threads


def test_beginning_to_encrypt_takes_labels_out_of_the_clear(uri: str) -> None:
    schema = fresh()
    filled(uri, schema, None)
    assert SECRET in everything(uri, schema)
    serde = EncryptedSerializer(KEY, searchable=["team"], accept_plaintext=True)
    with PostgresSaver(uri, schema=schema, serde=serde) as saver:
        assert saver.rotate() > 0
        assert saver.rotate() == 0
        assert len(saver.threads.search({"user": SECRET}).threads) == 2
    assert SECRET not in everything(uri, schema)
    assert labels(uri, schema) == [("team", '"clear')]
