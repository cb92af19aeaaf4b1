"""The thread index and leases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from threadmark.checkpoint.base import TaskWrites
from threadmark.errors import InvalidArgumentError, LeaseLostError
from threadmark.testing.savers.engine import started
from threadmark.testing.savers.face import AsyncFace, Checks, Face, raises

__all__ = ["CHECKS", "LEASE_CHECKS"]

CHECKS = Checks("thread index")
LEASE_CHECKS = Checks("leases")


async def ask(face: Face, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method of the index."""
    if isinstance(face, AsyncFace):
        return await getattr(face.saver.threads, f"a{name}")(*args, **kwargs)
    return getattr(face.saver.threads, name)(*args, **kwargs)


async def some(face: Face, count: int = 7) -> None:
    """Create threads `t0`, `t1`, … of users `u0`, `u1` and `u2`."""
    for n in range(count):
        chain = await started(face, f"t{n}")
        about = {"user": f"u{n % 3}", "n": n, "deep": {"k": [n]}, "run_id": "r", "source": "loop"}
        await chain.add({}, metadata=about, status="idle" if n % 2 else "running")


async def names(face: Face, name: str, *args: Any, **kwargs: Any) -> list[str]:
    """Return the ids of all pages."""
    found: list[str] = []
    cursor = None
    while True:
        page = await ask(face, name, *args, cursor=cursor, **kwargs)
        found += [thread.thread_id for thread in page.threads]
        cursor = page.cursor
        if cursor is None:
            return found


@CHECKS
async def listing(face: Face) -> None:
    """Threads are listed in pages, those that changed last first, each once"""
    assert await names(face, "list") == []
    await some(face)
    wanted = [f"t{n}" for n in range(6, -1, -1)]
    for limit in (1, 2, 3, 7, 50):
        assert await names(face, "list", limit=limit) == wanted
    page = await ask(face, "list", limit=7)
    assert page.cursor is None


@CHECKS
async def searching(face: Face) -> None:
    """Threads are found by their metadata and status"""
    await some(face)
    assert await names(face, "search", {"user": "u1"}) == ["t4", "t1"]
    assert await names(face, "search", {"user": "u0"}, limit=1) == ["t6", "t3", "t0"]
    assert await names(face, "search", {"user": "u0", "n": 3}) == ["t3"]
    assert await names(face, "search", {"n": 3.0}) == ["t3"]
    assert await names(face, "search", {"deep": {"k": [5]}}) == ["t5"]
    assert await names(face, "search", {"user": "u0"}, status="idle") == ["t3"]
    assert await names(face, "search", {"user": "u9"}) == []
    assert await names(face, "search", {"'": "\"'; --"}) == []
    assert await names(face, "search", {}, limit=3) == await names(face, "list")
    assert await names(face, "list", status="running") == ["t6", "t4", "t2", "t0"]
    assert await names(face, "list", status="failed") == []


@CHECKS
async def times(face: Face) -> None:
    """Threads are found by when they changed"""
    await some(face, 2)
    now = datetime.now(UTC)
    assert await names(face, "list", updated_after=now - timedelta(hours=1)) == ["t1", "t0"]
    assert await names(face, "list", updated_before=now - timedelta(hours=1)) == []
    assert await names(face, "list", updated_after=now + timedelta(hours=1)) == []
    assert await names(face, "search", {"user": "u0"}, updated_after=now + timedelta(hours=1)) == []
    assert await names(face, "search", {"user": "u0"}, updated_before=now + timedelta(hours=1)) == ["t0"]


@CHECKS
async def counting(face: Face) -> None:
    """Threads are counted"""
    assert await ask(face, "count") == 0
    await some(face)
    assert await ask(face, "count") == 7
    assert await ask(face, "count", status="idle") == 3
    assert await ask(face, "count", {"user": "u0"}) == 3
    assert await ask(face, "count", {"user": "u0"}, status="idle") == 1


@CHECKS
async def one(face: Face) -> None:
    """What is known about a thread is what its runs said, without what belongs to one checkpoint"""
    assert await ask(face, "get", "t0") is None
    await some(face)
    found = await ask(face, "get", "t4")
    assert (found.thread_id, found.status, found.expires_at) == ("t4", "running", None)
    assert dict(found.metadata) == {"user": "u1", "n": 4, "deep": {"k": [4]}}
    assert abs(datetime.now(UTC) - found.created_at) < timedelta(minutes=1)
    assert found.updated_at >= found.created_at


@CHECKS
async def changing(face: Face) -> None:
    """Metadata of later runs, of sub-graphs and of update is added, and found at once"""
    await some(face)
    chain = await started(face, "t1")
    await chain.add({}, metadata={"user": "new", "more": True})
    inner = await started(face, "t1", "sub:1")
    await inner.add({}, metadata={"user": "inner"})
    assert dict((await ask(face, "get", "t1")).metadata) == {
        "user": "new",
        "n": 1,
        "deep": {"k": [1]},
        "more": True,
    }
    assert await names(face, "search", {"user": "new"}) == ["t1"]
    assert await names(face, "search", {"user": "u1"}) == ["t4"]
    assert dict((await ask(face, "update", "t1", metadata={"user": None})).metadata)["user"] is None
    assert await names(face, "search", {"user": None, "n": 1}) == ["t1"]
    assert await names(face, "search", {"user": "new"}) == []
    assert await ask(face, "update", "unknown", metadata={"a": 1}) is None
    await face.call("delete_thread", "t1")
    assert await ask(face, "count", {"n": 1}) == 0


