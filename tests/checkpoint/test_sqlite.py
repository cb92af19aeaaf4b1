"""What is particular to SQLite: one class for both worlds, sizes, queries, faults, several processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from threadmark._db.effects import Execute, Operation, Transaction
from threadmark.checkpoint.base import TaskWrites
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.checkpoint.sqlite.aio import AsyncSqliteSaver
from threadmark.errors import (
    InvalidArgumentError,
    StorageBusyError,
    StorageCorruptError,
    StorageFormatError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    ThreadConflictError,
    ValueTooLargeError,
)
from threadmark.graph import START, StateGraph

from .helpers import Run, config, dump, fill, shown

# One class for both worlds


def test_it_is_one_class_under_two_names() -> None:
    assert AsyncSqliteSaver is SqliteSaver


async def test_it_is_a_context_manager_in_both_worlds(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    with SqliteSaver.from_conn_string(path) as saver:
        saver.setup()
        Run(saver).step("c0", n=1)
    async with AsyncSqliteSaver.from_conn_string(path, compress=True) as saver:
        found = await saver.aget_tuple(config("t"))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"n": 1}
    assert not [t for t in threading.enumerate() if t.name.startswith("threadmark")]
    assert os.listdir(tmp_path) == ["x.db"], "nothing is left beside the file"


async def test_sync_calls_inside_a_loop_go_through_beside_async_ones(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "x.db") as saver:
        run = Run(saver)
        run.step("c0", n=0)
        pending = [
            asyncio.ensure_future(saver.aput_writes(config("t", "", "c0"), [("n", n)], f"task{n}"))
            for n in range(20)
        ]
        await asyncio.sleep(0)
        saver.put_writes(config("t", "", "c0"), [("n", -1)], "sync")
        run.step("c1", n=1)
        await asyncio.gather(*pending)
        found = saver.get_tuple(config("t", "", "c0"))
        assert found is not None
        assert len(found.pending_writes or ()) == 21


async def test_a_paused_listing_blocks_nobody(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "x.db", busy_timeout=0.0) as saver:
        run = Run(saver)
        for n in range(60):
            run.step(f"c{n}", n=n)
        listing = saver.alist(config("t"))
        first = [(await anext(listing)).checkpoint["id"] for _ in range(20)]
        run.step("c60", n=60)
        saver.put_writes(config("t", "", "c60"), [("n", 1)], "task")
        rest = [found.checkpoint["id"] async for found in listing]
        assert [*first, *rest] == [f"c{n}" for n in range(59, -1, -1)]


async def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "x.db", busy_timeout=0.0) as saver:
        Run(saver).step("c0", n=1)
        other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert saver.get_tuple(config("t")) is not None
        assert [found.checkpoint["id"] async for found in saver.alist(config("t"))] == ["c0"]
        assert await saver.threads.acount() == 1
        other.close()


# Queries and sizes


def counted(saver: SqliteSaver) -> list[str]:
    """Return a list that collects the statements that are run from now on."""
    seen: list[str] = []
    perform = saver._database.perform

    def counting(operation: Operation[Any]) -> Operation[Any]:
        result = None
        try:
            effect = next(operation)
            while True:
                if isinstance(effect, Transaction):
                    effect = Transaction(counting(effect.body), effect.durable, effect.read_only)
                elif isinstance(effect, Execute):
                    seen.append(effect.sql)
                result = yield effect
                effect = operation.send(result)
        except StopIteration as done:
            return done.value

    saver._database.perform = lambda operation: perform(counting(operation))  # type: ignore[method-assign]
    return seen


def test_a_listing_takes_few_queries_and_a_tree_reads_no_values(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "x.db") as saver:
        run = Run(saver)
        for n in range(300):
            run.step(f"c{n}", writes=[TaskWrites("t", "", [("n", n)])] if n else [], l=list(range(n)), n=n)
        seen = counted(saver)
        assert len(list(saver.list(config("t")))) == 300
        assert len(seen) < 30
        seen.clear()
        assert len(saver.tree(config("t"))) == 300
        saver.threads.list()
        assert not any(table in sql for sql in seen for table in ("tm_values", "tm_logs", "tm_writes"))


def size_after(path: Path, steps: int, **options: Any) -> int:
    with SqliteSaver(path, **options) as saver:
        run = Run(saver)
        items: list[str] = []
        for n in range(steps):
            items = [*items, f"{n:0100}"]
            task = TaskWrites(
                "4efa087d-283c-eb5c-478a-97c592eb3802", "~__pregel_pull, node", [("l", items[-1:])]
            )
            work = run.work(
                f"1f1b054e-b2a5-660a-bfff-{n:012}", writes=[task] if n else [], l=items, big="x" * 500
            )
            if n:
                work.kept = {"l": [(0, n), 1]}
            run.commit(work)
    return path.stat().st_size


def test_a_thousand_steps_of_a_hundred_bytes_fit_the_budget_and_grow_linearly(tmp_path: Path) -> None:
    thousand = size_after(tmp_path / "x.db", 1_000)
    assert thousand <= 1_800_000
    assert size_after(tmp_path / "y.db", 2_000) <= 2.1 * thousand


def test_pruning_and_deleting_give_space_back(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    grown = size_after(path, 2_000)
    with SqliteSaver(path) as saver:
        before = shown(saver)[:1]
        saver.prune(["t"], keep="latest")
        assert shown(saver)[0][2] == before[0][2]
    assert path.stat().st_size < grown * 0.4
    with SqliteSaver(path) as saver:
        saver.delete_thread("t")
    assert path.stat().st_size < 400_000
    assert not any(rows for name, rows in dump(path).items())


def test_a_thread_with_history_latest_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path, history="latest") as saver:
        run = Run(saver)
        for n in range(300):
            run.step(
                f"c{n}", writes=[TaskWrites("t", "", [("n", n)])] if n else [], l=list(range(n % 20)), n=n
            )
        assert [found[0]["configurable"]["checkpoint_id"] for found in shown(saver)[:-1]] == ["c299"]
        assert shown(saver)[0][2]["channel_values"] == {"l": list(range(299 % 20)), "n": 299}
    rows = dump(path)
    assert {name: len(found) for name, found in rows.items() if found} == {
        "tm_threads": 1,
        "tm_heads": 1,
        "tm_checkpoints": 1,
        "tm_values": 2,
        "tm_logs": len(rows["tm_logs"]),
    }
    assert len(rows["tm_logs"]) <= 20


def test_a_long_life_of_edits_forks_and_prunes_stays_in_proportion(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path) as saver:
        items: list[str] = []
        run = Run(saver)
        for n in range(1_500):
            items = [*items[-50:], f"item {n}"]
            if n % 7 == 0:
                items = [*items[: len(items) // 2], f"edit {n}", *items[len(items) // 2 + 1 :]]
            run.step(f"c{n}", l=items)
            if n % 100 == 99:
                fork = Run(saver, checkpoint_id=f"c{n - 1}")
                fork.step(f"f{n}", l=[*fork.values["l"], "fork"])
                saver.prune(["t"], keep="latest")
                run = Run(saver)
                items = run.values["l"]
        saver.prune(["t"], keep="latest")
        assert Run(saver).values == {"l": items}
    assert path.stat().st_size < 500_000
    rows = dump(path)
    assert len(rows["tm_checkpoints"]) == len(rows["tm_values"]) == 1


def test_large_values_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "x.db", max_value_bytes=1_000) as saver:
        run = Run(saver)
        run.step("c0", n=1, l=["x" * 900] * 5)
        cases = [("n", "x" * 1_001), ("l", ["x" * 1_001])]
        for channel, value in cases:
            with pytest.raises(ValueTooLargeError) as refused:
                saver.prepare(Run(saver).work("c1", **{channel: value}))
            assert (refused.value.channel, refused.value.limit) == (channel, 1_000)
        with pytest.raises(ValueTooLargeError):
            run.save(TaskWrites("t", "", [("n", "x" * 1_001)]))
        assert [found[2]["id"] for found in shown(saver)[:-1]] == ["c0"]


def test_compressed_values_are_smaller_and_both_kinds_are_read(tmp_path: Path) -> None:
    text = "the same words again and again, " * 2_000
    sizes = {}
    for compress in (False, True):
        path = tmp_path / f"{compress}.db"
        with SqliteSaver(path, compress=compress) as saver:
            Run(saver).step("c0", text=text, l=[text, text])
        sizes[compress] = path.stat().st_size
        with SqliteSaver(path, compress=not compress) as saver:
            run = Run(saver)
            assert run.values == {"text": text, "l": [text, text]}
            run.step("c1", text=text + "!", l=[text, text, "!"])
            assert Run(saver).values == {"text": text + "!", "l": [text, text, "!"]}
    assert sizes[True] < sizes[False] / 2


# Faults


def test_a_full_disk_leaves_what_was_acknowledged(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "x.db") as saver:
        fill(saver)
        before = shown(saver)

        def limit(pages: int) -> Operation[None]:
            def body() -> Operation[None]:
                yield Execute(f"PRAGMA max_page_count = {pages}")

            yield Transaction(body())

        saver._database.perform(limit(1))
        with pytest.raises(StorageFullError):
            Run(saver).step("big", l=["x" * 200_000])
        assert shown(saver) == before
        saver._database.perform(limit(100_000))
        Run(saver).step("big", l=["x" * 200_000])
        assert Run(saver).values["l"] == ["x" * 200_000]


async def test_a_locked_file_is_a_busy_error_in_both_worlds(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "x.db", busy_timeout=0.05) as saver:
        Run(saver).step("c0", n=0)
        other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageBusyError):
            Run(saver).step("c1", n=1)
        with pytest.raises(StorageBusyError):
            await saver.adelete_thread("t")
        other.close()
        Run(saver).step("c1", n=1)


def test_a_file_that_may_only_be_read_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path) as writer:
        fill(writer)
        with SqliteSaver(f"file:{path}?mode=ro") as reader:
            assert shown(reader) == shown(writer)
            with pytest.raises(StorageReadOnlyError):
                Run(reader).step("c9", n=9)


def test_a_file_of_the_peer_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE checkpoints (thread_id TEXT, checkpoint BLOB)")
    other.close()
    before = path.read_bytes()
    with SqliteSaver(path) as saver, pytest.raises(StorageFormatError, match="another path"):
        saver.get_tuple(config("t"))
    assert path.read_bytes() == before


def test_a_file_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path) as saver:
        fill(saver)
    other = sqlite3.connect(path)
    other.execute("UPDATE threadmark_components SET version = 99")
    other.commit()
    other.close()
    with SqliteSaver(path) as saver, pytest.raises(StorageFormatError, match="newer"):
        saver.get_tuple(config("t"))


def test_rows_that_are_gone_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path) as saver:
        fill(saver)
        for table in ("tm_logs", "tm_checkpoints"):
            other = sqlite3.connect(path)
            if table == "tm_logs":
                other.execute("DELETE FROM tm_logs")
            else:
                other.execute("UPDATE tm_checkpoints SET body = x'93c0c0c0'")
            other.commit()
            other.close()
            with pytest.raises(StorageCorruptError):
                saver.get_tuple(config("t"))


def test_a_connection_in_memory_is_used_itself() -> None:
    mine = sqlite3.connect(":memory:")
    with SqliteSaver(mine) as saver:
        Run(saver).step("c0", n=1)
        assert mine.execute("SELECT thread_id FROM tm_threads").fetchall() == [("t",)]
    mine.execute("SELECT 1")


@pytest.mark.parametrize("target", [None, 7, ""])
def test_what_names_no_database_is_refused(target: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        SqliteSaver(target)


# Several processes. They meet at barriers, not after pauses.


def children(target: Any, *arguments: tuple[Any, ...]) -> list[int | None]:
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(arguments))
    started = [spawn.Process(target=target, args=(barrier, *each)) for each in arguments]
    for child in started:
        child.start()
    for child in started:
        child.join()
    return [child.exitcode for child in started]


def grow_own(barrier: Any, path: str, thread_id: str) -> None:
    with SqliteSaver(path) as saver:
        barrier.wait()
        run = Run(saver, thread_id)
        for n in range(20):
            run.step(f"c{n}", l=list(range(n)), n=n)


def test_ten_processes_grow_threads_of_their_own(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    assert children(grow_own, *[(path, f"t{n}") for n in range(10)]) == [0] * 10
    with SqliteSaver(path) as saver:
        for n in range(10):
            assert Run(saver, f"t{n}").values == {"l": list(range(19)), "n": 19}
        assert saver.threads.count() == 10


def race(barrier: Any, path: str, name: str, rounds: int) -> None:
    """Commit one step in each round, from the head as it was at the round's start."""
    won = 0
    with SqliteSaver(path) as saver:
        for n in range(rounds):
            run = Run(saver)
            barrier.wait()
            try:
                run.step(f"{name}{n}", l=[*run.values.get("l", []), f"{name}{n}"])
                won += 1
            except ThreadConflictError:
                pass
            barrier.wait()
    os._exit(won)


