"""What every user of the SQLite driver relies on: atomic, patient, readable while written, typed errors."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from threadmark._db.effects import Execute, ExecuteMany, Operation, Rows, Transaction
from threadmark._db.sqlite import SqliteDatabase
from threadmark.errors import (
    InvalidArgumentError,
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageFormatError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

MIGRATIONS = [["CREATE TABLE pair (k INTEGER PRIMARY KEY, v BLOB)"]]


def database(target: Any, **options: Any) -> SqliteDatabase:
    return SqliteDatabase(target, component="test", migrations=MIGRATIONS, **options)


def put(k: int, v: Any = b"", durable: bool = False) -> Operation[None]:
    def body() -> Operation[None]:
        yield Execute("INSERT INTO pair VALUES (?, ?)", (k, v))

    yield Transaction(body(), durable)


def count() -> Operation[int]:
    rows: Rows = yield Execute("SELECT count(*) FROM pair")
    return int(rows[0][0])


def failing(error: BaseException) -> Operation[None]:
    def body() -> Operation[None]:
        yield ExecuteMany("INSERT INTO pair VALUES (?, ?)", [(8, b""), (9, b"")])
        raise error

    yield Transaction(body())


@pytest.fixture(params=["file", "memory", "connection", "memory connection"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / "x.db"
    target: Any = {
        "file": lambda: path,
        "memory": lambda: ":memory:",
        "connection": lambda: sqlite3.connect(path),
        "memory connection": lambda: sqlite3.connect(":memory:"),
    }[request.param]()
    found = database(target)
    yield found
    found.close()


def threads_of_ours() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("threadmark")]


def test_a_transaction_is_seen_whole(db: SqliteDatabase) -> None:
    db.perform(put(1))
    assert db.perform(count()) == 1


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_an_error_inside_a_transaction_leaves_nothing(db: SqliteDatabase, error: BaseException) -> None:
    with pytest.raises(type(error)):
        db.perform(failing(error))
    assert db.perform(count()) == 0
    db.perform(put(1))
    assert db.perform(count()) == 1


def test_an_operation_may_catch_what_a_transaction_raises(db: SqliteDatabase) -> None:
    def operation() -> Operation[str]:
        try:
            yield Transaction(failing_body())
        except StorageError as error:
            return str(error)
        return ""

    def failing_body() -> Operation[None]:
        yield Execute("INSERT INTO pair VALUES (1, NULL)")
        yield Execute("INSERT INTO pair VALUES (1, NULL)")

    assert "UNIQUE" in db.perform(operation())
    assert db.perform(count()) == 0


async def test_async_calls_do_the_same(db: SqliteDatabase) -> None:
    await db.aperform(put(1))
    assert await db.aperform(count()) == 1
    with pytest.raises(ValueError, match="x"):
        await db.aperform(failing(ValueError("x")))
    assert await db.aperform(count()) == 1
    await db.aclose()
    assert threads_of_ours() == []


async def test_sync_calls_inside_a_loop_do_not_deadlock_with_async_ones(
    db: SqliteDatabase,
) -> None:
    jobs = [asyncio.ensure_future(db.aperform(put(k))) for k in range(20)]
    await asyncio.sleep(0)
    for k in range(100, 120):
        db.perform(put(k))
    await asyncio.gather(*jobs)
    assert db.perform(count()) == 40


def test_threads_share_one_database(db: SqliteDatabase, request: pytest.FixtureRequest) -> None:
    if "memory connection" in request.node.callspec.id:
        # Such a connection belongs to the thread that opened it; the error must say so.
        errors: list[BaseException] = []

        def elsewhere() -> None:
            try:
                db.perform(put(1))
            except StorageError as error:
                errors.append(error)

        worker = threading.Thread(target=elsewhere)
        db.perform(count())
        worker.start()
        worker.join()
        assert "same thread" in str(errors[0])
        return
    workers = [
        threading.Thread(target=lambda n=n: [db.perform(put(n * 100 + k)) for k in range(20)])
        for n in range(6)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert db.perform(count()) == 120


def test_readers_wait_for_no_writer(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db", busy_timeout=0.0)
    db.perform(put(1))

    def body() -> Operation[None]:
        yield Execute("INSERT INTO pair VALUES (2, NULL)")
        assert db.perform(count()) == 1

    def operation() -> Operation[None]:
        yield Transaction(body())

    db.perform(operation())
    assert db.perform(count()) == 2
    db.close()


def test_a_read_only_transaction_sees_one_state(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db")

    def body() -> Operation[tuple[int, int]]:
        first = yield from count()
        db.perform(put(1))
        return first, (yield from count())

    def operation() -> Operation[tuple[int, int]]:
        return (yield Transaction(body(), read_only=True))

    assert db.perform(operation()) == (0, 0)
    db.close()


def test_readers_cannot_write(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db")

    def operation() -> Operation[None]:
        yield Execute("INSERT INTO pair VALUES (1, NULL)")

    with pytest.raises(StorageReadOnlyError):
        db.perform(operation())
    db.close()


async def test_a_cancelled_write_that_has_begun_is_waited_for(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db")
    begun, go_on = threading.Event(), threading.Event()

    def body() -> Operation[None]:
        yield Execute("INSERT INTO pair VALUES (1, NULL)")
        begun.set()
        go_on.wait()

    def operation() -> Operation[None]:
        yield Transaction(body())

    task = asyncio.ensure_future(db.aperform(operation()))
    queued = asyncio.ensure_future(db.aperform(put(2)))
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    task.cancel()
    queued.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    assert not task.done()
    go_on.set()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], BaseException)
    assert task.cancelled()
    await asyncio.gather(queued, return_exceptions=True)
    assert queued.cancelled()
    assert db.perform(count()) == 1, "the write that had begun is there, the other is not"
    await db.aclose()
    assert threads_of_ours() == []


async def test_what_fails_while_being_cancelled_is_not_lost(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db")
    begun, go_on = threading.Event(), threading.Event()

    def body() -> Operation[None]:
        yield Execute("SELECT 1")
        begun.set()
        go_on.wait()
        raise ValueError("lost?")

    def operation() -> Operation[None]:
        yield Transaction(body())

    task = asyncio.ensure_future(db.aperform(operation()))
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, ValueError)
    await db.aclose()


async def test_the_loop_runs_on_while_a_write_waits_for_another_process(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db")
    db.perform(count())
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    task = asyncio.ensure_future(db.aperform(put(1)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert await db.aperform(count()) == 0
    assert not task.done()
    other.execute("COMMIT")
    other.close()
    await task
    assert await db.aperform(count()) == 1
    await db.aclose()


def test_a_lock_that_others_keep_is_a_busy_error(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db", busy_timeout=0.05)
    db.perform(count())
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusyError, match="busy_timeout"):
        db.perform(put(1))
    other.execute("ROLLBACK")
    other.close()
    db.perform(put(1))
    db.close()


def test_a_full_database_rolls_back_and_goes_on(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db")
    db.perform(put(1))

    def limit(pages: int) -> Operation[None]:
        def body() -> Operation[None]:
            yield Execute(f"PRAGMA max_page_count = {pages}")

        yield Transaction(body())

    db.perform(limit(1))
    with pytest.raises(StorageFullError, match="free space"):
        db.perform(put(2, b"x" * 100_000))
    assert db.perform(count()) == 1
    db.perform(limit(10_000))
    db.perform(put(2, b"x" * 100_000))
    assert db.perform(count()) == 2
    db.close()


def test_a_file_that_may_not_grow_is_a_full_one(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db")
    db.perform(put(1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        with pytest.raises(StorageFullError, match="ulimit -f"):
            db.perform(put(2, b"x" * 1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert db.perform(count()) == 1
    db.perform(put(2, b"x" * 1_000_000))
    db.close()


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_a_file_that_is_not_there_any_more_is_noticed(tmp_path: Path, exchanged: bool, reads: bool) -> None:
    path = tmp_path / "x.db"
    db = database(path)
    db.perform(put(1))
    if reads:
        db.perform(count())
    path.rename(tmp_path / "kept.db")
    if exchanged:
        with database(path) as other:
            other.perform(put(5))
    with pytest.raises(StorageUnavailableError, match="deleted or exchanged"):
        db.perform(count())
    db.close()
    with database(path) as opened:
        assert opened.perform(count()) == (1 if exchanged else 0)


def test_a_missing_folder_and_a_folder_are_called_by_name(tmp_path: Path) -> None:
    with pytest.raises(StorageReadOnlyError, match="missing does not exist"):
        database(tmp_path / "missing" / "x.db").perform(put(1))
    with pytest.raises(StorageReadOnlyError, match="is a folder"):
        database(tmp_path).perform(put(1))


def test_a_file_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with database(path) as writer:
        writer.perform(put(1))
        reader = database(f"file:{path}?mode=ro")
        assert reader.perform(count()) == 1
        with pytest.raises(StorageReadOnlyError, match="permissions"):
            reader.perform(put(2))
        reader.close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageReadOnlyError, match="nowhere"):
        database(tmp_path / "nowhere" / "x.db").perform(count())


@pytest.mark.parametrize("content", [b"just a text file, long enough to be looked at" * 9, "tables", "id"])
def test_what_is_not_ours_is_refused_and_left_alone(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "x.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE pair (theirs)" if content == "tables" else "PRAGMA application_id = 7")
        other.close()
    before = path.read_bytes()
    with pytest.raises(StorageFormatError):
        database(path).perform(count())
    assert path.read_bytes() == before


def test_our_tables_can_live_beside_others_on_request(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    for _ in range(2):
        with database(path, shared=True) as db:
            assert db.perform(count()) == 0


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    newer = SqliteDatabase(path, component="test", migrations=[*MIGRATIONS, ["CREATE TABLE y (z)"]])
    newer.perform(put(1))
    newer.close()
    with pytest.raises(StorageFormatError, match="newer"):
        database(path).perform(count())


def test_an_older_format_is_brought_up_to_date_once(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with database(path) as old:
        old.perform(put(1))
    for _ in range(2):
        newer = SqliteDatabase(path, component="test", migrations=[*MIGRATIONS, ["CREATE TABLE y (z)"]])
        assert newer.perform(count()) == 1
        newer.close()


def test_components_share_a_file_and_have_their_own_versions(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with database(path) as one:
        one.perform(put(1))
        two = SqliteDatabase(path, component="two", migrations=[["CREATE TABLE y (z)"]])
        assert two.perform(count()) == 1
        two.close()


def test_a_damaged_page_is_a_corrupt_error(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with database(path) as db:
        for k in range(50):
            db.perform(put(k, b"x" * 500))
    content = bytearray(path.read_bytes())
    content[4096 * 3 :] = b"\xff" * (len(content) - 4096 * 3)
    path.write_bytes(content)
    with database(path) as db:

        def everything() -> Operation[Rows]:
            return (yield Execute("SELECT v FROM pair"))

        with pytest.raises(StorageCorruptError, match="recover"):
            db.perform(everything())


async def test_a_closed_database_says_so(db: SqliteDatabase) -> None:
    db.perform(put(1))
    db.close()
    db.close()
    with pytest.raises(StorageError, match="closed"):
        db.perform(count())
    with pytest.raises(StorageError, match="closed"):
        await db.aperform(count())
    assert threads_of_ours() == []


def test_a_connection_to_a_file_stays_the_callers(tmp_path: Path) -> None:
    mine = sqlite3.connect(tmp_path / "x.db")
    with database(mine) as db:
        db.perform(put(1))
    assert mine.execute("SELECT count(*) FROM pair").fetchone() == (1,)
    mine.close()


@pytest.mark.parametrize("target", ["", 7, None, "a\x00b"])
def test_what_names_no_database_is_refused(target: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        database(target)


def _ten_writes(path: str, base: int, barrier: Any) -> None:
    db = database(path)
    barrier.wait()
    for k in range(10):
        db.perform(put(base + k))
    db.close()


def test_ten_processes_create_and_write_one_file(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(10)
    path = str(tmp_path / "x.db")
    children = [spawn.Process(target=_ten_writes, args=(path, n * 10, barrier)) for n in range(10)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 10
    with database(path) as db:
        assert db.perform(count()) == 100


def _write_after_fork(db: SqliteDatabase) -> None:
    db.perform(put(2))
    db.close()


def test_a_forked_child_opens_its_own_connections(tmp_path: Path) -> None:
    with database(tmp_path / "x.db") as db:
        db.perform(put(1))
        child = multiprocessing.get_context("fork").Process(target=_write_after_fork, args=(db,))
        child.start()
        child.join()
        assert child.exitcode == 0
        db.perform(put(3))
        assert db.perform(count()) == 3


def test_closing_waits_for_a_transaction_in_another_thread(tmp_path: Path) -> None:
    db = database(tmp_path / "x.db")
    begun, go_on = threading.Event(), threading.Event()

    def body() -> Operation[None]:
        yield Execute("INSERT INTO pair VALUES (1, NULL)")
        begun.set()
        go_on.wait()
        yield Execute("INSERT INTO pair VALUES (2, NULL)")

    def operation() -> Operation[None]:
        yield Transaction(body())

    writing = threading.Thread(target=lambda: db.perform(operation()))
    writing.start()
    begun.wait()
    closing = threading.Thread(target=db.close)
    closing.start()
    while not db._closed:
        pass
    with pytest.raises(StorageError, match="closed"):
        db.perform(count())
    go_on.set()
    writing.join()
    closing.join()
    with database(tmp_path / "x.db") as again:
        assert again.perform(count()) == 2
