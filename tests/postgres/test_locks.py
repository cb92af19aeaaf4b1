"""Whoever writes to several rows locks them in one order: crossing writers wait, and never deadlock."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from checkpoint.helpers import Run, config
from threadmark.checkpoint.base import TaskWrites
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.errors import LeaseLostError, StoreConflictError, ThreadConflictError, ThreadDeletedError
from threadmark.store.base import GetOp, PutOp
from threadmark.store.postgres import PostgresStore

from .server import fresh

KEYS = [f"k{n}" for n in range(40)]
"""More than a batch locks one by one."""
FEW = KEYS[:6]
ROUNDS = 25


@pytest.fixture
def database(uri: str) -> Iterator[str]:
    """A database of its own, which counts the deadlocks in it."""
    name = fresh()
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        yield make_conninfo(uri, dbname=name)
        connection.execute("SELECT pg_stat_clear_snapshot()")
        row = connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = %s", [name]
        ).fetchone()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]
    assert row == (0,)


def all_at_once(work: Callable[..., None], uri: str, jobs: list[Any]) -> None:
    """Have a process do each job, beginning at the same time."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(len(jobs))
    workers = [context.Process(target=work, args=(uri, job, gate)) for job in jobs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(100)
    assert [worker.exitcode for worker in workers] == [0] * len(jobs)


def _opened(uri: str) -> PostgresStore:
    # What one process leaves expired another may sweep, or write anew.
    return PostgresStore(
        uri,
        ttl={"default_ttl": 0.0005, "refresh_on_read": True},
        index={"embed": _embed, "dims": 2, "fields": ["n"]},
    )


def _embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, len(text)] for text in texts]


def _use_store(uri: str, job: tuple[str, list[str]], gate: Any) -> None:
    name, keys = job
    with _opened(uri) as store:
        gate.wait()
        for n in range(ROUNDS):
            if name == "put":
                store.batch([PutOp(("s",), key, {"n": n}) for key in keys])
            elif name == "put and delete":
                store.batch(
                    [PutOp(("s",), key, {"n": n} if (n + i) % 2 else None) for i, key in enumerate(keys)]
                )
            elif name == "put and read":
                reads = [GetOp(("s",), key) for key in keys[1:]]
                store.batch([*reads, PutOp(("s",), keys[0], {"n": n}, ttl=None), *reads])
            elif name == "read":
                store.batch([GetOp(("s",), key) for key in keys])
            elif name == "refuse":
                with contextlib.suppress(StoreConflictError):
                    store.batch([PutOp(("s",), key, {"n": n}, if_absent=True) for key in keys])
            else:
                store.reindex()
                store.sweep_ttl()


def test_writers_of_a_store_that_cross_each_other_never_deadlock(database: str) -> None:
    with _opened(database) as store:
        store.setup()
    crossing = [FEW, FEW[::-1], FEW[3:] + FEW[:3]]
    names = ["put", "put and delete", "put and read"]
    jobs = [(name, keys) for name, keys in zip(names * 2, crossing + crossing[::-1], strict=True)]
    jobs += [("read", FEW), ("refuse", FEW[::-1]), ("reindex", []), ("put", KEYS), ("put", KEYS[::-1])]
    all_at_once(_use_store, database, jobs)


EXPECTED = (ThreadConflictError, ThreadDeletedError, LeaseLostError, ValueError)


def _use_saver(uri: str, name: str, gate: Any) -> None:
    with PostgresSaver(uri, ttl=timedelta(milliseconds=40)) as saver:
        gate.wait()
        for n in range(ROUNDS * 2):
            with contextlib.suppress(*EXPECTED):
                if name.startswith("copy"):
                    saver.copy_thread(*name.split()[1:])
                elif name == "delete":
                    saver.delete_thread("ab"[n % 2])
                elif name == "prune":
                    saver.prune(["a", "b"] if n % 2 else ["b", "a"])
                elif name == "sweep":
                    saver.sweep()
                else:
                    _commit(saver, "ab"[n % 2], name, n)


def _commit(saver: PostgresSaver, thread_id: str, token: str, n: int) -> None:
    saver.take_lease(thread_id, token, timedelta(milliseconds=20))
    run = Run(saver, thread_id)
    for step in range(3):
        work = run.work(f"c{token}{n}{step}", writes=[TaskWrites("t", "~", [("l", n)])], l=["x"] * step)
        run.commit(replace(work, lease=token))
    saver.put_writes(config(thread_id, "", f"c{token}{n}2"), [("l", n)], "late")


def test_writers_of_threads_that_cross_each_other_never_deadlock(database: str) -> None:
    with PostgresSaver(database) as saver:
        saver.setup()
    all_at_once(
        _use_saver, database, ["copy a b", "copy b a", "delete", "prune", "sweep", "one", "two", "three"]
    )
