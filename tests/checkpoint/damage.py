"""A file with something of everything in it, ways to damage it, and everything that can be done with it."""

from __future__ import annotations

import operator
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any, NamedTuple, TypedDict

import ormsgpack

from threadmark.channels.kept import appended
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.constants import END, START
from threadmark.errors import ThreadmarkError
from threadmark.graph import StateGraph
from threadmark.types import Command, Interrupt, Send, interrupt

NAMES = ("done", "paused", "forked", "failed")
"""The threads. Their numbers begin with 1."""
TABLES = (
    "tm_threads",
    "tm_heads",
    "tm_checkpoints",
    "tm_values",
    "tm_logs",
    "tm_writes",
    "tm_runs",
    "tm_labels",
    "tm_leases",
)


# A graph that asks nothing of the values in its state, so that no error is its own.


def add(left: Any, right: Any) -> Any:
    """Add lists, whatever was read in the place of one."""
    return operator.add(left, right) if isinstance(left, list) and isinstance(right, list) else right


add.changes = appended  # type: ignore[attr-defined]


class Inner(TypedDict, total=False):
    log: Annotated[list[Any], add]
    answer: Any


class State(TypedDict, total=False):
    log: Annotated[list[Any], add]
    about: dict[str, Any]
    answer: Any
    fail: Any


def fails(state: State) -> Any:
    if state.get("fail"):
        raise ExpectedError("as expected")
    return {"log": ["right"]}


class ExpectedError(Exception):
    """What a node of the graph raises on purpose."""


def graph_for(saver: Any) -> Any:
    """Return a graph with a sub-graph that asks, a join, tasks that are sent, and a key that is cleared."""
    inner = StateGraph(Inner)
    inner.add_node("before", lambda state: {"log": ["before"]})
    inner.add_node("ask", lambda state: {"answer": interrupt("sure?"), "log": ["asked"]})
    inner.add_edge(START, "before")
    inner.add_edge("before", "ask")
    outer = StateGraph(State)
    outer.add_node("first", lambda state: {"log": ["first", {"k": 1}], "about": {"n": 1}})
    outer.add_node("left", lambda state: {"log": ["left"]})
    outer.add_node("right", fails)
    outer.add_node("join", lambda state: {"log": ["join"]})
    outer.add_node("sent", lambda state: {"log": ["sent"]})
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "first")
    outer.add_edge("first", "left")
    outer.add_edge("first", "right")
    outer.add_edge(["left", "right"], "join")
    outer.add_conditional_edges("join", lambda state: [Send("sent", {}), Send("sent", {})], ["sent"])
    outer.add_edge("sent", "inner")
    outer.add_edge("inner", END)
    return outer.compile(checkpointer=saver)


def at(thread_id: str, **more: Any) -> Any:
    """Return a config."""
    return {"configurable": {"thread_id": thread_id, **more}}


def fill(saver: Any) -> None:
    """Make a thread that is finished, one that is paused, one that has branches, and one that failed."""
    graph = graph_for(saver)
    for name in ("done", "paused", "forked"):
        graph.invoke(
            {"log": ["in"]}, {**at(name), "run_id": f"run of {name}", "metadata": {"user": name, "more": [1]}}
        )
    graph.invoke(Command(resume="yes"), at("done"))
    graph.invoke({"log": ["again"]}, at("done"))
    graph.invoke(Command(resume="yes"), at("done"))
    old = list(graph.get_state_history(at("forked")))[-3]
    graph.invoke(None, old.config)
    graph.create_branch(old.config, "named")
    with suppress(ExpectedError):
        graph.invoke({"log": ["in"], "fail": True}, at("failed"))
    saver.take_lease("done", "token", timedelta(hours=1))


# Everything that can be done


