"""Checks of single items: values, times, versions, conditions, batches."""

from __future__ import annotations

import enum
from typing import Any

from threadmark.errors import (
    InvalidArgumentError,
    InvalidNamespaceError,
    SerializationError,
    StoreConflictError,
)
from threadmark.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from threadmark.testing.stores.harness import Subject, check, refuses

__all__ = ["CHECKS"]

NS = ("users", "ann")


class _Level(enum.IntEnum):
    HIGH = 3


_DEEP: dict[str, Any] = {}
for _ in range(90):
    _DEEP = {"in": _DEEP}

_TAKEN: list[dict[str, Any]] = [
    {},
    {"": "", "a": None, "b": True, "c": False, "d": 0, "e": -0.0, "f": 1.0, "g": 1},
    {"list": [1, [2, [3, {}]], []], "dict": {"x": {"y": [None]}}},
    {"text": "naïve 我 🙂 \x00 \x1f \u2028 \\ \" ' \n", "lone": "a\ud83d\ude00\udfff", "\x00.$[": 1},
    {"big": 2**64, "bigger": -(10**3000), "small": 5e-324, "large": 1.7976931348623157e308},
    {"exact": 0.1 + 0.2, "whole": 1e16, "third": 1 / 3},
    _DEEP,
]
_REFUSED: list[Any] = [
    {"a": (1, 2)},
    {"a": {1}},
    {"a": b"bytes"},
    {"a": float("nan")},
    {"a": [float("inf")]},
    {"a": {1: 2}},
    {"a": object()},
    {"a": _Level.HIGH},
    {"a": 10**4000},
    ["a"],
    "a",
]


@check("items")
async def values_come_back(store: Subject) -> None:
    """A value comes back equal and of the same types."""
    for number, value in enumerate(_TAKEN):
        await store.put(NS, f"k{number}", value)
    found = {item.key: item.value for item in await store.search(NS, limit=100)}
    for number, value in enumerate(_TAKEN):
        for seen in ((await store.get(NS, f"k{number}")).value, found[f"k{number}"]):
            assert repr(seen) == repr(value), (seen, value)


@check("items")
async def others_are_refused(store: Subject) -> None:
    """A value that would not come back is refused, with the place inside it, and nothing is written."""
    await store.put(NS, "k", {"old": 1})
    for value in _REFUSED:
        await refuses(SerializationError, store.put(NS, "k", value))
        await refuses(SerializationError, store.put(NS, "new", value))
    error = await refuses(SerializationError, store.put(NS, "k", {"a": [{"b": (1,)}]}))
    assert "['a'][0]['b']" in str(error)
    await refuses(InvalidArgumentError, store.put(NS, "k", None))
    assert (await store.get(NS, "k")).value == {"old": 1}
    assert await store.count(()) == 1


@check("items")
async def values_are_copied(store: Subject) -> None:
    """Changing what was put, or what was got, changes nothing in the store."""
    value = {"tags": ["a"], "inner": {"n": 1}}
    await store.put(NS, "k", value)
    value["tags"].append("b")  # type: ignore[attr-defined]
    item = await store.get(NS, "k")
    item.value["inner"]["n"] = 2
    (found,) = await store.search(NS)
    found.value["tags"].clear()
    assert (await store.get(NS, "k")).value == {"tags": ["a"], "inner": {"n": 1}}


@check("items")
async def reading_creates_nothing(store: Subject) -> None:
    """Reading what is not there finds nothing and leaves nothing behind."""
    assert await store.get(NS, "k") is None
    assert await store.search(NS) == []
    assert await store.search(NS, filter={"a": 1}, sort="a") == []
    await store.delete(NS, "k")
    assert await store.count(()) == 0
    assert await store.list_namespaces() == []


@check("items")
async def items_know_their_times(store: Subject) -> None:
    """An item keeps the time of its creation, and knows when it was last put."""
    await store.put(NS, "k", {"n": 1})
    born = (await store.get(NS, "k")).created_at
    assert born.timestamp() == store.clock.now
    assert born.utcoffset().total_seconds() == 0
    store.clock.pass_minutes(1)
    await store.put(NS, "k", {"n": 2})
    for item in (await store.get(NS, "k"), (await store.search(NS))[0]):
        assert item.value == {"n": 2}
        assert item.created_at == born
        assert (item.updated_at - born).total_seconds() == 60


@check("items")
async def items_print(store: Subject) -> None:
    """`dict()` gives the item in a form that JSON can carry."""
    await store.put(NS, "k", {"n": 1})
    item = await store.get(NS, "k")
    shown = item.dict()
    assert list(shown) == ["value", "key", "namespace", "created_at", "updated_at"]
    assert shown["value"] == {"n": 1}
    assert (shown["key"], shown["namespace"]) == ("k", ["users", "ann"])
    assert shown["created_at"] == item.created_at.isoformat()
    (found,) = await store.search(NS)
    assert found.dict() == shown
    assert found.score is None


