"""Threads that expire: invisible from that moment on, whole until then, swept in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.base import TaskWrites
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import InvalidArgumentError, ThreadDeletedError

from .helpers import Run, config, dump

HOUR = 3_600_000


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Iterator[Any]:
    made: list[Any] = []

    def maker(**options: Any) -> Any:
        saver: Any = (
            InMemorySaver(**options)
            if request.param == "memory"
            else SqliteSaver(tmp_path / "x.db", **options)
        )
        saver._options = replace(saver._options, now=clock)
        made.append(saver)
        return saver

    yield maker
    for saver in made:
        if isinstance(saver, SqliteSaver):
            saver.close()


def test_an_expired_thread_is_nowhere_to_be_seen(make: Any, clock: Clock) -> None:
    saver = make(ttl=timedelta(hours=1), refresh_ttl=False)
    Run(saver).step("c0", l=[1], about={"user": "u"})
    Run(saver, ns="sub:1").step("i0", n=1)
    info = saver.threads.get("t")
    assert round(info.expires_at.timestamp() * 1000) == clock.now + HOUR
    clock.now += HOUR - 1
    assert saver.get_tuple(config("t")) is not None
    clock.now += 1
    assert saver.get_tuple(config("t")) is None
    assert saver.get_tuple(config("t", "sub:1")) is None
    assert list(saver.list(None)) == list(saver.list(config("t", None))) == []
    assert saver.branches(config("t")) == saver.tree(config("t")) == []
    assert saver.threads.get("t") is None
    assert saver.threads.count() == saver.threads.count({"user": "u"}) == 0
    assert saver.threads.list().threads == saver.threads.search({"user": "u"}).threads == []
    assert saver.threads.update("t", metadata={"a": 1}) is None
    with pytest.raises(InvalidArgumentError):
        saver.copy_thread("t", "copy")


def test_a_run_on_a_thread_that_expires_cannot_commit(make: Any, clock: Clock) -> None:
    saver = make(ttl=timedelta(hours=1), refresh_ttl=False)
    run = Run(saver)
    run.step("c0", n=1)
    clock.now += HOUR
    for late in (lambda: run.step("c1", n=2), lambda: run.save(TaskWrites("t", "", [("n", 2)]))):
        with pytest.raises(ThreadDeletedError, match="expired while a run was under way") as caught:
            late()
        assert caught.value.expired
    saver.sweep()
    with pytest.raises(ThreadDeletedError, match="deleted, or swept after it had expired") as caught:
        run.step("c1", n=2)
    assert not caught.value.expired


def test_a_new_thread_in_place_of_an_expired_one_starts_afresh(make: Any, clock: Clock) -> None:
    saver = make(ttl=timedelta(hours=1))
    Run(saver).step("c0", l=[1], about={"user": "u"})
    clock.now += HOUR
    Run(saver).step("c0", l=[2])
    assert [found.checkpoint["channel_values"] for found in saver.list(config("t"))] == [{"l": [2]}]
    assert dict(saver.threads.get("t").metadata) == {}
    assert saver.sweep() == 0


def test_every_commit_begins_the_time_anew(make: Any, clock: Clock) -> None:
    saver = make(ttl=timedelta(hours=1))
    run = Run(saver)
    for n in range(5):
        run.step(f"c{n}", n=n)
        clock.now += HOUR - 1
    assert len(list(saver.list(config("t")))) == 5
    clock.now += 1
    assert list(saver.list(config("t"))) == []


def test_the_time_of_one_thread_can_be_set(make: Any, clock: Clock) -> None:
    saver = make()
    for thread_id in ("a", "b"):
        Run(saver, thread_id).step("c0", n=1)
    saver.threads.update("a", ttl=timedelta(hours=2))
    saver.threads.update("b", ttl=timedelta(hours=1))
    saver.threads.update("b", metadata={"still": True})
    saver.threads.update("b", ttl=None)
    clock.now += 2 * HOUR
    assert [thread.thread_id for thread in saver.threads.list().threads] == ["b"]


def test_sweeping_deletes_what_has_expired_and_nothing_else(make: Any, clock: Clock, tmp_path: Path) -> None:
    saver = make(ttl=timedelta(hours=1))
    for n in range(7):
        Run(saver, f"old{n}").step("c0", l=[n], about={"user": n})
    clock.now += HOUR
    Run(saver, "new").step("c0", l=[1])
    assert saver.sweep(batch=3) == 7
    assert saver.sweep() == 0
    assert [found.config["configurable"]["thread_id"] for found in saver.list(None)] == ["new"]
    if isinstance(saver, SqliteSaver):
        rows = dump(tmp_path / "x.db")
        assert {name: len(found) for name, found in rows.items() if found} == {
            "tm_threads": 1,
            "tm_heads": 1,
            "tm_checkpoints": 1,
            "tm_values": 1,
            "tm_logs": 1,
        }
    with pytest.raises(InvalidArgumentError):
        saver.sweep(batch=0)


def test_leases_end_by_the_same_clock(make: Any, clock: Clock) -> None:
    saver = make()
    assert saver.take_lease("t", "one", timedelta(hours=1))
    clock.now += HOUR - 1
    assert not saver.take_lease("t", "two", timedelta(hours=1))
    assert saver.take_lease("t", "one", timedelta(hours=1))
    clock.now += HOUR
    assert saver.take_lease("t", "two", timedelta(hours=1))
    assert not saver.take_lease("t", "one", timedelta(hours=1))


@pytest.mark.parametrize("options", [{"ttl": timedelta(0)}, {"history": "some"}])
def test_options_without_a_meaning_are_refused(options: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        InMemorySaver(**options)
    with pytest.raises(InvalidArgumentError):
        SqliteSaver(":memory:", **options)
