"""What our own savers promise the engine: atomic commits, compared heads, no late writers."""

from __future__ import annotations

import asyncio
from typing import Any

from threadmark.checkpoint.base import Commit, Kept, TaskCommit, TaskWrites
from threadmark.errors import SerializationError, ThreadConflictError, ThreadDeletedError
from threadmark.testing.savers.face import Chain, Checks, Face, at, raises
from threadmark.testing.savers.lists import CHANGES, check_all

__all__ = ["CHECKS"]

CHECKS = Checks("engine")


async def started(face: Face, thread_id: str = "t", ns: str = "") -> Chain:
    """Return a chain that has loaded its thread, as a run does."""
    chain = Chain(face, thread_id, ns)
    await chain.load()
    return chain


@CHECKS
async def commits(face: Face) -> None:
    """Commits follow each other, and writes are saved under the checkpoint that they started from"""
    chain = await started(face)
    assert chain.tip is None
    first = await chain.add({"n": 0})
    second = await chain.add({"n": 1}, writes=[TaskWrites("task", "path", [("n", 1)])])
    assert (await chain.read(first)).pending_writes == [("task", "n", 1)]
    found = await chain.read()
    assert found.checkpoint["id"] == second
    assert found.parent_config == at("t", "", first)
    again = await started(face)
    assert (again.tip, again.head) == (second, chain.head)


@CHECKS
async def writes_ahead(face: Face) -> None:
    """Writes can be saved ahead of their superstep, and are not saved twice"""
    chain = await started(face)
    first = await chain.add({})
    await chain.save(TaskWrites("one", "1", [("a", 1)]))
    await chain.save(TaskWrites("two", "2", [("a", 2)]), TaskWrites("three", "3", [("a", 3)]))
    await chain.add({"a": 6}, writes=[TaskWrites("one", "1", [("a", 9)])])
    wanted = [("one", "a", 1), ("two", "a", 2), ("three", "a", 3)]
    assert (await chain.read(first)).pending_writes == wanted


@CHECKS
async def in_line(face: Face) -> None:
    """commit_many saves commits that follow each other as commit does one by one"""
    chain = await started(face)
    await chain.add({"n": 0, "l": []})
    wanted = {}
    for size in (1, 2, 7, 3):
        line = []
        for n in range(size):
            value = [*chain.values["l"][n % 5 == 4 :], n]
            kept: dict[str, Kept] = {"l": [(n % 5 == 4, len(value) - 1 + (n % 5 == 4)), 1]} if n % 3 else {}
            before, task = chain.tip, TaskWrites(f"task {n}", "path", [("l", n)])
            changes = {"l": value, "n": n, **({"once": n} if n % 2 else {})}
            cleared = ["once"] if "once" in chain.values and not n % 2 else []
            saved, prepared = chain.get_in_line(changes, cleared=cleared, writes=[task], kept=kept)
            line.append(prepared)
            wanted[saved] = (before, dict(chain.values), [(f"task {n}", "l", n)])
        assert await face.call("commit_many", line) == chain.head
    for saved, (before, values, writes) in wanted.items():
        found = await chain.read(saved)
        assert found.parent_config == at("t", "", before)
        assert found.checkpoint["channel_values"] == values
        assert (await chain.read(before)).pending_writes == writes
    assert (await chain.read()).checkpoint["id"] == chain.tip


@CHECKS
async def conflict_in_line(face: Face) -> None:
    """Of commits that are saved by commit_many, nothing is left if the head is not the one of the first"""
    await (await started(face)).add({"n": 0})
    winner, loser = await started(face), await started(face)
    loser.name = "loser"
    won = await winner.add({"n": 1})
    line = [loser.get_in_line({"n": n})[1] for n in range(3)]
    with raises(ThreadConflictError) as lost:
        await face.call("commit_many", line)
    assert lost.error.found == won
    assert await winner.stored() == {"n": 1}
    assert len(await face.call("list", at("t"))) == 2


@CHECKS
async def conflict(face: Face) -> None:
    """Of two runs that start from one head, the second to commit is refused, and the first stands"""
    await (await started(face)).add({"n": 0})
    winner, loser = await started(face), await started(face)
    loser.name = "loser"
    won = await winner.add({"n": 1})
    task = TaskWrites("late", "", [("n", 2)])
    with raises(ThreadConflictError) as lost:
        await loser.add({"n": 2}, writes=[task])
    error = lost.error
    assert (error.thread_id, error.checkpoint_ns) == ("t", "")
    assert (error.expected, error.found) == ("c0001", won)
    assert await winner.stored() == {"n": 1}
    assert not (await winner.read("c0001")).pending_writes
    assert len(await face.call("list", at("t"))) == 2
    await winner.add({"n": 3})


