"""What every saver promises, also one with only the classic four methods."""

from __future__ import annotations

from typing import Any

from threadmark.errors import InvalidArgumentError, SerializationError, ThreadDeletedError
from threadmark.testing.savers.face import Chain, Checks, Face, at, checkpoint, raises

__all__ = ["CHECKS"]

CHECKS = Checks("classic")


async def ids(face: Face, config: Any, **options: Any) -> list[str]:
    """Return the ids of a listing."""
    return [found.checkpoint["id"] for found in await face.call("list", config, **options)]


@CHECKS
async def unknown(face: Face) -> None:
    """Reading an unknown thread finds nothing and creates nothing"""
    for n in range(3):
        assert await face.call("get_tuple", at(f"t{n}")) is None
        assert await face.call("get", at(f"t{n}")) is None
        assert await ids(face, at(f"t{n}")) == []
    assert await ids(face, None) == []


@CHECKS
async def round_trip(face: Face) -> None:
    """A checkpoint comes back as it was put, with its address, metadata and parent"""
    first = checkpoint("a", {"n": 1, "s": "é", "d": {"k": [None, True, 1.5]}}, {"n": "1", "s": "1", "d": "1"})
    first["versions_seen"] = {"node": {"n": "1"}}
    first["updated_channels"] = ["n"]
    metadata = {"source": "loop", "step": 3, "mine": {"deep": [1]}}
    address = await face.call("put", at("t"), first, metadata, first["channel_versions"])
    assert address["configurable"]["checkpoint_id"] == "a"
    found = await face.call("get_tuple", address)
    assert found.checkpoint == first
    assert found.metadata == metadata
    assert found.config == at("t", "", "a")
    assert found.parent_config is None
    assert not found.pending_writes
    await face.call("put", address, checkpoint("b", {}, {}), {}, {})
    assert (await face.call("get_tuple", at("t"))).parent_config == at("t", "", "a")


@CHECKS
async def latest(face: Face) -> None:
    """The latest checkpoint is the one that was put last, whatever its id"""
    config = at("t")
    for checkpoint_id in ("m", "z", "a"):
        config = await face.call("put", config, checkpoint(checkpoint_id, {}, {}), {}, {})
    assert (await face.call("get_tuple", at("t"))).checkpoint["id"] == "a"
    assert await ids(face, at("t")) == ["a", "z", "m"]


@CHECKS
async def by_id(face: Face) -> None:
    """Every checkpoint can be read by its id, with the values of its time"""
    chain = Chain(face, classic=True)
    names = [await chain.add({"n": n}) for n in range(4)]
    for n, name in enumerate(names):
        assert await chain.stored(name) == {"n": n}
    assert await face.call("get_tuple", at("t", "", "unknown")) is None


@CHECKS
async def unchanged(face: Face) -> None:
    """A channel that did not change keeps its value"""
    chain = Chain(face, classic=True)
    await chain.add({"big": "x" * 1000, "n": 0})
    for n in range(1, 4):
        await chain.add({"n": n})
    assert await chain.stored() == {"big": "x" * 1000, "n": 3}


@CHECKS
async def cleared(face: Face) -> None:
    """A channel that was cleared is absent, and None is a value"""
    chain = Chain(face, classic=True)
    first = await chain.add({"a": None, "b": 1})
    await chain.add({}, cleared=["a", "b"])
    assert await chain.stored() == {}
    assert await chain.stored(first) == {"a": None, "b": 1}


@CHECKS
async def unversioned(face: Face) -> None:
    """Values of channels without a version come back too"""
    await face.call("put", at("t"), checkpoint("a", {"loose": [1], "n": 2}, {"n": "1"}), {}, {})
    found = await face.call("get_tuple", at("t"))
    assert found.checkpoint["channel_values"] == {"loose": [1], "n": 2}
    assert found.checkpoint["channel_versions"] == {"n": "1"}


@CHECKS
async def number_versions(face: Face) -> None:
    """Versions may be numbers, and come back with their type"""
    await face.call(
        "put", at("t"), checkpoint("a", {"i": 1, "f": 2}, {"i": 1, "f": 1.0}), {}, {"i": 1, "f": 1.0}
    )
    found = (await face.call("get_tuple", at("t"))).checkpoint
    assert found["channel_values"] == {"i": 1, "f": 2}
    assert [type(version) for version in found["channel_versions"].values()] == [int, float]


