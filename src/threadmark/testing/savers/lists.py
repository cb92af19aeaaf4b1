"""Lists come back right however they change: they are what is stored in the cleverest way."""

from __future__ import annotations

from typing import Any

from threadmark.testing.savers.face import Chain, Checks, Face

__all__ = ["CHECKS"]

CHECKS = Checks("classic")

CHANGES: list[list[Any]] = [
    [],
    ["a"],
    ["a", "b"],
    ["a", "b", "c", "d", "e"],
    ["c", "d", "e"],
    ["c", "d", "e", "f"],
    ["c", "X", "e", "f"],
    ["c", "e", "f", "g"],
    ["e", "c", "g", "f"],
    ["f", "f", "f"],
    ["f", "f", "f", None, {"k": [1]}, ["f"]],
    [],
    ["again"],
    [1, True, 1.0, "1"],
]


async def check_all(chain: Chain, wanted: dict[str, list[Any]]) -> None:
    """Read every version and compare, types included."""
    for name, value in wanted.items():
        found = (await chain.stored(name))["l"]
        assert repr(found) == repr(value), f"{name}: {found!r} is stored, not {value!r}"


@CHECKS
async def any_change(face: Face) -> None:
    """Every version of a list comes back, whether it grew, shrank, or was changed in the middle"""
    chain = Chain(face, classic=True)
    await check_all(chain, {await chain.add({"l": value}): value for value in CHANGES})


@CHECKS
async def in_place(face: Face) -> None:
    """A list or an item that was changed in place is stored as changed"""
    chain = Chain(face, classic=True)
    live: list[Any] = [{"n": 1}, {"n": 2}]
    first = await chain.add({"l": live})
    live[0]["n"] = 9
    live.append({"n": 3})
    second = await chain.add({"l": live})
    await check_all(chain, {first: [{"n": 1}, {"n": 2}], second: [{"n": 9}, {"n": 2}, {"n": 3}]})


@CHECKS
async def forks(face: Face) -> None:
    """Branches of a list do not disturb each other"""
    chain = Chain(face, classic=True)
    base = await chain.add({"l": [1, 2]})
    wanted: dict[str, list[Any]] = {base: [1, 2]}
    for n in range(4):
        branch = Chain(face, classic=True)
        branch.tip, branch.values, branch.versions = base, {"l": [1, 2]}, dict(chain.versions)
        branch.name = f"branch{n}-"
        values: list[list[Any]] = [[1, 2, n], [1, 2, n, n], [2, n, n, "end"]]
        for value in values:
            wanted[await branch.add({"l": value})] = value
    await check_all(chain, wanted)


@CHECKS
async def changing_kind(face: Face) -> None:
    """A channel may hold a list, then something else, then a list again"""
    chain = Chain(face, classic=True)
    values: list[Any] = [[1], "text", [1, 2], None, [1, 2, 3], (1, 2), {"l": 1}, [3]]
    await check_all(chain, {await chain.add({"l": value}): value for value in values})


@CHECKS
async def long_list(face: Face) -> None:
    """A list of some hundred items that is edited at many places stays right"""
    chain = Chain(face, classic=True)
    value: list[Any] = [f"item {n}" for n in range(300)]
    wanted = {await chain.add({"l": value}): value}
    for n in range(45):
        value = [*value[: n * 6], f"edit {n}", *value[n * 6 + 1 :], f"new {n}"]
        wanted[await chain.add({"l": value})] = value
    await check_all(chain, wanted)
