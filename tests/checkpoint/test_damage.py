"""What an accident or an attacker did to the tables is an error of ours, and no state is lost without one."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import zip_longest
from typing import Any

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import SerializationError, StorageCorruptError

from .damage import NAMES, TABLES, Wound, at, columns, fill, graph_for, hurt, loosen, swaps, twists, wounds

KEY = bytes(range(32))

Wounds = Callable[[sqlite3.Connection, random.Random], Iterable[Wound]]


def serializer(encrypted: bool) -> Any:
    return EncryptedSerializer(KEY, searchable=["user"]) if encrypted else None


def connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", check_same_thread=False)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "encrypted"])
def whole(request: pytest.FixtureRequest) -> tuple[sqlite3.Connection, bool]:
    """A database that nobody has touched, and whether it is encrypted."""
    connection = connect()
    fill(SqliteSaver(connection, serde=serializer(request.param)))
    loosen(connection)
    return connection, request.param


def some(found: Iterable[Wound], chance: random.Random, count: int) -> list[Wound]:
    """Take wounds by chance, about as many for every column of every channel."""
    groups: dict[Any, list[Wound]] = {}
    for wound in found:
        channel = {"tm_values": 3, "tm_writes": 4}.get(wound.table)
        groups.setdefault((wound.table, wound.column, channel and wound.row[channel]), []).append(wound)
    turns = [chance.sample(group, len(group)) for group in groups.values()]
    return [wound for turn in zip_longest(*turns) for wound in turn if wound is not None][:count]


KINDS: dict[str, Wounds] = {
    "rubbish in a column": lambda connection, chance: wounds(connection, chance, 3),
    "another structure": lambda connection, chance: some(twists(connection), chance, 90),
    "what belongs elsewhere": lambda connection, chance: some(swaps(connection), chance, 90),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rubbish_is_an_error_of_ours_or_harmless(whole: tuple[sqlite3.Connection, bool], kind: str) -> None:
    connection, encrypted = whole
    found = []
    for wound in KINDS[kind](connection, random.Random(kind)):
        copy = connect()
        connection.backup(copy)
        if wound.inflict(copy):
            raised = hurt(SqliteSaver(copy, serde=serializer(encrypted)), wound.thread_id)
            found += [f"{wound.table}.{wound.column} = {wound.value!r:.60}: {each}" for each in raised]
        copy.close()
    assert not found


def test_a_damaged_thread_can_be_deleted(whole: tuple[sqlite3.Connection, bool]) -> None:
    connection, encrypted = whole
    for wound in wounds(connection, random.Random(7), 4):
        if (wound.table, wound.column) == ("tm_threads", "thread_id"):
            continue
        copy = connect()
        connection.backup(copy)
        if wound.inflict(copy) and wound.column != "thread":
            saver = SqliteSaver(copy, serde=serializer(encrypted))
            saver.delete_thread(wound.thread_id)
            assert saver.get_tuple(at(wound.thread_id)) is None
            assert [*saver.list(at(wound.thread_id))] == []
        copy.close()


def everything(saver: Any, name: str) -> Any:
    """Read all there is of a thread."""
    graph = graph_for(saver)
    return (
        [*saver.list(at(name))],
        [
            graph.get_state(at(name, branch=branch.name), subgraphs=True)
            for branch in graph.branches(at(name))
        ],
    )


KEPT = ("tm_checkpoints", "tm_values", "tm_logs")
"""The tables of which no row can go unnoticed."""


def delete(connection: sqlite3.Connection, table: str, row: tuple[Any, ...]) -> None:
    which = " AND ".join(f"{name} IS ?" for name in columns(connection, table))
    assert connection.execute(f"DELETE FROM {table} WHERE {which}", row).rowcount == 1
    connection.commit()


def test_no_row_of_the_state_can_go_unnoticed(whole: tuple[sqlite3.Connection, bool]) -> None:
    connection, encrypted = whole
    for table in KEPT:
        for row in connection.execute(f"SELECT * FROM {table}").fetchall():
            copy = connect()
            connection.backup(copy)
            delete(copy, table, row)
            saver = SqliteSaver(copy, serde=serializer(encrypted))
            with pytest.raises(StorageCorruptError) as raised:
                everything(saver, NAMES[row[0] - 1])
            error = raised.value
            assert error.thread_id == NAMES[row[0] - 1]
            assert error.thread_id in str(error)
            if table == "tm_values":
                assert error.channel == row[3]
                assert error.checkpoint_id in str(error)
            copy.close()


def test_a_branch_that_is_gone_is_noticed(whole: tuple[sqlite3.Connection, bool]) -> None:
    connection, encrypted = whole
    for row in connection.execute("SELECT * FROM tm_heads").fetchall():
        copy = connect()
        connection.backup(copy)
        delete(copy, "tm_heads", row)
        saver = SqliteSaver(copy, serde=serializer(encrypted))
        name, ns, branch = NAMES[row[0] - 1], row[1], row[2]
        if copy.execute("SELECT 1 FROM tm_heads WHERE thread = ? AND ns = ?", (row[0], ns)).fetchone():
            # As if the branch had been deleted: what it ended with is still listed.
            everything(saver, name)
            assert branch not in [each.name for each in saver.branches(at(name, checkpoint_ns=ns))]
        else:
            with pytest.raises(StorageCorruptError):
                everything(saver, name)
            if not ns:
                for use in (saver.get_tuple, saver.branches, graph_for(saver).get_state):
                    with pytest.raises(StorageCorruptError):
                        use(at(name))
                with pytest.raises(StorageCorruptError):
                    graph_for(saver).invoke({"log": ["anew"]}, at(name))
        copy.close()


def test_a_paused_sub_graph_whose_branch_is_gone_does_not_begin_anew(
    whole: tuple[sqlite3.Connection, bool],
) -> None:
    connection, encrypted = whole
    copy = connect()
    connection.backup(copy)
    copy.execute("DELETE FROM tm_heads WHERE thread = 2 AND ns <> ''")
    copy.commit()
    graph = graph_for(SqliteSaver(copy, serde=serializer(encrypted)))
    with pytest.raises(StorageCorruptError):
        graph.invoke(None, at("paused"))


def test_what_came_before_a_hole_can_be_given_up(whole: tuple[sqlite3.Connection, bool]) -> None:
    connection, encrypted = whole
    copy = connect()
    connection.backup(copy)
    saver = SqliteSaver(copy, serde=serializer(encrypted))
    before = graph_for(saver).get_state(at("done")).values
    copy.execute(
        "DELETE FROM tm_checkpoints WHERE thread = 1 AND parent = (SELECT min(seq) FROM tm_checkpoints)"
    )
    copy.commit()
    with pytest.raises(StorageCorruptError, match=r"prune\(\['done'\]\)"):
        [*saver.list(at("done"))]
    saver.prune(["done"])
    assert graph_for(saver).get_state(at("done")).values == before
    assert len([*saver.list(at("done", checkpoint_ns=""))]) == 1


def test_a_branch_whose_end_is_gone_is_not_pruned_away(whole: tuple[sqlite3.Connection, bool]) -> None:
    connection, encrypted = whole
    copy = connect()
    connection.backup(copy)
    copy.execute("DELETE FROM tm_checkpoints WHERE thread = 1 AND seq = (SELECT max(seq) FROM tm_heads)")
    tip = copy.execute("SELECT seq FROM tm_heads WHERE thread = 1 AND ns = ''").fetchone()
    copy.execute("DELETE FROM tm_checkpoints WHERE thread = 1 AND seq = ?", tip)
    copy.commit()
    count = copy.execute("SELECT count(*) FROM tm_checkpoints").fetchone()
    with pytest.raises(StorageCorruptError):
        SqliteSaver(copy, serde=serializer(encrypted)).prune(["done"])
    assert copy.execute("SELECT count(*) FROM tm_checkpoints").fetchone() == count


@pytest.mark.parametrize("encrypted", [False, True])
def test_values_and_branches_that_are_gone_from_memory_are_noticed(encrypted: bool) -> None:
    saver = InMemorySaver(serde=serializer(encrypted))
    fill(saver)
    for key in list(saver.blobs):
        stored = saver.blobs.stored(key)
        assert stored is not None
        del saver.blobs[key]
        if stored != ("empty", b""):
            with pytest.raises(StorageCorruptError) as raised:
                everything(saver, key[0])
            assert raised.value.channel == key[2]
        saver.blobs.keep(key, stored)
    saver.storage["done"][""].heads.clear()
    with pytest.raises(StorageCorruptError):
        saver.get_tuple(at("done"))


def test_an_encrypted_file_without_its_key_is_an_error(whole: tuple[sqlite3.Connection, bool]) -> None:
    connection, encrypted = whole
    copy = connect()
    connection.backup(copy)
    saver = SqliteSaver(copy)
    for use in (saver.threads.list, lambda: saver.threads.get("done"), lambda: saver.get_tuple(at("done"))):
        with pytest.raises((StorageCorruptError, SerializationError)) if encrypted else nullcontext():
            use()


def test_the_error_says_where_the_damage_is(whole: tuple[sqlite3.Connection, bool]) -> None:
    connection, encrypted = whole
    copy = connect()
    connection.backup(copy)
    copy.execute("UPDATE tm_threads SET expires = 'soon' WHERE thread = 1")
    copy.commit()
    with pytest.raises(StorageCorruptError) as raised:
        SqliteSaver(copy, serde=serializer(encrypted)).get_tuple(at("done"))
    error = raised.value
    assert (error.thread_id, error.table, error.column) == ("done", "tm_threads", "expires")
    assert str(error) == (
        "A row of thread 'done' in tm_threads is damaged: expires holds a text where a whole number belongs. "
        "Restore a backup, or give the thread up with delete_thread('done')."
    )


def test_every_table_is_damaged_here() -> None:
    connection = connect()
    SqliteSaver(connection).setup()
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'tm%'")
    assert {name for (name,) in found} == set(TABLES)
