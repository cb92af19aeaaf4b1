"""Names, ids and filters from outside may hold anything."""

from __future__ import annotations

from typing import Any

from threadmark.errors import InvalidArgumentError
from threadmark.testing.savers.face import Checks, Face, at, checkpoint, raises

__all__ = ["CHECKS"]

CHECKS = Checks("classic")

NAMES = [
    "'; DROP TABLE tm_threads; --",
    '"',
    "`",
    "%",
    "_",
    "*",
    "\\",
    "$.a",
    "a.b",
    "a|b:c",
    "[]",
    "null",
    "\n\t ",
    "é\u0301",
    "\U0001f9f5",
    "{}",
    "?",
    ":1",
    " ",
]


@CHECKS
async def names(face: Face) -> None:
    """Any text serves as an id, a namespace, a channel and a key, and is told from every other"""
    for name in NAMES:
        saved = checkpoint(name, {name: name, "l": [name]}, {name: "1", "l": name})
        await face.call("put", at(name, name), saved, {name: name}, saved["channel_versions"])
        await face.call("put_writes", at(name, name, name), [(name, name)], name, name)
    for name in NAMES:
        found = await face.call("get_tuple", at(name, name))
        assert found.checkpoint["channel_values"] == {name: name, "l": [name]}
        assert found.checkpoint["channel_versions"] == {name: "1", "l": name}
        assert found.pending_writes == [(name, name, name)]
        for filter in ({name: name}, {}):
            (listed,) = await face.call("list", {"configurable": {"thread_id": name}}, filter=filter)
            assert listed.checkpoint["id"] == name
        matching = await face.call("list", None, filter={name: name})
        assert [each.config["configurable"]["thread_id"] for each in matching] == [name]
    await face.call("delete_thread", "%")
    assert await face.call("get_tuple", at("_", "_")) is not None


@CHECKS
async def unstorable_names(face: Face) -> None:
    """What not every database can keep is no name: lone surrogates, NUL, very long texts"""
    for name in ("\ud800", "a\x00b", "x" * 100_000):
        for address in (at(name), at("t", name), at("t", "", name)):
            with raises(InvalidArgumentError):
                await face.call("get_tuple", address)
        saved = checkpoint("a", {name: 1}, {name: "1"})
        with raises(InvalidArgumentError):
            await face.call("put", at("t"), saved, {}, {name: "1"})
    assert await face.call("list", None) == []


@CHECKS
async def odd_values(face: Face) -> None:
    """Any text is a value: NUL, lone surrogates, very long ones"""
    values: dict[str, Any] = {
        "nul": "a\x00b",
        "half": "a\ud800b",
        "long": "x" * 3_000_000,
        "b": b"\x00\xff",
    }
    saved = checkpoint("a", values, dict.fromkeys(values, "1"))
    await face.call("put", at("t"), saved, {"m": "\x00"}, saved["channel_versions"])
    found = await face.call("get_tuple", at("t"))
    assert found.checkpoint["channel_values"] == values
    assert found.metadata == {"m": "\x00"}


@CHECKS
async def number_threads(face: Face) -> None:
    """A thread_id that is a number is the same as its text"""
    await face.call("put", at(1), checkpoint("a", {}, {}), {}, {})
    assert (await face.call("get_tuple", at("1"))).config == at("1", "", "a")
