"""Threads, event loops and processes share a store, and none loses what another wrote."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from threadmark.errors import StoreConflictError
from threadmark.store.base import BaseStore, PutOp
from threadmark.store.core import RecordStore
from threadmark.store.memory import InMemoryStore
from threadmark.store.sqlite import SqliteStore
from threadmark.testing.stores import StoreOptions
from threadmark.testing.stores.harness import embed

NS = ("shared",)
INDEX: Any = {"embed": embed, "dims": 8, "fields": ["text"]}
Opener = Callable[[StoreOptions], RecordStore]

processes = multiprocessing.get_context("spawn")


def count_up(store: BaseStore, times: int) -> None:
    """Add to a counter with conditional puts, again and again until each took."""
    for _ in range(times):
        while True:
            item = store.get(NS, "counter")
            try:
                if item is None:
                    store.put(NS, "counter", {"n": 1}, if_absent=True)
                else:
                    store.put(NS, "counter", {"n": item.value["n"] + 1}, if_version=item.version)
            except StoreConflictError:
                continue
            break


async def acount_up(store: BaseStore, times: int) -> None:
    for _ in range(times):
        while True:
            item = await store.aget(NS, "counter")
            try:
                if item is None:
                    await store.aput(NS, "counter", {"n": 1}, if_absent=True)
                else:
                    await store.aput(NS, "counter", {"n": item.value["n"] + 1}, if_version=item.version)
            except StoreConflictError:
                continue
            break


def counted(store: BaseStore) -> int:
    item = store.get(NS, "counter")
    assert item is not None
    return int(item.value["n"])


# Threads and tasks


def test_threads_lose_no_conditional_put(open_store: Opener) -> None:
    store = open_store(StoreOptions())
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: count_up(store, 15), range(6)))
    assert counted(store) == 90


async def test_tasks_lose_no_conditional_put(open_store: Opener) -> None:
    store = open_store(StoreOptions())
    await asyncio.gather(*(acount_up(store, 10) for _ in range(6)))
    assert counted(store) == 60


def test_threads_and_loops_share_a_store(open_store: Opener) -> None:
    store = open_store(StoreOptions(index=INDEX))

    def puts(name: int) -> None:
        for number in range(20):
            store.put((*NS, str(name)), f"{number}", {"text": "cat " * (number % 3 + 1)})
            store.search(NS, query="cat", limit=3)

    async def aputs(name: int) -> None:
        for number in range(20):
            await store.aput((*NS, str(name)), f"{number}", {"text": "dog"})
            await store.asearch(NS, query="cat", mode="hybrid", limit=3)

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(puts, name) for name in range(2)]
        jobs += [pool.submit(lambda name=name: asyncio.run(aputs(name))) for name in (2, 3)]
        for job in jobs:
            job.result()
    assert store.count(NS) == 80
    assert {item.key for item in store.search((*NS, "0"), query="cat", limit=100)} == set(map(str, range(20)))


async def test_a_busy_store_in_memory_does_not_block_the_loop() -> None:
    store = InMemoryStore()
    await store.aput(NS, "k", {"n": 1})
    store._lock.acquire()  # Another thread is in the middle of something.
    waiting = asyncio.create_task(store.aget(NS, "k"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    store._lock.release()
    item = await waiting
    assert item is not None


async def test_a_large_search_in_memory_runs_beside_the_loop() -> None:
    store = InMemoryStore()
    threads = set()

    class Noting:
        def __call__(self, value: Any) -> bool:
            threads.add(threading.current_thread())
            return False

    await store.abatch([PutOp(NS, f"k{n}", {"n": n}) for n in range(1_100)])
    records: Any = store._records
    page = records.page
    records.page = lambda view, **options: page(view._replace(filter=Noting()), **options)
    assert await store.asearch(NS) == []
    assert threading.current_thread() not in threads
    assert threads


# Cancelling


async def test_a_cancelled_await_never_blocks_the_next(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    async with SqliteStore(path) as store:
        await store.aput(NS, "first", {})
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")  # Nobody else can write now.
        begun = asyncio.create_task(store.aput(NS, "begun", {}))
        queued = asyncio.create_task(store.aput(NS, "queued", {}))
        for _ in range(20):
            await asyncio.sleep(0)
        for task in (begun, queued):
            task.cancel()
        assert (await store.aget(NS, "first")) is not None
        other.execute("COMMIT")
        other.close()
        results = await asyncio.gather(begun, queued, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        await store.aput(NS, "next", {})
        keys = [item.key for item in await store.asearch(NS)]
        assert keys in (["first", "next"], ["first", "begun", "next"])


@pytest.mark.parametrize("turns", range(1, 12, 2))
async def test_a_put_that_is_cancelled_has_happened_whole_or_not(open_store: Opener, turns: int) -> None:
    store = open_store(StoreOptions(index=INDEX))
    for number in range(6):
        task = asyncio.create_task(store.aput(NS, f"k{number}", {"text": "cat"}))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.aput(NS, "last", {"text": "cat"})
        listed = {item.key for item in await store.asearch(NS)}
        assert {item.key for item in await store.asearch(NS, query="cat")} == listed
        assert {item.key for item in await store.asearch(NS, query="cat", mode="keyword")} == listed


# Processes


def count_up_in_process(path: str, start: Barrier, times: int) -> None:
    with SqliteStore(path) as store:
        start.wait(60)
        count_up(store, times)


def claim_in_process(path: str, start: Barrier, name: str, rounds: int) -> None:
    with SqliteStore(path, index=INDEX) as store:
        for number in range(rounds):
            start.wait(60)
            try:
                store.put(NS, f"claim{number}", {"by": name, "text": "cat"}, if_absent=True)
                store.put((*NS, name), f"won{number}", {"text": "dog"})
            except StoreConflictError:
                store.put((*NS, name), f"lost{number}", {"text": "fish"})
            start.wait(60)
            # Both have written: each must see what the other did, through every index.
            assert len(store.search(NS, query="cat", mode="keyword", limit=100)) == number + 1
            assert len(store.search(NS, query="cat", limit=1_000)) == 3 * (number + 1)


def run_processes(target: Callable[..., None], arguments: list[tuple[Any, ...]]) -> None:
    running = [processes.Process(target=target, args=args) for args in arguments]
    for process in running:
        process.start()
    for process in running:
        process.join(120)
    assert [process.exitcode for process in running] == [0] * len(running)


def test_processes_lose_no_conditional_put(tmp_path: Path) -> None:
    path, start = str(tmp_path / "store.db"), processes.Barrier(2)
    run_processes(count_up_in_process, [(path, start, 60)] * 2)
    with SqliteStore(path) as store:
        assert counted(store) == 120
        item = store.get(NS, "counter")
        assert item is not None
        assert item.version == 120


def test_processes_see_each_other_and_one_wins_each_claim(tmp_path: Path) -> None:
    path, start, rounds = str(tmp_path / "store.db"), processes.Barrier(2), 15
    run_processes(claim_in_process, [(path, start, name, rounds) for name in ("a", "b")])
    with SqliteStore(path, index=INDEX) as store:
        for number in range(rounds):
            item = store.get(NS, f"claim{number}")
            assert item is not None
            winner = item.value["by"]
            loser = "b" if winner == "a" else "a"
            assert store.get((*NS, winner), f"won{number}") is not None
            assert store.get((*NS, loser), f"lost{number}") is not None
        assert store.count(()) == 3 * rounds


PUTTING = """
import sys
from threadmark.store.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
number = 0
while True:
    store.put(("shared",), f"k{number}", {"n": number})
    print(number, flush=True)
    number += 1
"""


@pytest.mark.parametrize("acknowledged", [1, 20, 75])
def test_what_was_put_survives_the_death_of_the_process(tmp_path: Path, acknowledged: int) -> None:
    path = str(tmp_path / "store.db")
    with subprocess.Popen([sys.executable, "-c", PUTTING, path], stdout=subprocess.PIPE) as putting:
        assert putting.stdout is not None
        for _ in range(acknowledged):
            assert putting.stdout.readline()
        putting.kill()
        seen = acknowledged + len(putting.stdout.read().splitlines())
    with SqliteStore(path) as store:
        items = store.search((), limit=10_000)
        # The last put may have been under way when the process died.
        assert [item.value["n"] for item in items] in (list(range(seen)), list(range(seen + 1)))
