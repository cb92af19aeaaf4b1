"""Branches: named heads, and the tree of a thread's checkpoints."""

from __future__ import annotations

from typing import Any

from threadmark.errors import (
    CheckpointNotFoundError,
    InvalidArgumentError,
    ThreadConflictError,
)
from threadmark.testing.savers.engine import started
from threadmark.testing.savers.face import Chain, Checks, Face, at, raises

__all__ = ["CHECKS"]

CHECKS = Checks("branches")


async def tips(face: Face, ns: str = "") -> dict[str, str]:
    """Return the branches and where they end."""
    return {each.name: each.checkpoint_id for each in await face.call("branches", at("t", ns))}


async def line(face: Face, count: int = 3) -> Chain:
    """Return a thread with some checkpoints."""
    chain = await started(face)
    for n in range(count):
        await chain.add({"n": n})
    return chain


async def from_branch(face: Face, branch: str) -> Chain:
    """Return a chain that has loaded a branch, as a run on it does."""
    chain = Chain(face)
    await chain.load(branch=branch)
    chain.name = branch
    return chain


@CHECKS
async def main_only(face: Face) -> None:
    """A thread starts with the branch main, an unknown thread has none"""
    assert await tips(face) == {}
    await line(face)
    (branch,) = await face.call("branches", at("t"))
    assert (branch.name, branch.checkpoint_id, branch.automatic) == ("main", "c0003", False)


@CHECKS
async def left_behind(face: Face) -> None:
    """A tip that was left behind is listed under an automatic name, once"""
    await line(face)
    for n in range(2):
        fork = await started(face)
        await fork.load("c0001")
        fork.name = f"f{n}-"
        await fork.add({"n": 9})
    found = await face.call("branches", at("t"))
    assert [(each.checkpoint_id, each.automatic) for each in found] == [
        ("f1-0002", False),
        ("c0003", True),
        ("f0-0002", True),
    ]
    replay = await started(face)
    await replay.load("c0003")
    await replay.add({"n": 3})
    assert len(await face.call("branches", at("t"))) == 4


@CHECKS
async def named(face: Face) -> None:
    """A named branch is worked on without moving main, and main without moving it"""
    await line(face)
    await face.call("create_branch", at("t", "", "c0001"), "try")
    branch = await from_branch(face, "try")
    assert branch.tip == "c0001"
    await branch.add({"n": "tried"})
    assert await tips(face) == {"main": "c0003", "try": "try0002"}
    assert (await face.call("get_tuple", at("t", branch="try"))).checkpoint["id"] == "try0002"
    assert (await face.call("get_tuple", at("t"))).checkpoint["id"] == "c0003"
    await (await started(face)).add({"n": 3})
    await branch.add({"n": "again"})
    assert await tips(face) == {"main": "c0004", "try": "try0003"}


@CHECKS
async def conflicts(face: Face) -> None:
    """Every branch has a head of its own to compare"""
    await line(face)
    await face.call("create_branch", at("t"), "try")
    first, second = await from_branch(face, "try"), await from_branch(face, "try")
    second.name = "second"
    await first.add({"n": 1})
    with raises(ThreadConflictError):
        await second.add({"n": 2})


@CHECKS
async def renaming(face: Face) -> None:
    """A branch can be renamed, and has a name of somebody's choice then"""
    await line(face)
    fork = await started(face)
    await fork.load("c0001")
    fork.name = "f"
    await fork.add({"n": 9})
    automatic = (await face.call("branches", at("t")))[1]
    made = await face.call("rename_branch", at("t"), automatic.name, "kept")
    assert (made.name, made.checkpoint_id, made.automatic) == ("kept", "c0003", False)
    assert await tips(face) == {"main": "f0002", "kept": "c0003"}
    assert not any(each.automatic for each in await face.call("branches", at("t")))


