"""Deletion and retention: what is kept stays whole, what is not is gone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from threadmark.checkpoint.base import TaskWrites
from threadmark.errors import InvalidArgumentError, ThreadDeletedError
from threadmark.testing.savers.classic import ids
from threadmark.testing.savers.engine import started
from threadmark.testing.savers.face import Chain, Checks, Face, at, raises

__all__ = ["CHECKS"]

CHECKS = Checks("retention")


async def history(face: Face, thread_id: str = "t") -> dict[str, Any]:
    """Return everything that can be read of a thread, by namespace and id."""
    found = await face.call("list", {"configurable": {"thread_id": thread_id}})
    return {
        f"{each.config['configurable']['checkpoint_ns']}/{each.checkpoint['id']}": (
            each.checkpoint["channel_values"],
            each.checkpoint["channel_versions"],
            each.metadata,
            each.pending_writes,
        )
        for each in found
    }


async def grown(face: Face, thread_id: str = "t") -> Chain:
    """Return a thread with a list that grew, shrank and was edited, with writes everywhere."""
    chain = await started(face, thread_id)
    lists = [[0], [0, 1], [0, 1, 2], [1, 2], [1, 2, 3], [1, 9, 3], [1, 9, 3, 4], [4]]
    for n, value in enumerate(lists):
        task = TaskWrites(f"task{n}", "", [("l", value)])
        await chain.add({"l": value, "n": n}, writes=[task] if n else [], metadata={"run_id": f"run{n // 2}"})
        await chain.save(TaskWrites(f"ahead{n}", "", [("n", n)]))
    return chain


async def forked(face: Face) -> dict[str, Any]:
    """Grow a thread, fork it twice, and return all of it."""
    await grown(face)
    for n, start in enumerate(("c0003", "c0005")):
        branch = await started(face)
        await branch.load(start)
        branch.name = f"f{n}-"
        for _ in range(2):
            await branch.add({"l": [*branch.values["l"], f"fork{n}"]}, metadata={"run_id": f"fork{n}"})
    return await history(face)


@CHECKS
async def latest(face: Face) -> None:
    """prune(keep="latest") leaves the tip, whole, and the run that is under way goes on"""
    chain = await grown(face)
    before = await history(face)
    await face.call("prune", ["t", "unknown"], keep="latest")
    after = await history(face)
    assert after == {"/c0008": before["/c0008"]}
    assert (await chain.read()).parent_config is None
    await chain.add({"l": [4, 5]}, kept={"l": [(0, 1), 1]})
    assert await chain.stored() == {"l": [4, 5], "n": 7}


@CHECKS
async def by_strategy(face: Face) -> None:
    """prune knows the strategies of the peer, and keeps the latest if it is told nothing"""
    for n, rules in enumerate(({"strategy": "keep_latest"}, {})):
        await grown(face, f"t{n}")
        await face.call("prune", [f"t{n}"], **rules)
        assert await ids(face, at(f"t{n}")) == ["c0008"]
    await face.call("prune", ["t0"], strategy="delete")
    assert await ids(face, None) == ["c0008"]


@CHECKS
async def keep_last(face: Face) -> None:
    """prune(keep_last=n) leaves n checkpoints of every branch, each whole"""
    before = await forked(face)
    await face.call("prune", ["t"], keep_last=3)
    after = await history(face)
    kept = {"c0008", "c0007", "c0006", "c0003", "f0-0004", "f0-0005", "c0005", "f1-0006", "f1-0007"}
    assert {name[1:] for name in after} == kept
    assert after == {name: before[name] for name in after}


@CHECKS
async def drops_automatic(face: Face) -> None:
    """prune(keep="latest") drops tips that were left behind, and keeps branches with a name"""
    before = await forked(face)
    names = {each.checkpoint_id: each.name for each in await face.call("branches", at("t")) if each.automatic}
    assert set(names) == {"c0008", "f0-0005"}
    await face.call("rename_branch", at("t"), names["f0-0005"], "mine")
    await face.call("prune", ["t"], keep="latest")
    after = await history(face)
    assert after == {name: before[name] for name in ("/f0-0005", "/f1-0007")}
    assert [(each.name, each.automatic) for each in await face.call("branches", at("t"))] == [
        ("main", False),
        ("mine", False),
    ]


@CHECKS
async def older_than(face: Face) -> None:
    """prune(older_than=...) keeps what is younger, and every tip"""
    before = await forked(face)
    await face.call("prune", ["t"], older_than=timedelta(days=1))
    assert await history(face) == before
    await face.call("prune", ["t"], older_than=timedelta(0))
    after = await history(face)
    assert {"/c0008", "/f0-0005", "/f1-0007"} <= after.keys()
    assert after == {name: before[name] for name in after}


@CHECKS
async def forks_after_pruning(face: Face) -> None:
    """A pruned thread can be forked and grown as any other"""
    await forked(face)
    await face.call("prune", ["t"], keep_last=2)
    branch = await started(face)
    await branch.load("c0007")
    branch.name = "late"
    await branch.add({"l": [*branch.values["l"], "late"]})
    assert (await branch.stored())["l"] == [1, 9, 3, 4, "late"]
    assert (await branch.stored("c0008"))["l"] == [4]


@CHECKS
async def bad_rules(face: Face) -> None:
    """Rules without a meaning are refused"""
    await grown(face)
    bad: list[dict[str, Any]] = [
        {"keep": "all"},
        {"strategy": "some"},
        {"keep_last": 0},
        {"keep_last": True},
        {"keep_last": 2, "keep": "latest"},
        {"older_than": 3},
        {"older_than": timedelta(-1)},
    ]
    for rules in bad:
        with raises(InvalidArgumentError):
            await face.call("prune", ["t"], **rules)
    assert len(await history(face)) == 8


@CHECKS
async def sub_graphs(face: Face) -> None:
    """A sub-graph's checkpoints go with the checkpoint that started it; a lasting one keeps its tip"""
    outer = await started(face)
    for n in range(3):
        await outer.add({"n": n})
        for ns in (f"node:task{n}", f"node:task{n}|deep:x{n}", "lasting"):
            inner = await started(face, ns=ns)
            parents = {"": outer.tip}
            if "|" in ns:
                parents[f"node:task{n}"] = "c0002"
            await inner.add({"n": n}, metadata={"parents": parents})
            await inner.add({"n": -n}, metadata={"parents": parents})
    before = await history(face)
    await face.call("prune", ["t"], keep="latest")
    after = await history(face)
    assert after.keys() == {"/c0003", "node:task2/c0002", "node:task2|deep:x2/c0002", "lasting/c0006"}
    assert after == {name: before[name] for name in after}


