"""What the SQLite store promises beyond the kit: about its file, its statements, its threads."""

from __future__ import annotations

import asyncio
import gc
import math
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threadmark._db.effects import Effect, Execute, ExecuteMany, Operation, Transaction
from threadmark.errors import (
    InvalidArgumentError,
    StorageCorruptError,
    StorageError,
    StorageFormatError,
    StorageReadOnlyError,
)
from threadmark.store.base import PutOp
from threadmark.store.query import parse_filter
from threadmark.store.sqlite import AsyncSqliteStore, SqliteStore, statements
from threadmark.store.sqlite.aio import AsyncSqliteStore as AioStore
from threadmark.store.sqlite.prefilter import narrowed
from threadmark.store.sweeper import Sweeper
from threadmark.testing import Stopped, abandoned
from threadmark.testing.stores import Clock
from threadmark.testing.stores.harness import embed

NS = ("users", "ann")
INDEX: Any = {"embed": embed, "dims": 8, "fields": ["text"]}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def store(path: str) -> Iterator[SqliteStore]:
    with SqliteStore(path, index=INDEX) as opened:
        yield opened


# Opening and closing


def test_a_store_opens_from_a_path_a_uri_and_a_connection(path: str) -> None:
    connection = sqlite3.connect(path)
    for number, target in enumerate((path, Path(path), f"file:{path}", connection)):
        with SqliteStore(target) as store:
            assert store.count(()) == number
            store.put(NS, f"k{number}", {})
    connection.close()
    with SqliteStore.from_conn_string(path) as store:
        store.setup()
        assert store.count(()) == 4


async def test_the_async_store_runs_as_async_programs_expect(path: str) -> None:
    assert AioStore is AsyncSqliteStore
    async with AsyncSqliteStore.from_conn_string(path, ttl={"sweep_interval_minutes": 60}) as store:
        await store.setup()
        await store.start_ttl_sweeper()
        await store.aput(NS, "stays", {"n": 1})
        assert await store.stop_ttl_sweeper()
    clock = Clock()
    async with AsyncSqliteStore(path, clock=clock) as store:
        await store.aput(NS, "k", {"n": 1}, ttl=1)
        clock.pass_minutes(1)
        assert await store.sweep_ttl() == 1
        assert await store.acount(()) == 1


def test_a_connection_in_memory_is_used_itself() -> None:
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    with SqliteStore(connection) as store:
        store.put(NS, "k", {"n": 1})
    assert connection.execute("SELECT count(*) FROM threadmark_items").fetchone() == (1,)


def test_closing_leaves_no_thread_and_no_task_behind(path: str) -> None:
    before = set(threading.enumerate())

    async def work() -> set[asyncio.Task[Any]]:
        async with SqliteStore(path, index=INDEX) as store:
            done = store.start_ttl_sweeper(60)
            await asyncio.gather(*(store.aput(NS, f"k{n}", {"text": "cat"}) for n in range(20)))
            await asyncio.gather(*(store.asearch(NS, query="cat") for n in range(20)))
            assert len(threading.enumerate()) > len(before)
        assert done.done()
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    assert asyncio.run(work()) == set()
    assert set(threading.enumerate()) <= before


def test_a_closed_store_says_so(path: str) -> None:
    store = SqliteStore(path)
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.get(NS, "k")


def test_arguments_are_checked_before_a_file_is_made(path: str) -> None:
    for arguments in (
        {"durability": "never"},
        {"ttl": {"default": 1}},
        {"ttl": {"default_ttl": 0}},
        {"ttl": {"sweep_interval_minutes": -1}},
        {"ttl": {"omit_expired": False}},
        {"index": {"embed": embed}},
        {"index": {"embed": embed, "dims": 0}},
        {"index": {"embed": 1, "dims": 8}},
        {"index": {"dimensions": 8}},
        {"index": {"fields": []}},
        {"index": {"fields": ["a..b"]}},
        {"index": {"fields": ["a"], "distance_type": "far"}},
    ):
        with pytest.raises(InvalidArgumentError):
            SqliteStore(path, **arguments)  # type: ignore[arg-type]
    assert not Path(path).exists()


