"""A saver written by somebody else, with the classic four methods of one kind, serves both worlds."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from threadmark.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointTuple,
    Commit,
    TaskCommit,
    TaskWrites,
    checkpoint_config,
    empty_checkpoint,
)
from threadmark.errors import InvalidArgumentError, NotOfferedError, SerializationError, ThreadmarkError

TASK = TaskWrites("task", "path", [("messages", ["hello"])])


class SyncOnly(BaseCheckpointSaver[str]):
    """Remembers what it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        self.threads: set[int] = set()

    def note(self, *call: Any) -> None:
        self.calls.append(call)
        self.threads.add(threading.get_ident())

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        self.note("put", config, checkpoint, metadata, new_versions)
        return checkpoint_config("t", "", checkpoint["id"])

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.note("put_writes", config, list(writes), task_id, task_path)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        self.note("get_tuple", config)
        return CheckpointTuple(config, {**empty_checkpoint(), "id": "found"}, {})

    def list(self, config: Any, **options: Any) -> Iterator[CheckpointTuple]:
        self.note("list", config, options)
        yield CheckpointTuple({}, empty_checkpoint(), {})
        yield CheckpointTuple({}, empty_checkpoint(), {})


class AsyncOnly(BaseCheckpointSaver[str]):
    """The same with async methods, over a `SyncOnly`."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = SyncOnly()

    @property
    def calls(self) -> Any:
        return self.inner.calls

    async def aput(self, *args: Any) -> Any:
        return self.inner.put(*args)

    async def aput_writes(self, *args: Any) -> None:
        self.inner.put_writes(*args)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.inner.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        for found in self.inner.list(config, **options):
            yield found


class Neither(BaseCheckpointSaver[str]):
    """Defines nothing."""


def commit(**fields: Any) -> Commit:
    checkpoint = {**empty_checkpoint(), "id": "c1", "channel_values": {"messages": ["hello"]}}
    given: dict[str, Any] = {
        "thread_id": "t",
        "checkpoint_ns": "",
        "parent_id": "c0",
        "checkpoint": checkpoint,
        "metadata": {"step": 1},
        "new_versions": {"messages": "1"},
        "writes": [TASK],
    }
    return Commit(**(given | fields))


@pytest.fixture(params=[SyncOnly, AsyncOnly])
def saver(request: pytest.FixtureRequest) -> Any:
    return request.param()


def names(saver: Any) -> list[str]:
    return [call[0] for call in saver.calls]


def test_a_commit_saves_the_writes_before_the_checkpoint_that_they_led_to(saver: Any) -> None:
    assert saver.commit(saver.prepare(commit())) is None
    writes, put = saver.calls
    assert writes[0] == "put_writes"
    assert writes[1:] == (checkpoint_config("t", "", "c0"), [("messages", ["hello"])], "task", "path")
    assert put[1] == checkpoint_config("t", "", "c0")
    assert put[4] == {"messages": "1"}


async def test_the_async_commit_does_the_same() -> None:
    for saver in (SyncOnly(), AsyncOnly()):
        assert await saver.acommit(saver.prepare(commit())) is None
        assert names(saver) == ["put_writes", "put"]


def test_the_first_checkpoint_follows_nothing(saver: Any) -> None:
    saver.commit(saver.prepare(commit(parent_id=None)))
    assert names(saver) == ["put"]
    assert "checkpoint_id" not in saver.calls[0][1]["configurable"]


def test_writes_can_be_saved_ahead_of_their_superstep(saver: Any) -> None:
    saver.commit(saver.prepare(TaskCommit("t", "", "c0", [TASK])))
    assert names(saver) == ["put_writes"]


def test_what_is_done_to_a_value_after_prepare_is_not_saved(saver: Any) -> None:
    live: list[str] = ["hello"]
    one = commit(writes=[TaskWrites("task", "", [("messages", live)])])
    one.checkpoint["channel_values"]["messages"] = live
    prepared = saver.prepare(one)
    live.append("too late")
    saver.commit(prepared)
    assert saver.calls[0][2] == [("messages", ["hello"])]
    assert saver.calls[1][2]["channel_values"] == {"messages": ["hello"]}
    assert one.checkpoint["channel_values"]["messages"] is live


def test_a_value_that_cannot_be_stored_is_refused_by_prepare_with_its_place(saver: Any) -> None:
    bad = TaskWrites("task", "", [("messages", [lambda: 0])])
    with pytest.raises(SerializationError, match=r"messages.*node 'ask'") as caught:
        saver.prepare(commit(writes=[bad], nodes={"task": "ask"}))
    assert (caught.value.channel, caught.value.node) == ("messages", "ask")
    assert saver.calls == []


def test_sync_reading(saver: Any) -> None:
    assert saver.get({"configurable": {}})["id"] == "found"
    assert saver.load({"configurable": {}}).saved.checkpoint["id"] == "found"
    assert len(list(saver.list(None, limit=3))) == 2
    assert saver.calls[-1][2]["limit"] == 3


async def test_async_reading() -> None:
    for saver in (SyncOnly(), AsyncOnly()):
        found = await saver.aget({"configurable": {}})
        assert found
        assert found["id"] == "found"
        assert (await saver.aload({"configurable": {}})).saved
        assert len([found async for found in saver.alist(None)]) == 2


async def test_sync_methods_never_run_in_the_loops_thread() -> None:
    saver = SyncOnly()
    await saver.aput_writes({}, [], "t")
    await saver.aget_tuple({})
    _ = [found async for found in saver.alist(None)]
    assert threading.get_ident() not in saver.threads


async def test_async_methods_are_not_forced_into_a_running_loop() -> None:
    saver = AsyncOnly()
    calls: list[Callable[[], object]] = [lambda: saver.get_tuple({}), lambda: list(saver.list(None))]
    for call in calls:
        with pytest.raises(InvalidArgumentError, match="await a"):
            call()
    assert saver.calls == []


async def test_what_a_saver_lacks_is_said_clearly() -> None:
    saver = Neither()
    calls: list[Callable[[], object]] = [
        lambda: saver.put({}, empty_checkpoint(), {}, {}),
        lambda: saver.put_writes({}, [], ""),
        lambda: saver.get_tuple({}),
        lambda: list(saver.list(None)),
        lambda: saver.delete_thread("t"),
        lambda: saver.copy_thread("t", "u"),
        lambda: saver.delete_for_runs(["r"]),
        lambda: saver.prune(["t"], keep="latest"),
    ]
    for call in calls:
        with pytest.raises(NotOfferedError, match="Neither does not offer"):
            call()
    with pytest.raises(ThreadmarkError, match="get_tuple"):
        await saver.aget_tuple({})
    with pytest.raises(ThreadmarkError, match="prune"):
        await saver.aprune(["t"], strategy="delete")


def test_versions_count_up_and_keep_their_order_as_text() -> None:
    saver = Neither()
    version: Any = None
    seen = []
    for _ in range(12):
        version = saver.get_next_version(version)
        seen.append(version)
    assert seen == sorted(seen)
    assert [int(v.split(".")[0]) for v in seen] == list(range(1, 13))
    assert len(seen[0].split(".")[0]) == 32


def test_extra_types_are_known_to_a_twin_and_not_to_the_saver() -> None:
    class Point:
        pass

    saver = SyncOnly()
    twin = saver.with_known_types([Point])
    assert twin.calls is saver.calls
    assert twin.serde is not saver.serde