@CHECKS
async def runs(face: Face) -> None:
    """delete_for_runs deletes what runs saved, and branches end with what was before"""
    before = await forked(face)
    await face.call("delete_for_runs", ["run1", "fork1", "never was"])
    after = await history(face)
    gone = {"/c0003", "/c0004", "/f1-0006", "/f1-0007"}
    assert after == {name: found for name, found in before.items() if name not in gone}
    branches = {each.name: each.checkpoint_id for each in await face.call("branches", at("t"))}
    assert branches["main"] == "c0005"
    assert (await face.call("get_tuple", at("t", "", "c0005"))).parent_config == at("t", "", "c0002")
    await face.call("delete_for_runs", ["run0", "run2", "run3", "fork0"])
    assert await ids(face, None) == []
    assert await face.call("branches", at("t")) == []


@CHECKS
async def copies(face: Face) -> None:
    """A copied thread is whole, independent, and refuses to overwrite another"""
    before = await forked(face)
    await face.call("copy_thread", "t", "copy")
    assert await history(face, "copy") == before
    assert await face.call("branches", at("copy")) == await face.call("branches", at("t"))
    for thread_id in ("t", "copy"):
        chain = await started(face, thread_id)
        chain.name = thread_id
        await chain.add({"l": [*chain.values["l"], thread_id]})
    assert (await chain.stored())["l"][-2:] == ["fork1", "copy"]
    await face.call("delete_thread", "t")
    assert len(await history(face, "copy")) == len(before) + 1
    await chain.add({"l": [*chain.values["l"], "more"]})
    with raises(InvalidArgumentError):
        await face.call("copy_thread", "t", "new")
    await face.call("copy_thread", "copy", "t")
    with raises(InvalidArgumentError):
        await face.call("copy_thread", "copy", "t")


@CHECKS
async def late_writes(face: Face) -> None:
    """Writes from a checkpoint that was pruned are refused and leave nothing"""
    await grown(face)
    stale = await started(face)
    await stale.load("c0002")
    stale.name = "stale"
    await face.call("prune", ["t"], keep="latest")
    with raises(ThreadDeletedError):
        await stale.save(TaskWrites("late", "", [("n", 1)]))
    with raises(ThreadDeletedError):
        await stale.add({"n": 1})
    assert await ids(face, at("t")) == ["c0008"]