def test_a_file_of_somebody_else_or_of_a_later_version_is_left_alone(path: str) -> None:
    with SqliteStore(path) as store:
        store.setup()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE threadmark_components SET version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(StorageFormatError, match="newer"), SqliteStore(path) as store:
        store.get(NS, "k")


def test_a_file_that_cannot_be_written_can_be_read(path: str) -> None:
    with SqliteStore(path) as store:
        store.put(NS, "k", {"n": 1}, ttl=5)
    with SqliteStore(f"file:{path}?mode=ro") as store:
        item = store.get(NS, "k")
        assert item is not None
        assert store.search((), filter={"n": 1})
        with pytest.raises(StorageReadOnlyError):
            store.put(NS, "k", {})


# Time to live


def test_the_sweeper_sweeps(path: str) -> None:
    clock = Clock()
    with SqliteStore(path, clock=clock) as store:
        store.put(NS, "k", {}, ttl=1)
        clock.pass_minutes(1)
        swept = threading.Event()
        removed = store._sweep

        def sweep() -> int:
            count = removed()
            swept.set()
            return count

        store._sweep = sweep  # type: ignore[method-assign]
        store._sweeper._sweep = lambda: store._sweep  # type: ignore[assignment]
        store.start_ttl_sweeper(1e-6)
        assert store.start_ttl_sweeper(1e-6) is store.start_ttl_sweeper(60)
        assert swept.wait(30)
        assert store.stop_ttl_sweeper()
        assert sqlite3.connect(path).execute("SELECT count(*) FROM threadmark_items").fetchone() == (0,)
        with pytest.raises(InvalidArgumentError):
            store.start_ttl_sweeper(-1)