@CHECKS
async def first_conflict(face: Face) -> None:
    """Of two runs that start a thread, one is refused"""
    winner, loser = await started(face), await started(face)
    await winner.add({"n": 1})
    with raises(ThreadConflictError):
        await loser.add({"n": 2})
    assert await winner.stored() == {"n": 1}


@CHECKS
async def without_head(face: Face) -> None:
    """A commit without a head moves the branch whatever it was"""
    chain = await started(face)
    await chain.add({"n": 0})
    other = await started(face)
    other.name, other.head = "other", None
    await chain.add({"n": 1})
    await other.add({"n": 2})
    assert await chain.stored() == {"n": 2}


@CHECKS
async def deleted(face: Face) -> None:
    """A run whose thread was deleted cannot commit, even if a thread of the same id was begun since"""
    for again in (False, True):
        chain = await started(face)
        await chain.add({"n": 0, "l": [1]})
        await face.call("delete_thread", "t")
        if again:
            new = await started(face)
            new.name = "new"
            await new.add({"n": 7})
        with raises(ThreadDeletedError):
            await chain.add({"n": 1})
        with raises(ThreadDeletedError):
            await chain.save(TaskWrites("task", "", [("n", 1)]))
        listed = [each.checkpoint["id"] for each in await face.call("list", at("t"))]
        assert listed == (["new0001"] if again else [])
        await face.call("delete_thread", "t")


@CHECKS
async def refused_whole(face: Face) -> None:
    """prepare refuses what cannot be kept, naming channel and node, before anything is written"""
    chain = await started(face)
    await chain.add({"n": 0})
    bad = TaskWrites("task", "", [("ok", 1), ("bad", {"deep": [print]})])
    saved, new = chain.next({"n": 1})
    work = Commit("t", "", chain.tip, saved, {}, new, [bad], chain.head, nodes={"task": "ask"})
    with raises(SerializationError) as refused:
        face.saver.prepare(work)
    assert (refused.error.channel, refused.error.node) == ("bad", "ask")
    with raises(SerializationError):
        face.saver.prepare(TaskCommit("t", "", chain.tip or "", [bad]))
    assert await chain.stored() == {"n": 0}


@CHECKS
async def snapshot(face: Face) -> None:
    """What is done to live values after prepare does not reach the storage"""
    chain = await started(face)
    await chain.add({"d": {"k": 1}, "l": [[1]]})
    live: dict[str, Any] = {"d": {"k": 2}, "l": [[1], [2]]}
    written: list[int] = [5]
    saved, new = chain.next(live)
    tasks = [TaskWrites("task", "", [("l", written)])]
    about: Any = {"m": written}
    prepared = face.saver.prepare(
        Commit("t", "", chain.tip, saved, about, new, tasks, chain.head, memo=chain.memo)
    )
    live["d"]["k"] = 99
    live["l"][0].append(99)
    live["l"].append(99)
    written.append(99)
    await face.call("commit", prepared)
    assert await chain.stored() == {"d": {"k": 2}, "l": [[1], [2]]}
    assert dict((await chain.read()).metadata) == {"m": [5]}
    assert (await chain.read("c0001")).pending_writes == [("task", "l", [5])]


@CHECKS
async def any_list(face: Face) -> None:
    """Lists come back right when nothing is known about how they changed"""
    chain = await started(face)
    wanted = {await chain.add({"l": value}): value for value in CHANGES}
    await check_all(chain, wanted)
    again = await started(face)
    again.name = "again"
    for value in CHANGES:
        wanted[await again.add({"l": value})] = value
    await check_all(chain, wanted)