@CHECKS
async def statuses(face: Face) -> None:
    """A thread's status follows its runs: running, paused, failed, idle"""
    chain = await started(face)
    await chain.add({})
    seen = [(await ask(face, "get", "t")).status]
    await chain.save(TaskWrites("task", "", [("__interrupt__", "question")]))
    seen.append((await ask(face, "get", "t")).status)
    await chain.add({})
    seen.append((await ask(face, "get", "t")).status)
    await chain.save(TaskWrites("task", "", [("__error__", "broken")]))
    seen.append((await ask(face, "get", "t")).status)
    await chain.add({}, status="idle")
    seen.append((await ask(face, "get", "t")).status)
    assert seen == ["running", "paused", "running", "failed", "idle"]
    inner = await started(face, "t", "sub:1")
    await inner.add({})
    assert (await ask(face, "get", "t")).status == "idle"


@CHECKS
async def copied(face: Face) -> None:
    """A copied thread is in the index with its metadata"""
    await some(face, 2)
    await face.call("copy_thread", "t1", "copy")
    assert set(await names(face, "search", {"user": "u1"})) == {"copy", "t1"}
    assert dict((await ask(face, "get", "copy")).metadata)["n"] == 1


@CHECKS
async def refusals(face: Face) -> None:
    """Questions without a meaning are refused"""
    await some(face, 2)
    bad: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("list", (), {"limit": 0}),
        ("list", (), {"limit": True}),
        ("list", (), {"status": "asleep"}),
        ("list", (), {"cursor": "nonsense"}),
        ("list", (), {"cursor": "\ud800"}),
        ("list", (), {"updated_after": 3}),
        ("search", ({1: 2},), {}),
        ("update", ("t1",), {"ttl": timedelta(0)}),
        ("update", ("t1",), {"ttl": 3}),
        ("update", ("t1",), {"metadata": {1: 2}}),
        ("get", (None,), {}),
    ]
    for name, args, kwargs in bad:
        with raises(InvalidArgumentError):
            await ask(face, name, *args, **kwargs)


# Leases


async def lease_of(face: Face, thread_id: str = "t", **ttl: Any) -> Any:
    """Return a lease whose methods are awaited."""
    return _Lease(face, face.saver.lease(thread_id, **ttl))


class _Lease:
    def __init__(self, face: Face, lease: Any) -> None:
        self.lease = lease
        self._apart = isinstance(face, AsyncFace)

    async def call(self, name: str, *args: Any) -> Any:
        if self._apart:
            return await getattr(self.lease, f"a{name}")(*args)
        return getattr(self.lease, name)(*args)


@LEASE_CHECKS
async def one_holder(face: Face) -> None:
    """A lease has one holder at a time, and is free again when it is given back"""
    first, second, other = await lease_of(face), await lease_of(face), await lease_of(face, "other")
    assert await first.call("acquire", 0)
    assert not await second.call("acquire", 0)
    assert await other.call("acquire", 0)
    await first.call("renew")
    await first.call("release")
    await first.call("release")
    assert await second.call("acquire", 0)
    assert await face.call("list", None) == []


@LEASE_CHECKS
async def ends(face: Face) -> None:
    """A lease ends by itself, and its holder can neither renew it nor commit once another has it"""
    chain = await started(face)
    await chain.add({"n": 0})
    dead = await lease_of(face, ttl=timedelta(milliseconds=1))
    assert await dead.call("acquire", 0)
    token = dead.lease.token
    await chain.add({"n": 1}, lease=token)
    heir = await lease_of(face)
    assert await heir.call("acquire", 10)
    with raises(LeaseLostError):
        await chain.add({"n": 2}, lease=token)
    with raises(LeaseLostError):
        await dead.call("renew")
    with raises(InvalidArgumentError):
        await dead.call("renew")
    assert await chain.stored() == {"n": 1}
    again = await started(face)
    await again.add({"n": 3}, lease=heir.lease.token)
    await heir.call("release")
    with raises(LeaseLostError):
        await again.add({"n": 4}, lease="never was")


@LEASE_CHECKS
async def deleted_with_thread(face: Face) -> None:
    """Deleting a thread ends its lease"""
    chain = await started(face)
    lease = await lease_of(face)
    assert await lease.call("acquire", 0)
    await chain.add({}, lease=lease.lease.token)
    await face.call("delete_thread", "t")
    assert await (await lease_of(face)).call("acquire", 0)


@LEASE_CHECKS
async def bad_leases(face: Face) -> None:
    """A lease needs a thread and a time"""
    with raises(InvalidArgumentError):
        await lease_of(face, ttl=timedelta(0))
    with raises(InvalidArgumentError):
        await (await lease_of(face, "a\x00")).call("acquire", 0)
    with raises(InvalidArgumentError):
        await (await lease_of(face)).call("renew")