class Sweeping:
    """Something to sweep, which counts."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls = threading.Semaphore(0)
        self.error = error

    def sweep(self) -> None:
        self.calls.release()
        if self.error is not None:
            raise self.error


def test_the_sweeper_goes_on_after_an_error(caplog: pytest.LogCaptureFixture) -> None:
    failing = Sweeping(StorageError("busy"))
    sweeper = Sweeper(failing.sweep)
    done = sweeper.start(0.001)
    for _ in range(3):
        assert failing.calls.acquire(timeout=30)
    assert sweeper.stop()
    assert done.result(timeout=30) is None
    assert "busy" in caplog.text


def test_the_sweeper_ends_when_its_store_is_gone() -> None:
    swept = Sweeping()
    done = Sweeper(swept.sweep).start(0.001)
    assert swept.calls.acquire(timeout=30)
    del swept
    gc.collect()
    assert done.result(timeout=30) is None


def test_putting_what_expires_removes_what_has(path: str) -> None:
    clock = Clock()
    with SqliteStore(path, clock=clock) as store:
        for number in range(200):
            store.put(NS, f"k{number}", {}, ttl=1)
            clock.pass_minutes(0.2)
    assert sqlite3.connect(path).execute("SELECT count(*) FROM threadmark_items").fetchone()[0] <= 6


# Indexes


def test_another_process_sees_new_vectors_at_once(store: SqliteStore, path: str) -> None:
    with SqliteStore(path, index=INDEX) as other:
        for text in ("cat", "dog", "fish"):
            store.put(NS, "k", {"text": text})
            other.put(NS, f"other {text}", {"text": text})
            for reader in (store, other):
                found = reader.search(NS, query=text, limit=2)
                assert {item.key for item in found} == {"k", f"other {text}"}
                assert min(item.score or 0 for item in found) > 0.99
        other.delete(NS, "k")
        assert "k" not in [item.key for item in store.search(NS, query="fish", limit=100)]


def test_vectors_that_have_gone_are_dropped_from_memory(store: SqliteStore, path: str) -> None:
    backend: Any = store._operations._backend
    with SqliteStore(path, index=INDEX) as other:
        for turn in range(4):
            store.batch([PutOp(NS, f"k{turn}-{n}", {"text": f"cat {n}"}) for n in range(2_500)])
            assert len(other.search(NS, query="cat", limit=5)) == 5
            store.search(NS, query="cat")
            store.batch([PutOp(NS, f"k{turn}-{n}", None) for n in range(2_500)])
    assert len(backend._cache.vectors) <= 2_500


def test_reindexing_brings_old_items_into_a_new_index(path: str) -> None:
    with SqliteStore(path) as store:
        store.put(NS, "a", {"text": "cat", "name": "dog"})
        store.put(NS, "b", {"text": "cat"}, index=False)
        store.put(NS, "c", {"text": "fish", "name": "dog"}, index=["name"])
        with pytest.raises(InvalidArgumentError):
            store.reindex()
    with SqliteStore(path, index=INDEX) as store:
        assert store.search(NS, query="cat") == []
        versions = [item.version for item in store.search(NS)]
        assert store.reindex() == 3
        assert asyncio.run(store.areindex()) == 3
        assert [item.version for item in store.search(NS)] == versions
        for mode in ("semantic", "keyword"):
            assert [item.key for item in store.search(NS, query="cat", mode=mode)][:1] == ["a"]  # type: ignore[arg-type]
        assert [item.key for item in store.search(NS, query="dog", mode="keyword")] == ["c"]


def test_reindexing_reaches_other_processes(path: str) -> None:
    turned = False

    def turning(texts: list[str]) -> list[list[float]]:
        return [vector[::-1] if turned else vector for vector in embed(texts)]

    index: Any = {"embed": turning, "dims": 8, "fields": ["text"]}
    with SqliteStore(path, index=index) as store, SqliteStore(path, index=index) as other:
        store.put(NS, "k", {"text": "cat"})
        assert (other.search(NS, query="cat")[0].score or 0) > 0.99
        turned = True
        assert (other.search(NS, query="cat")[0].score or 0) < 0.5
        store.reindex()
        assert (other.search(NS, query="cat")[0].score or 0) > 0.99


def test_vectors_of_another_size_are_refused_until_reindexed(store: SqliteStore, path: str) -> None:
    store.put(NS, "k", {"text": "cat"})
    other: Any = {"embed": lambda texts: [[1.0, 2.0] for _ in texts], "dims": 2, "fields": ["text"]}
    with SqliteStore(path, index=other) as changed:
        with pytest.raises(InvalidArgumentError, match="reindex"):
            changed.search(NS, query="cat")
        changed.reindex()
        assert [item.key for item in changed.search(NS, query="cat")] == ["k"]


def test_a_store_without_index_leaves_no_stale_index_behind(store: SqliteStore, path: str) -> None:
    for key in ("changed", "deleted", "kept"):
        store.put(NS, key, {"text": "cat"})
    with SqliteStore(path) as plain:
        plain.put(NS, "changed", {"text": "dog"})
        plain.delete(NS, "deleted")
    for mode in ("semantic", "keyword", "hybrid"):
        assert [item.key for item in store.search(NS, query="cat", mode=mode)] == ["kept"]  # type: ignore[arg-type]
    assert_indexes_agree(path)


def assert_indexes_agree(path: str) -> None:
    """Every row of the index tables belongs to an item that names it, and the other way round."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT vectors_at, seq FROM threadmark_items WHERE vectors_at IS NOT NULL")
    assert sorted(rows) == sorted(connection.execute("SELECT version, seq FROM threadmark_vectors"))
    words = connection.execute("SELECT seq FROM threadmark_items WHERE has_words")
    assert sorted(words) == sorted(connection.execute("SELECT rowid FROM threadmark_words"))
    connection.execute("INSERT INTO threadmark_words(threadmark_words) VALUES ('integrity-check')")
    connection.close()


# Crashes

STEPS: list[tuple[str, Callable[[SqliteStore], object]]] = [
    ("put", lambda store: store.put(NS, "new", {"text": "dog"})),
    ("replace", lambda store: store.put(NS, "a", {"text": "dog"})),
    ("unindex", lambda store: store.put(NS, "a", {"text": "dog"}, index=False)),
    ("delete", lambda store: store.delete(NS, "a")),
    ("expire", lambda store: store.put(NS, "new", {"text": "dog"}, ttl=1)),
    ("replace expired", lambda store: store.put(NS, "old", {"text": "dog"})),
    ("sweep", lambda store: store.sweep_ttl()),
    ("refresh", lambda store: store.search(NS, refresh_ttl=True)),
    (
        "batch",
        lambda store: store.batch(
            [PutOp(NS, "a", None), PutOp(NS, "new", {"text": "fish"}), PutOp(NS, "b", {"text": "tea"})]
        ),
    ),
    ("reindex", lambda store: store.reindex()),
]