@CHECKS
async def switching(face: Face) -> None:
    """Another branch can be made the head; runs on the old head are refused then"""
    chain = await line(face)
    await face.call("create_branch", at("t", "", "c0001"), "try")
    branch = await from_branch(face, "try")
    tried = await branch.add({"n": "tried"})
    await face.call("switch_branch", at("t"), "try")
    assert (await face.call("get_tuple", at("t"))).checkpoint["id"] == tried
    with raises(ThreadConflictError):
        await chain.add({"n": 9})
    found = await tips(face)
    assert (found.pop("main"), found.pop("try")) == (tried, tried)
    ((automatic, left),) = found.items()
    assert left == "c0003"
    await face.call("switch_branch", at("t"), automatic)
    assert await tips(face) == {"main": "c0003", "try": tried}


@CHECKS
async def deleting(face: Face) -> None:
    """A branch's name can be deleted, and its checkpoints stay until they are pruned"""
    await line(face)
    await face.call("create_branch", at("t", "", "c0001"), "try")
    branch = await from_branch(face, "try")
    tried = await branch.add({"n": "tried"})
    await face.call("delete_branch", at("t"), "try")
    assert await tips(face) == {"main": "c0003"}
    assert (await face.call("get_tuple", at("t", "", tried))) is not None
    assert await face.call("get_tuple", at("t", branch="try")) is None
    await face.call("prune", ["t"], keep_last=9)
    assert (await face.call("get_tuple", at("t", "", tried))) is None


@CHECKS
async def refusals(face: Face) -> None:
    """What cannot be done with branches is refused, and nothing changes"""
    await line(face)
    await face.call("create_branch", at("t"), "try")
    bad: list[tuple[type[Exception], str, Any, tuple[str, ...]]] = [
        (InvalidArgumentError, "create_branch", at("t"), ("try",)),
        (InvalidArgumentError, "create_branch", at("t"), ("main",)),
        (InvalidArgumentError, "create_branch", at("t"), ("a\x00",)),
        (CheckpointNotFoundError, "create_branch", at("t", "", "nowhere"), ("new",)),
        (CheckpointNotFoundError, "create_branch", at("unknown"), ("new",)),
        (InvalidArgumentError, "rename_branch", at("t"), ("main", "new")),
        (InvalidArgumentError, "rename_branch", at("t"), ("try", "main")),
        (InvalidArgumentError, "rename_branch", at("t"), ("nobody", "new")),
        (InvalidArgumentError, "switch_branch", at("t"), ("nobody",)),
        (InvalidArgumentError, "switch_branch", at("t"), ("main",)),
        (InvalidArgumentError, "delete_branch", at("t"), ("main",)),
        (InvalidArgumentError, "delete_branch", at("t"), ("nobody",)),
    ]
    for kind, name, config, args in bad:
        with raises(kind):
            await face.call(name, config, *args)
    assert await tips(face) == {"main": "c0003", "try": "c0003"}


@CHECKS
async def tree(face: Face) -> None:
    """The tree of checkpoints shows parents, metadata and branches"""
    assert await face.call("tree", at("t")) == []
    await line(face)
    fork = await started(face)
    await fork.load("c0002")
    fork.name = "f"
    await fork.add({"n": 9}, metadata={"why": "fork"})
    nodes = await face.call("tree", at("t"))
    shape = [
        (
            node.config["configurable"]["checkpoint_id"],
            node.parent_config and node.parent_config["configurable"]["checkpoint_id"],
            node.branches[:1] and node.branches[0].startswith(("main", "fork")),
        )
        for node in nodes
    ]
    assert shape == [
        ("f0003", "c0002", True),
        ("c0003", "c0002", True),
        ("c0002", "c0001", ()),
        ("c0001", None, ()),
    ]
    assert nodes[0].metadata == {"step": 3, "why": "fork"}
    assert nodes[0].created_at >= nodes[-1].created_at


@CHECKS
async def per_namespace(face: Face) -> None:
    """Every namespace has branches of its own"""
    await line(face)
    inner = await started(face, ns="sub")
    await inner.add({"n": 1})
    await face.call("create_branch", at("t", "sub"), "try")
    assert await tips(face) == {"main": "c0003"}
    assert await tips(face, "sub") == {"main": "c0001", "try": "c0001"}
