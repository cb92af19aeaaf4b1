"""Every operation, with its connection lost at every exchange, is carried out once all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from checkpoint.helpers import Run, config, fill, shown
from checkpoint.test_crash import OPERATIONS
from threadmark._db import postgres
from threadmark.checkpoint.base import TaskWrites
from threadmark.checkpoint.postgres import PostgresSaver

from .server import fresh


class Breaker:
    """Breaks the connection at a chosen exchange, before or after the server has done its part."""

    def __init__(self, at: int, answered: bool) -> None:
        self.left = at
        self.answered = answered

    def wrap(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def sent(lent: Any, statements: Any) -> Any:
            self.left -= 1
            if self.left == -1:
                if self.answered:
                    send(lent, statements)
                (lent._connection or lent._take()).pgconn.finish()
                raise psycopg.OperationalError("the connection was lost")
            return send(lent, statements)

        return sent


TABLES = ("threads", "labels", "leases", "heads", "checkpoints", "runs", "values", "logs", "writes")


class Copies:
    """A saver whose tables are made as those of a template again and again."""

    def __init__(self, uri: str) -> None:
        self.template, self.schema = fresh(), fresh()
        for schema in (self.template, self.schema):
            with PostgresSaver(uri, schema=schema) as saver:
                saver.setup()
                fill(saver) if schema == self.template else None
        self.saver = PostgresSaver(uri, schema=self.schema, patience=5)
        self.connection = psycopg.connect(uri, autocommit=True)

    def renew(self) -> PostgresSaver:
        names = [(f"{self.schema}.tm_{table}", f"{self.template}.tm_{table}") for table in TABLES]
        self.connection.execute(
            "; ".join(f"DELETE FROM {own}; INSERT INTO {own} SELECT * FROM {other}" for own, other in names)
        )
        return self.saver

    def close(self) -> None:
        self.saver.close()
        self.connection.close()


@pytest.fixture(scope="module")
def copies(uri: str) -> Iterator[Copies]:
    made = Copies(uri)
    yield made
    made.close()


def state(saver: PostgresSaver) -> Any:
    threads = ("t", "new", "copy")
    about = [found and (found.status, found.metadata) for found in map(saver.threads.get, threads)]
    return [shown(saver, thread_id) for thread_id in threads], about


def list_step(saver: Any) -> None:
    Run(saver).step("f1", writes=[TaskWrites("t", "~", [("l", 1)])], l=[*Run(saver).values["l"], "more"])


@pytest.mark.parametrize("answered", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("name", [*OPERATIONS, "list step"])
def test_a_lost_connection_costs_nothing(
    name: str, answered: bool, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation: Callable[[Any], Any] = {**OPERATIONS, "list step": list_step}[name]
    operation(copies.renew())
    expected = state(copies.saver)
    at = 0
    while True:
        saver = copies.renew()
        breaker = Breaker(at, answered)
        with monkeypatch.context() as patch:
            patch.setattr(postgres._Lent, "_sent", breaker.wrap(postgres._Lent._sent))
            operation(saver)
        assert state(saver) == expected, f"broken at exchange {at}"
        if breaker.left >= 0:
            break
        Run(saver, "t").step("afterwards", l=["afterwards"])
        at += 1
    assert at


@pytest.mark.parametrize("answered", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("thread", ["long", None])
def test_a_listing_goes_on_where_its_connection_was_lost(
    thread: str | None, answered: bool, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = copies.renew()
    run = Run(saver, "long")
    for n in range(100):
        run.step(f"c{n:03}", l=[*run.values.get("l", []), n])
    wanted = config(thread) if thread else None
    expected = list(saver.list(wanted))
    assert len(expected) >= 100
    at = 0
    while True:
        breaker = Breaker(at, answered)
        with monkeypatch.context() as patch:
            patch.setattr(postgres._Lent, "_sent", breaker.wrap(postgres._Lent._sent))
            assert list(saver.list(wanted)) == expected, f"broken at exchange {at}"
        if breaker.left >= 0:
            break
        at += 1
    assert at > 10


def test_a_connection_that_the_server_ended_is_replaced(copies: Copies) -> None:
    saver = copies.renew()
    for n in range(3):
        assert saver.get_tuple(config("t"))
        copies.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND backend_type = 'client backend' AND query LIKE %s",
            [f"%{copies.schema}%"],
        )
        saver.put_writes(config("t", "", "c5"), [("l", n)], f"late{n}")
    found = saver.get_tuple(config("t", "", "c5"))
    assert found
    assert {task for task, *_ in found.pending_writes or ()} >= {"late0", "late1", "late2"}