@pytest.mark.parametrize("step", [step for _, step in STEPS], ids=[name for name, _ in STEPS])
def test_a_write_that_is_cut_short_has_happened_or_not(
    step: Callable[[SqliteStore], object], tmp_path: Path
) -> None:
    done = False
    seen = set()
    at = 0
    while not done:
        path = str(tmp_path / f"{at}.db")
        clock = Clock()
        store = SqliteStore(path, index=INDEX, clock=clock)
        store.put(NS, "old", {"text": "cat"}, ttl=1)
        clock.pass_minutes(1)
        store.put(NS, "a", {"text": "cat"})
        store.put(NS, "b", {"text": "cat dog"}, ttl=10)
        before = contents(store)
        with abandoned(store._database, at) as countdown:
            with suppress(Stopped):
                step(store)
            done = countdown.left > 0
        store.close()
        with SqliteStore(path, index=INDEX, clock=clock) as again:
            seen.add(contents(again))
            for mode in ("semantic", "keyword", "hybrid"):
                again.search(NS, query="dog", mode=mode)  # type: ignore[arg-type]
        assert_indexes_agree(path)
        at += 1
    assert at > 2
    assert len(seen) <= 2
    assert before in seen or len(seen) == 1


def contents(store: SqliteStore) -> str:
    found = [(item.key, item.value, item.created_at) for item in store.search((), limit=100)]
    ranked = [(item.key, round(item.score or 0, 4)) for item in store.search((), query="dog", limit=100)]
    worded = [item.key for item in store.search((), query="dog", mode="keyword", limit=100)]
    return repr((found, ranked, worded))


# Statements


class Recorder:
    """Notes the statements that a store has performed."""

    def __init__(self, store: SqliteStore) -> None:
        self.statements: list[str] = []
        self.transactions: list[Transaction] = []
        database: Any = store._database
        perform = database._effect

        def noted(effect: Effect) -> Any:
            if isinstance(effect, Transaction):
                self.transactions.append(effect)
                return perform(Transaction(self._noted(effect.body), effect.durable, effect.read_only))
            self.note(effect)
            return perform(effect)

        database._effect = noted

    def note(self, effect: Effect) -> None:
        if isinstance(effect, (Execute, ExecuteMany)):
            self.statements.append(effect.sql)

    def _noted(self, body: Operation[Any]) -> Operation[Any]:
        try:
            effect = next(body)
            while True:
                self.note(effect)
                effect = body.send((yield effect))
        except StopIteration as stop:
            return stop.value


def test_nothing_from_outside_is_part_of_a_statement(store: SqliteStore) -> None:
    recorder = Recorder(store)
    hostile = "evil') OR 1=1 --"
    store.put((hostile,), hostile, {hostile: hostile, "text": hostile}, ttl=1)
    store.get((hostile,), hostile)
    for filter in (
        {hostile: hostile},
        {f'{hostile}"': {"$gt": hostile}},
        {f"a.{hostile}[3]": {"$in": [hostile, 1]}},
        {"$or": [{hostile: 1.5}, {hostile: {"$exists": True}}]},
    ):
        store.search((hostile,), filter=filter)
        store.search((hostile,), filter=filter, query=hostile, mode="hybrid")
        store.search((hostile,), filter=filter, sort=hostile, descending=True)
        store.count((hostile,), filter=filter)
    store.list_namespaces(prefix=(hostile,), suffix=("*",))
    store.delete((hostile,), hostile)
    assert len(recorder.statements) > 20
    assert not any("evil" in statement for statement in recorder.statements)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_numbers_are_narrowed_with_room_for_what_sqlite_makes_of_them(number: float) -> None:
    # Not every build of SQLite reads fractions exactly.
    near = (math.nextafter(number, -math.inf), math.nextafter(number, math.inf))
    for condition, inside in (
        ({"$eq": number}, lambda low, high: low <= near[0] and high >= near[1]),
        ({"$gt": number}, lambda low: low <= near[0]),
        ({"$lte": number}, lambda high: high >= near[1]),
    ):
        bounds = narrowed(parse_filter({"a": condition})).params[1:]
        assert inside(*bounds)