@CHECKS
async def put_again(face: Face) -> None:
    """Putting the same checkpoint again changes nothing"""
    chain = Chain(face, classic=True)
    first = await chain.add({"n": 0, "l": [1]})
    saved, new = chain.next({"n": 1, "l": [1, 2]})
    for _ in range(2):
        await face.call("put", at("t", "", first), saved, {}, new)
    assert await ids(face, at("t")) == [saved["id"], first]
    assert await chain.stored() == {"n": 1, "l": [1, 2]}


@CHECKS
async def namespaces(face: Face) -> None:
    """Namespaces of a thread are apart, also where their ids are equal"""
    outer, inner = Chain(face, classic=True), Chain(face, ns="node:1|deep:2", classic=True)
    await outer.add({"n": "outer"})
    await inner.add({"n": "inner"})
    await outer.add({"n": "outer2"})
    assert await outer.stored() == {"n": "outer2"}
    assert await inner.stored() == {"n": "inner"}
    assert await ids(face, at("t", "node:1|deep:2")) == ["c0001"]
    everywhere = await face.call("list", {"configurable": {"thread_id": "t"}})
    assert [found.config["configurable"]["checkpoint_ns"] for found in everywhere] == [
        "",
        "node:1|deep:2",
        "",
    ]


@CHECKS
async def writes(face: Face) -> None:
    """Writes of tasks come back with their checkpoint, in the order of their tasks' paths"""
    chain = Chain(face, classic=True)
    first = await chain.add({"n": 0})
    here = at("t", "", first)
    await face.call("put_writes", here, [("b", [2]), ("b", None)], "task1", "~2")
    await face.call("put_writes", here, [("a", {"k": 1})], "task2", "~1")
    wanted = [("task2", "a", {"k": 1}), ("task1", "b", [2]), ("task1", "b", None)]
    assert (await chain.read()).pending_writes == wanted
    await chain.add({"n": 1})
    assert not (await chain.read()).pending_writes
    assert (await chain.read(first)).pending_writes == wanted


@CHECKS
async def writes_stay(face: Face) -> None:
    """A task's writes are saved once; only special writes are replaced"""
    chain = Chain(face, classic=True)
    here = at("t", "", await chain.add({}))
    for n in range(2):
        await face.call("put_writes", here, [("a", n)], "task")
        await face.call("put_writes", here, [("__resume__", [n])], "task")
    assert (await chain.read()).pending_writes == [("task", "__resume__", [1]), ("task", "a", 0)]


@CHECKS
async def writes_of_nothing(face: Face) -> None:
    """Writes are refused where their checkpoint is not stored"""
    with raises(ThreadDeletedError):
        await face.call("put_writes", at("t", "", "nowhere"), [("a", 1)], "task")
    with raises(InvalidArgumentError):
        await face.call("put_writes", at("t"), [("a", 1)], "task")
    assert await ids(face, None) == []


@CHECKS
async def listing(face: Face) -> None:
    """list gives the newest first, and limit, before and filter mean what they say, together too"""
    chain = Chain(face, classic=True)
    names = [await chain.add({"n": n}, metadata={"even": n % 2 == 0, "n": n}) for n in range(40)]
    names.reverse()
    assert await ids(face, at("t")) == names
    assert await ids(face, at("t"), limit=3) == names[:3]
    assert await ids(face, at("t"), limit=0) == []
    assert await ids(face, at("t"), before=at("t", "", names[5])) == names[6:]
    assert await ids(face, at("t"), before=at("t", "", names[5]), limit=2) == names[6:8]
    even = [name for n, name in enumerate(names) if n % 2 == 1]
    assert await ids(face, at("t"), filter={"even": True}) == even
    assert await ids(face, at("t"), filter={"even": True}, limit=4, before=at("t", "", even[2])) == even[3:7]
    assert await ids(face, at("t"), filter={"even": True, "n": 6}) == ["c0007"]
    assert await ids(face, at("t"), filter={"missing": 1}) == []
    assert await ids(face, at("t", "", names[4])) == [names[4]]
    values = [found.checkpoint["channel_values"]["n"] for found in await face.call("list", at("t"))]
    assert values == list(range(39, -1, -1))


@CHECKS
async def listing_threads(face: Face) -> None:
    """list without a thread covers all of them, those that changed last first"""
    for thread_id in ("a", "b", "c"):
        chain = Chain(face, thread_id, classic=True)
        await chain.add({}, metadata={"who": thread_id})
        await chain.add({}, metadata={"who": thread_id})
    found = await face.call("list", None)
    assert [each.metadata["who"] for each in found] == ["c", "c", "b", "b", "a", "a"]
    found = await face.call("list", None, filter={"who": "b"}, limit=1)
    assert [each.config["configurable"]["thread_id"] for each in found] == ["b"]