@CHECKS
async def known_changes(face: Face) -> None:
    """Lists come back right when the engine says how they changed, also when it says it wrongly"""
    chain = await started(face)
    steps: list[tuple[list[int], Kept]] = [
        ([1, 2, 3], [3]),
        ([1, 2, 3, 4], [(0, 3), 1]),
        ([2, 3, 4, 5], [(1, 4), 1]),
        ([2, 9, 4, 5], [(0, 1), 1, (2, 4)]),
        ([4, 5, 2], [(2, 4), (0, 1)]),
        ([4, 5, 2, 4, 5, 2], [(0, 3), (0, 3)]),
        ([], []),
        ([8], [1]),
        ([8, 8], [(0, 5)]),
        ([8, 7], [(0, 1), 9]),
        ([7], [(-3, 1)]),
        ([7, 6], [(0, 1), 1]),
    ]
    wanted: dict[str, list[Any]] = {}
    for value, kept in steps:
        wanted[await chain.add({"l": value}, kept={"l": kept})] = value
    await check_all(chain, wanted)


@CHECKS
async def mixed_knowledge(face: Face) -> None:
    """What is known about one change and not about the next does not confuse a list"""
    chain = await started(face)
    value: list[int] = []
    wanted: dict[str, list[Any]] = {}
    for n in range(40):
        value = [*value[n % 7 == 6 :], n]
        known: Kept = [(n % 7 == 6, n - n // 7), 1]
        kept = {"l": known} if n % 3 else {}
        wanted[await chain.add({"l": value}, kept=kept)] = value
    await check_all(chain, wanted)


@CHECKS
async def forked_lists(face: Face) -> None:
    """Two branches may append to one list, each in its own way"""
    base = await started(face)
    wanted: dict[str, list[Any]] = {await base.add({"l": [1, 2]}): [1, 2]}
    for n in range(3):
        branch = await started(face)
        await branch.load("c0001")
        branch.name = f"branch{n}-"
        for value in ([1, 2, n], [1, 2, n, n]):
            kept: Kept = [(0, len(value) - 1), 1]
            wanted[await branch.add({"l": value}, kept={"l": kept})] = value
    await check_all(base, wanted)


@CHECKS
async def fork(face: Face) -> None:
    """A commit from an older checkpoint moves the head to the fork, and nothing of the old tip is lost"""
    chain = await started(face)
    names = [await chain.add({"n": n}) for n in range(3)]
    branch = await started(face)
    await branch.load(names[0])
    branch.name = "fork"
    forked = await branch.add({"n": 9})
    found = await chain.read()
    assert found.checkpoint["id"] == forked
    assert found.parent_config == at("t", "", names[0])
    assert await chain.stored(names[2]) == {"n": 2}


@CHECKS
async def copied(face: Face) -> None:
    """A checkpoint may be copied beside itself, with its versions, without losing a value"""
    chain = await started(face)
    root = await chain.add({"l": [1], "n": 0})
    await chain.add({"l": [1, 2], "n": 1})
    values, versions = dict(chain.values), dict(chain.versions)
    copy = await started(face)
    copy.name = "copy"
    copy.tip = root
    assert (copy.values, copy.versions) == (values, versions)
    await copy.add({})
    assert await chain.stored() == {"l": [1, 2], "n": 1}
    await copy.add({"l": [1, 2, 3]})
    assert await chain.stored() == {"l": [1, 2, 3], "n": 1}


@CHECKS
async def sub_graphs(face: Face) -> None:
    """A sub-graph's namespace lives and dies with its thread"""
    outer = await started(face)
    inner = await started(face, ns="node:task")
    await inner.add({"n": "inner"})
    await outer.add({"n": "outer"})
    await inner.add({"n": "inner2"})
    await face.call("delete_thread", "t")
    with raises(ThreadDeletedError):
        await inner.add({"n": "late"})
    assert await face.call("list", None) == []


@CHECKS
async def known_types(face: Face) -> None:
    """A saver that was told more types works on the same storage, and the saver itself does not change"""
    twin = type(face)(face.saver.with_known_types([]))  # type: ignore[call-arg]
    chain = await started(twin)
    await chain.add({"n": 1})
    assert (await (await started(face)).stored()) == {"n": 1}


@CHECKS
async def many_at_once(face: Face) -> None:
    """Runs of different threads do not disturb each other"""
    chains = [await started(face, f"t{n}") for n in range(8)]

    async def grow(chain: Chain) -> None:
        for n in range(5):
            await chain.add({"n": n, "l": list(range(n))})

    if await _runs_concurrently(face):
        await asyncio.gather(*map(grow, chains))
    else:
        for chain in chains:
            await grow(chain)
    for chain in chains:
        assert await chain.stored() == {"n": 4, "l": [0, 1, 2, 3]}


async def _runs_concurrently(face: Face) -> bool:
    from threadmark.testing.savers.face import AsyncFace

    return isinstance(face, AsyncFace)