def test_of_two_processes_on_one_head_exactly_one_wins(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    wins = children(race, (path, "a", 15), (path, "b", 15))
    assert sum(win or 0 for win in wins) == 15
    with SqliteSaver(path) as saver:
        items = Run(saver).values["l"]
        assert [int(item[1:]) for item in items] == list(range(15)), "each round has one winner, none is lost"
        assert len(shown(saver)) - 1 == 15


def take_turns(barrier: Any, path: str, name: str, rounds: int) -> None:
    with SqliteSaver(path) as saver:
        barrier.wait()
        for n in range(rounds):
            with saver.lease("t", timedelta(seconds=30)) as lease:
                run = Run(saver)
                work = run.work(f"{name}{n}", l=[*run.values.get("l", []), f"{name}{n}"])
                work.lease = lease.token
                run.commit(work)


def test_processes_that_wait_their_turn_all_succeed(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    assert children(take_turns, *[(path, name, 8) for name in "abc"]) == [0, 0, 0]
    with SqliteSaver(path) as saver:
        assert sorted(Run(saver).values["l"]) == sorted(f"{name}{n}" for name in "abc" for n in range(8))


def delete_under(barrier: Any, path: str, role: str) -> None:
    from threadmark.errors import ThreadDeletedError

    with SqliteSaver(path) as saver:
        run = Run(saver)
        barrier.wait()
        if role == "delete":
            saver.delete_thread("t")
            os._exit(0)
        try:
            for n in range(10_000):
                run.step(f"late{n}", n=n)
        except ThreadDeletedError:
            os._exit(0)
    os._exit(1)


def test_a_run_whose_thread_another_process_deletes_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path) as saver:
        fill(saver)
    assert children(delete_under, (str(path), "delete"), (str(path), "run")) == [0, 0]
    assert not any(dump(path).values())


def prune_under(barrier: Any, path: str, role: str) -> None:
    with SqliteSaver(path) as saver:
        run = Run(saver)
        barrier.wait()
        for n in range(60):
            if role == "prune":
                saver.prune(["t"], keep="latest")
            else:
                run.step(f"c{n}", l=[*run.values.get("l", [])[-5:], n])


def test_pruning_beside_a_run_disturbs_neither(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    with SqliteSaver(path) as saver:
        Run(saver).step("first", l=[])
    assert children(prune_under, (path, "prune"), (path, "run")) == [0, 0]
    with SqliteSaver(path) as saver:
        saver.prune(["t"], keep="latest")
        assert Run(saver).values["l"] == list(range(54, 60))
        assert len(shown(saver)) - 1 == 1


def commit_for_ever(path: str, acknowledged: Any) -> None:
    with SqliteSaver(path) as saver:
        run = Run(saver)
        n = len(run.values.get("l", []))
        while True:
            task = TaskWrites(f"task{n}", "~", [("l", [n])])
            run.step(f"c{n}", writes=[task] if n else [], l=[*run.values.get("l", []), n])
            acknowledged.send(n)
            n += 1


@pytest.mark.parametrize("rounds", [12])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path, rounds: int) -> None:
    path = str(tmp_path / "x.db")
    spawn = multiprocessing.get_context("spawn")
    for attempt in range(rounds):
        receive, send = spawn.Pipe(duplex=False)
        child = spawn.Process(target=commit_for_ever, args=(path, send))
        child.start()
        last = -1
        for _ in range(3 + attempt * 7):
            last = receive.recv()
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        send.close()
        while receive.poll():
            try:
                last = receive.recv()
            except EOFError:
                break
        with SqliteSaver(path) as saver:
            items = Run(saver).values["l"]
            assert items == list(range(len(items)))
            assert len(items) > last
            listed = shown(saver)[:-1]
            assert [found[2]["id"] for found in listed] == [f"c{n}" for n in range(len(items) - 1, -1, -1)]
            for n, found in enumerate(reversed(listed[1:])):
                assert found[4] == [(f"task{n + 1}", "l", [n + 1])]


def test_a_run_notices_that_its_file_was_deleted_before_a_node_runs(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    ran: list[str] = []
    builder = StateGraph(dict).add_node("only", lambda state: ran.append("only"))
    with SqliteSaver(path) as saver:
        graph = builder.add_edge(START, "only").compile(saver)
        graph.invoke({"count": 1}, config("a"))
        for name in ("x.db", "x.db-wal", "x.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        with pytest.raises(StorageUnavailableError, match="deleted or exchanged"):
            graph.invoke({"count": 1}, config("b"))
    assert ran == ["only"]