def test_durability_sync_asks_for_a_durable_transaction(path: str) -> None:
    for durability in ("async", "sync"):
        with SqliteStore(path, durability=durability) as store:  # type: ignore[arg-type]
            recorder = Recorder(store)
            store.put(NS, "k", {})
            store.sweep_ttl()
            assert recorder.transactions[0].durable == (durability == "sync")


def test_reading_one_item_is_one_statement_and_listing_two(store: SqliteStore) -> None:
    store.put(NS, "k", {"text": "cat"})
    recorder = Recorder(store)
    store.get(NS, "k")
    assert len(recorder.statements) == 1
    store.search(NS, filter={"text": "cat"}, limit=1)
    assert len(recorder.statements) == 3


def test_no_read_walks_through_all_items(store: SqliteStore) -> None:
    store.setup()
    connection = sqlite3.connect(store._database.name)
    reads = [
        statements.FIND,
        statements.EXPIRED,
        statements.COUNT,
        statements.ENDS,
        statements.SCAN.format(narrowed="1"),
        statements.NAMESPACES,
        statements.NEW_VECTORS,
        statements.WITH_VECTORS,
        statements.AMONG.format(narrowed="1"),
        statements.MATCHING.format(narrowed="1"),
        *(text.format(narrowed="1") for (reach, _), text in statements.PAGE.items() if reach != "all"),
    ]
    for text in reads:
        count = 5 if text is statements.NAMESPACES else text.count("?")
        plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", [1] * count).fetchall()
        walks = [row[3] for row in plan if row[3].startswith("SCAN") and "threadmark_items" in row[3]]
        assert [walk for walk in walks if "COVERING INDEX threadmark_items_by_vectors" not in walk] == [], (
            text
        )
    connection.close()


# Files that somebody has touched

COLUMNS = [
    "namespace", "key", "value", "version", "created_at", "updated_at", "ttl", "expires_at", "fields",
    "vectors_at", "has_words",
]  # fmt: skip
FORGED = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.sampled_from(['{"a":1}', "[1]", "nul", "{", '["a",', "[" * 500, '{"a":NaN}', '"\ufffd', "9" * 5000]),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(column=st.sampled_from([*COLUMNS, "dims", "vectors"]), forged=FORGED)
def test_a_forged_row_is_an_error_of_ours_or_a_value(tmp_path: Path, column: str, forged: Any) -> None:
    path = tmp_path / "forged.db"
    path.unlink(missing_ok=True)
    with SqliteStore(path, index=INDEX) as store:
        store.put(NS, "k", {"text": "cat"}, ttl=5)
        connection = sqlite3.connect(path)
        table = "threadmark_vectors" if column in ("dims", "vectors") else "threadmark_items"
        try:
            connection.execute(f"UPDATE {table} SET {column} = ?", (forged,))
        except sqlite3.IntegrityError:
            return
        connection.commit()
        connection.close()
        for read in (
            lambda: store.get(NS, "k"),
            lambda: store.search(()),
            lambda: store.search(NS, filter={"text": "cat", "n": {"$lt": 3}}),
            lambda: store.search((), query="cat", mode="hybrid"),
            lambda: store.search((), query="cat", mode="semantic"),
            lambda: store.search((), sort="text", refresh_ttl=True),
            lambda: store.count((), filter={"text": "cat"}),
            lambda: store.list_namespaces(),
            lambda: store.put(NS, "k", {"text": "dog"}),
            lambda: store.sweep_ttl(),
        ):
            # Any other error fails the test.
            with suppress(StorageError, InvalidArgumentError):
                read()


def test_an_unreadable_item_is_named(store: SqliteStore, path: str) -> None:
    store.put(NS, "k", {"text": "cat"})
    connection = sqlite3.connect(path)
    connection.execute("UPDATE threadmark_items SET value = '[1]'")
    connection.commit()
    with pytest.raises(StorageCorruptError, match=r"Item number 1 .* no dictionary"):
        store.get(NS, "k")