@check("items")
async def delete_removes(store: Subject) -> None:
    """A deleted item is gone; deleting it again, or another that is not there, does nothing."""
    await store.put(NS, "k", {"n": 1})
    await store.put(NS, "other", {"n": 1})
    for _ in range(2):
        await store.delete(NS, "k")
        assert await store.get(NS, "k") is None
    assert await store.keys(*NS) == ["other"]
    await store.delete(NS, "other")
    assert await store.list_namespaces() == []


@check("items")
async def put_tells_the_version(store: Subject) -> None:
    """Each put tells a version that is larger than all before, also of an item that was deleted."""
    versions = []
    for key in ("a", "b", "a"):
        versions.append(await store.put(NS, key, {}))
        assert (await store.get(NS, key)).version == versions[-1]
    await store.delete(NS, "a")
    versions.append(await store.put(NS, "a", {}))
    assert versions == sorted(set(versions))
    assert [item.version for item in await store.search(NS)] == [versions[1], versions[3]]


@check("items")
async def put_if_version(store: Subject) -> None:
    """A put with `if_version` writes only over that version; the loser changes nothing."""
    first = await store.put(NS, "k", {"n": 1})
    second = await store.put(NS, "k", {"n": 2}, if_version=first)
    error = await refuses(StoreConflictError, store.put(NS, "k", {"n": 3}, if_version=first))
    assert isinstance(error, StoreConflictError)
    assert (error.namespace, error.key, error.expected, error.found) == (NS, "k", first, second)
    await refuses(StoreConflictError, store.put(NS, "new", {}, if_version=first))
    assert (await store.get(NS, "k")).value == {"n": 2}
    await store.delete(NS, "k")
    await store.put(NS, "k", {"n": 4})
    await refuses(StoreConflictError, store.put(NS, "k", {}, if_version=second))
    assert await store.count(()) == 1


@check("items")
async def put_if_absent(store: Subject) -> None:
    """A put with `if_absent` writes only where nothing is."""
    await store.put(NS, "k", {"n": 1}, if_absent=True)
    error = await refuses(StoreConflictError, store.put(NS, "k", {"n": 2}, if_absent=True))
    assert isinstance(error, StoreConflictError)
    assert error.expected is None
    assert (await store.get(NS, "k")).value == {"n": 1}
    await refuses(InvalidArgumentError, store.put(NS, "k", {}, if_absent=True, if_version=1))


@check("items")
async def delete_if_version(store: Subject) -> None:
    """A delete with `if_version` removes only that version."""
    first = await store.put(NS, "k", {"n": 1})
    second = await store.put(NS, "k", {"n": 2})
    await refuses(StoreConflictError, store.delete(NS, "k", if_version=first))
    assert await store.get(NS, "k") is not None
    await store.delete(NS, "k", if_version=second)
    assert await store.get(NS, "k") is None


@check("items")
async def batches_run_in_order(store: Subject) -> None:
    """Each operation of a batch sees what those before it did."""
    results = await store.batch(
        [
            PutOp(NS, "a", {"n": 1}),
            GetOp(NS, "a"),
            PutOp(NS, "a", {"n": 2}, returning=True),
            PutOp(("users", "bob"), "b", {"n": 3}),
            SearchOp(("users",)),
            PutOp(NS, "a", None),
            GetOp(NS, "a"),
            ListNamespacesOp(),
        ]
    )
    assert results[0] is None
    assert results[1].value == {"n": 1}
    assert isinstance(results[2], int)
    assert [item.value["n"] for item in results[4]] == [2, 3]
    assert results[5:] == [None, None, [("users", "bob")]]
    assert await store.batch([]) == []


@check("items")
async def batches_are_atomic(store: Subject) -> None:
    """A batch that fails has done nothing."""
    for key in ("a", "b", "c"):
        await store.put(NS, key, {"n": 1})
    before = await store.search(())
    batch = [
        PutOp(NS, "a", None),
        PutOp(NS, "b", {"n": 2}),
        PutOp(("new",), "x", {}),
        PutOp(NS, "a", {"n": 3}),
        PutOp(NS, "c", {}, if_absent=True),
    ]
    await refuses(StoreConflictError, store.batch(batch))
    await refuses(InvalidNamespaceError, store.batch([*batch[:4], GetOp((), "k")]))
    after = await store.search(())
    assert [item.dict() for item in after] == [item.dict() for item in before]
    assert [item.version for item in after] == [item.version for item in before]
    assert await store.list_namespaces() == [NS]


CHECKS = (
    values_come_back,
    others_are_refused,
    values_are_copied,
    reading_creates_nothing,
    items_know_their_times,
    items_print,
    delete_removes,
    put_tells_the_version,
    put_if_version,
    put_if_absent,
    delete_if_version,
    batches_run_in_order,
    batches_are_atomic,
)