@CHECKS
async def bad_arguments(face: Face) -> None:
    """Arguments without a meaning are refused"""
    bad: list[tuple[Any, dict[str, Any]]] = [
        (at("t"), {"limit": -1}),
        (at("t"), {"limit": "3"}),
        (at("t"), {"limit": True}),
        (at("t"), {"filter": ["a"]}),
        (at("t"), {"filter": {1: 2}}),
        (at("t"), {"before": at("t")}),
        ({}, {}),
    ]
    for config, options in bad:
        with raises(InvalidArgumentError):
            await face.call("list", config, **options)
    no_checkpoints: list[Any] = [
        {},
        None,
        {"id": "a"},
        checkpoint("", {}, {}),
        {**checkpoint("a", {}, {}), "id": 7},
    ]
    for one in no_checkpoints:
        with raises(InvalidArgumentError):
            await face.call("put", at("t"), one, {}, {})
    assert await ids(face, None) == []
    for config in ({}, {"configurable": {}}, at(None), at(1.5), at(["t"])):
        with raises(InvalidArgumentError):
            await face.call("get_tuple", config)


@CHECKS
async def config_metadata(face: Face) -> None:
    """Metadata of the config is saved with the checkpoint, and nothing of configurable is"""
    config: Any = {**at("t", api_key="secret"), "metadata": {"user": "u", "step": 0}}
    await face.call("put", config, checkpoint("a", {}, {}), {"step": 7}, {})
    assert (await face.call("get_tuple", at("t"))).metadata == {"user": "u", "step": 7}


@CHECKS
async def refusal(face: Face) -> None:
    """What cannot be kept is refused with the channel's name, and nothing is written"""
    with raises(SerializationError) as refused:
        await face.call("put", at("t"), checkpoint("a", {"bad": print}, {"bad": "1"}), {}, {"bad": "1"})
    assert refused.error.channel == "bad"
    assert await ids(face, None) == []
    chain = Chain(face, classic=True)
    await chain.add({})
    with raises(SerializationError) as refused:
        await face.call("put_writes", at("t", "", chain.tip), [("ok", 1), ("bad", print)], "task")
    assert refused.error.channel == "bad"
    assert not (await chain.read()).pending_writes


@CHECKS
async def no_aliasing(face: Face) -> None:
    """Changing a value after it was put, or after it was read, changes nothing that is stored"""
    live: dict[str, Any] = {"k": [1]}
    chain = Chain(face, classic=True)
    await chain.add({"d": live})
    live["k"].append(2)
    found = await chain.stored()
    assert found == {"d": {"k": [1]}}
    found["d"]["k"].append(3)
    assert await chain.stored() == {"d": {"k": [1]}}


@CHECKS
async def deletion(face: Face) -> None:
    """A deleted thread is gone, in all namespaces, and other threads are not"""
    for thread_id, ns in (("t", ""), ("t", "sub:1"), ("other", "")):
        chain = Chain(face, thread_id, ns, classic=True)
        await chain.add({"n": 1, "l": [1, 2]})
        await face.call("put_writes", at(thread_id, ns, chain.tip), [("n", 1)], "task")
    await face.call("delete_thread", "t")
    await face.call("delete_thread", "never was")
    assert await face.call("get_tuple", at("t")) is None
    assert await face.call("get_tuple", at("t", "sub:1")) is None
    assert await ids(face, None) == ["c0001"]
    assert (await face.call("get_tuple", at("other"))).pending_writes == [("task", "n", 1)]


@CHECKS
async def deleted_stays(face: Face) -> None:
    """A late write cannot bring a deleted thread back, and a new run starts afresh"""
    chain = Chain(face, classic=True)
    tip = await chain.add({"n": 1, "l": [1]})
    await face.call("delete_thread", "t")
    with raises(ThreadDeletedError):
        await chain.add({"n": 2})
    with raises(ThreadDeletedError):
        await face.call("put_writes", at("t", "", tip), [("n", 2)], "task")
    assert await ids(face, None) == []
    afresh = Chain(face, classic=True)
    await afresh.add({"l": [7]})
    assert await afresh.stored() == {"l": [7]}