def uses(saver: Any, name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield everything that can be done with a thread, reading first, what destroys it last."""
    graph = graph_for(saver)
    here = at(name)
    index = saver.threads
    yield "get_state", lambda: graph.get_state(here, subgraphs=True)
    yield "history", lambda: list(graph.get_state_history(here))
    yield "list", lambda: list(saver.list(None, filter={"source": "loop"}))
    yield "tree", lambda: graph.tree(here)
    yield "branches", lambda: graph.branches(here)
    yield "diff", lambda: graph.diff(here, here)
    yield "named", lambda: graph.get_state(at(name, branch="named"))
    yield "threads.list", lambda: walk(index.list)
    yield "threads.search", lambda: index.search({"user": name})
    yield "threads.search unlabelled", lambda: index.search({"more": [1]}, status="paused")
    yield "threads.count", lambda: (index.count(), index.count({"user": name}, status="idle"))
    yield "threads.get", lambda: index.get(name)
    yield "threads.update", lambda: index.update(name, metadata={"user": "new"}, ttl=timedelta(days=1))
    yield "update_state", lambda: graph.update_state(here, {"log": ["edit"]}, as_node="first")
    yield "copy", lambda: saver.copy_thread(name, f"copy of {name}")
    yield "fork", lambda: graph.create_branch(here, "fresh")
    yield "switch", lambda: graph.switch_branch(here, "named")
    yield "rename", lambda: graph.rename_branch(here, "named", "other")
    yield "resume", lambda: graph.invoke(Command(resume="yes"), here)
    yield "go on", lambda: graph.invoke(None, here)
    yield "invoke", lambda: graph.invoke({"log": ["more"]}, here)
    yield "lease", lambda: (saver.take_lease(name, "other", timedelta(1)), saver.drop_lease(name, "other"))
    yield "drop", lambda: graph.delete_branch(here, "other")
    yield "prune", lambda: saver.prune([name], keep_last=2)
    yield "older", lambda: saver.prune([name], older_than=timedelta(0))
    yield "runs", lambda: saver.delete_for_runs([f"run of {name}"])
    yield "sweep", lambda: saver.sweep()
    yield "delete", lambda: saver.delete_thread(name)


def hurt(saver: Any, name: str) -> list[str]:
    """Do everything with a thread; return what raised something else than an error of ours."""
    found = []
    for what, use in uses(saver, name):
        try:
            use()
        except (ThreadmarkError, ExpectedError):
            continue
        except Exception as error:
            found.append(f"{what}: {error!r}")
    return found


def walk(listing: Callable[..., Any]) -> int:
    """Walk through all pages of a listing."""
    count, cursor = 0, None
    while True:
        page = listing(limit=2, cursor=cursor)
        count += len(page.threads)
        cursor = page.cursor
        if cursor is None or count > 100:
            return count


# Damage

DEEP = b"\x91" * 3_000 + b"\xc0"
VALUES: tuple[Any, ...] = (
    None,
    0,
    -1,
    2**62,
    2**63 - 1,
    -(2**63),
    1.5,
    float("inf"),
    "",
    "\x00",
    "a\x00b",
    "nonsense",
    "[[1]]",
    '{"a": 1}',
    "[" * 3_000,
    "é" * 300,
    b"",
    b"\xc1",
    b"\xff\xfe\xfd\x00\x01",
    b"\x80",
    b"\x90",
    b"\x01",
    b"\xa1x",
    b"\x93\x01\x02\x03",
    b"\x81\x01\x02",
    b"\x81\xa1a\x93\x01\x02\x03",
    b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
    DEEP,
)
NOT_UTF8 = "CAST(x'ff41fe' AS TEXT)"


class Wound(NamedTuple):
    """Overwrites one column of one row."""

    table: str
    column: str
    row: tuple[Any, ...]
    value: Any

    @property
    def thread_id(self) -> str:
        """The thread that it hits."""
        number = self.row[3 if self.table == "tm_labels" else 0]
        return NAMES[number - 1] if isinstance(number, int) else str(number)

    def inflict(self, connection: sqlite3.Connection) -> bool:
        """Do it; tell whether the table took it."""
        names = columns(connection, self.table)
        which = " AND ".join(f"{name} IS ?" for name in names)
        new, params = (self.value[4:], ()) if str(self.value).startswith("sql:") else ("?", (self.value,))
        try:
            done = connection.execute(
                f"UPDATE {self.table} SET {self.column} = {new} WHERE {which}", (*params, *self.row)
            )
        except sqlite3.IntegrityError:
            return False
        connection.commit()
        return done.rowcount == 1


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the names of a table's columns."""
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def loosen(connection: sqlite3.Connection) -> None:
    """Let the tables take null everywhere."""
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'")
    connection.execute("PRAGMA writable_schema = RESET")
    connection.commit()


def wounds(connection: sqlite3.Connection, chance: random.Random, each: int) -> Iterator[Wound]:
    """Yield wounds for every column of every table, with `each` values for rows taken by chance."""
    for table in TABLES:
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
        for column in columns(connection, table):
            values = [*VALUES, f"sql:{NOT_UTF8}"]
            for value in values if each >= len(values) else chance.sample(values, each):
                yield Wound(table, column, chance.choice(rows), value)


HOSTILE_PARTS: tuple[Any, ...] = (None, -1, 10**9, "x", 1.5, True, [], {}, [[1]], {"a": 1}, {1: 2}, b"\xff")


def twisted(value: Any) -> Iterator[Any]:
    """Yield copies of a structure in each of which one part is another."""
    yield from HOSTILE_PARTS
    if isinstance(value, list):
        for i, inner in enumerate(value):
            for new in twisted(inner):
                yield [*value[:i], new, *value[i + 1 :]]
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield {**{k: v for k, v in value.items() if k != key}, 7: inner}
            for new in twisted(inner):
                yield {**value, key: new}


def swaps(connection: sqlite3.Connection) -> Iterator[Wound]:
    """Yield wounds that put what belongs to one channel, or never did to any, in the place of another's."""
    serde = JsonPlusSerializer()
    odd = (
        [Send(1, {})],  # type: ignore[arg-type]
        Send(None, {}),  # type: ignore[arg-type]
        Send("nowhere", {}),
        [Interrupt("?", 1)],  # type: ignore[arg-type]
        [Interrupt("?", [])],  # type: ignore[arg-type]
        ({"left"}, True),
        ({"left"}, 1),
        (1, 2, 3),
        {("left",), 7},
        {"left", "right"},
        ValueError("x"),
        Command(goto="left"),
    )
    rows = {}
    for table, data in (("tm_values", 6), ("tm_writes", 6)):
        for row in connection.execute(f"SELECT * FROM {table}"):
            rows[table, row[3 if table == "tm_values" else 4]] = row, row[data]
    contents = [*dict.fromkeys(data for _, data in rows.values()), *(serde.dumps_typed(o)[1] for o in odd)]
    for (table, _), (row, _) in rows.items():
        for content in contents:
            yield Wound(table, "data", row, content)


PACKED = (
    ("tm_checkpoints", "body"),
    ("tm_checkpoints", "metadata"),
    ("tm_values", "data"),
    ("tm_logs", "sizes"),
    ("tm_logs", "data"),
    ("tm_writes", "data"),
    ("tm_threads", "metadata"),
)


def twists(connection: sqlite3.Connection) -> Iterator[Wound]:
    """Yield wounds that leave MessagePack whole and change a part of what it says."""
    for table, column in PACKED:
        names = columns(connection, table)
        for row in connection.execute(f"SELECT * FROM {table}").fetchall():
            data = row[names.index(column)]
            if data is None:
                continue
            try:
                found = ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS)
            except ValueError:
                continue
            for new in twisted(found):
                packed = ormsgpack.packb(new, option=ormsgpack.OPT_NON_STR_KEYS)
                yield Wound(table, column, row, packed)
