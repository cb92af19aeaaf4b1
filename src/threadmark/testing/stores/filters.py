"""Checks of the query language: one table of filters and what each accepts."""

from __future__ import annotations

from typing import Any

from threadmark.errors import InvalidArgumentError
from threadmark.testing.stores.harness import Subject, check, refuses

__all__ = ["CHECKS"]

NS = ("things",)

_VALUES: dict[str, dict[str, Any]] = {
    "one": {"n": 1, "s": "apple", "tags": ["a", "b"], "in": {"x": 1, "y": "z"}, "ok": True},
    "two": {"n": 2.5, "s": "Banana", "tags": [], "in": {"x": 1}, "ok": False},
    "ten": {"n": 10, "s": "10", "tags": ["b", ["c"]], "in": {}, "ok": None},
    "nine": {"n": 9, "s": "9", "tags": "abc", "in": {"x": {"deep": [{"k": 1}]}}},
    "text": {"n": "10", "s": "", "tags": [1, True, None], "ok": 1},
    "big": {"n": 2**70, "s": "我的", "tags": [1.0], "ok": "True"},
    "less": {"n": -(2**70) - 1, "s": "a\x00b", "in": None},
    "more": {"n": 2**70 + 1, "s": "a\ud800", "a.b": 1, "": {"": 5}, "$x": 1, 'q"\\': 7},
    "odd": {"back\\slash": 8, "new\nline": 9, "\ud800": 10, "n": False},
    "none": {},
}

# Each filter with the items that it accepts.
_ACCEPTED: list[tuple[dict[str, Any], str]] = [
    ({}, "one two ten nine text big less more odd none"),
    ({"n": 1}, "one"),
    ({"n": 1.0}, "one"),
    ({"n": 2**70}, "big"),
    ({"n": float(2**70)}, "big"),
    ({"n": 2.5}, "two"),
    ({"n": "10"}, "text"),
    ({"s": "我的"}, "big"),
    ({"s": "a\x00b"}, "less"),
    ({"s": "a"}, ""),
    ({"s": "a\ud800"}, "more"),
    ({"ok": True}, "one"),
    ({"ok": False}, "two"),
    ({"ok": 1}, "text"),
    ({"ok": None}, "ten"),
    ({"in": None}, "less"),
    ({"in": {"x": 1}}, "two"),
    ({"in": {}}, "ten"),
    ({"in.x": 1}, "one two"),
    ({"in.x.deep[0].k": 1}, "nine"),
    ({"in.x.deep[-1].k": 1}, "nine"),
    ({"in.x.deep[1]": None}, ""),
    ({"tags[0]": "b"}, "ten"),
    ({"tags": []}, "two"),
    ({"tags": ["a", "b"]}, "one"),
    ({"tags": ["b", "a"]}, ""),
    ({"tags": [True, True, None]}, ""),
    ({"a\\.b": 1}, "more"),
    ({"a.b": 1}, ""),
    ({"\\$x": 1}, "more"),
    ({'q"\\\\': 7}, "more"),
    ({"back\\\\slash": 8}, "odd"),
    ({"new\nline": {"$gte": 9}}, "odd"),
    ({"\ud800": {"$exists": True}}, "odd"),
    ({"new\nline": {"$exists": False}, "n": {"$exists": False}}, "none"),
    ({"n": 1, "s": "apple"}, "one"),
    ({"n": 1, "s": "pear"}, ""),
    ({"n": {"$eq": 9}}, "nine"),
    ({"in": {"$eq": {"x": 1}}}, "two"),
    ({"n": {"$ne": 1}}, "two ten nine text big less more odd none"),
    ({"ok": {"$ne": None}}, "one two nine text big less more odd none"),
    ({"n": {"$gt": 9}}, "ten big more"),
    ({"n": {"$gt": 2**70}}, "more"),
    ({"n": {"$gte": 9}}, "ten nine big more"),
    ({"n": {"$lt": 9}}, "one two less"),
    ({"n": {"$lte": 2.5}}, "one two less"),
    ({"n": {"$lt": -(2**70)}}, "less"),
    ({"n": {"$gt": 1, "$lt": 10}}, "two nine"),
    ({"n": {"$gt": "1"}}, "text"),
    ({"s": {"$gte": "9"}}, "one two nine big less more"),
    ({"s": {"$lt": "A"}}, "ten nine text"),
    ({"n": {"$in": [1, 9, "10"]}}, "one nine text"),
    ({"ok": {"$in": [True, None]}}, "one ten"),
    ({"in": {"$in": [{}, {"x": 1}]}}, "two ten"),
    ({"n": {"$in": []}}, ""),
    ({"n": {"$nin": [1, 9, 10]}}, "two text big less more odd none"),
    ({"n": {"$nin": []}}, "one two ten nine text big less more odd none"),
    ({"in": {"$exists": True}}, "one two ten nine less"),
    ({"in": {"$exists": False}}, "text big more odd none"),
    ({"in.x": {"$exists": True}}, "one two nine"),
    ({"in.x.y": {"$exists": False}}, "one two ten nine text big less more odd none"),
    ({"tags": {"$contains": "b"}}, "one ten nine"),
    ({"tags": {"$contains": ["c"]}}, "ten"),
    ({"tags": {"$contains": 1}}, "text big"),
    ({"tags": {"$contains": True}}, "text"),
    ({"tags": {"$contains": None}}, "text"),
    ({"in": {"$contains": {"x": 1}}}, "one two"),
    ({"in": {"$contains": {"x": 1, "y": "z"}}}, "one"),
    ({"in": {"$contains": {}}}, "one two ten nine"),
    ({"s": {"$contains": "an"}}, "two"),
    ({"n": {"$not": {"$gt": 1}}}, "one text less odd none"),
    ({"n": {"$not": 1}}, "two ten nine text big less more odd none"),
    ({"$not": {"n": 1}}, "two ten nine text big less more odd none"),
    ({"$not": {"$not": {"n": 1}}}, "one"),
    ({"$or": [{"n": 1}, {"s": "9"}]}, "one nine"),
    ({"$or": [{"n": 1}, {"s": {"$not": "9"}}]}, "one two ten text big less more odd none"),
    ({"$or": []}, ""),
    ({"$and": []}, "one two ten nine text big less more odd none"),
    ({"$and": [{"n": {"$gte": 1}}, {"ok": {"$exists": False}}]}, "nine more"),
    ({"n": {"$or": [1, {"$gt": 10}]}}, "one big more"),
    ({"n": {"$and": [{"$gt": 1}, {"$not": 9}]}}, "two ten big more"),
    ({"$or": [{"in.x": 1, "ok": True}, {"$and": [{"n": 10}, {"s": "10"}]}]}, "one ten"),
    ({"n' OR 1=1 --": 1}, ""),
    ({'x") OR ("1"="1': 1}, ""),
]

_REFUSED: list[Any] = [
    {"n": {"$foo": 1}},
    {"$foo": 1},
    {"$gt": 1},
    {"n": {"$gt": None}},
    {"n": {"$lt": [1]}},
    {"n": {"$gte": True}},
    {"n": {"$in": 1}},
    {"n": {"$nin": "abc"}},
    {"n": {"$exists": 1}},
    {"n": {"$eq": (1,)}},
    {"n": {"$eq": float("nan")}},
    {"n": object()},
    {"n": {"$gt": 1, "x": 2}},
    {"$or": {"n": 1}},
    {"$and": [1]},
    {"$not": [{"n": 1}]},
    {"tags[*]": 1},
    {"": 1},
    {"a..b": 1},
    {"a.": 1},
    {"[0]": 1},
    {1: 1},
    ["n"],
    "n",
]


@check("filters")
async def filters_accept(store: Subject) -> None:
    """Every filter accepts the same items on every store."""
    for key, value in _VALUES.items():
        await store.put(NS, key, value)
    for filter, accepted in _ACCEPTED:
        found = await store.keys(*NS, filter=filter)
        assert found == accepted.split(), f"{filter} accepted {found}, not {accepted}"
        assert await store.count(NS, filter=filter) == len(found), filter


@check("filters")
async def filters_that_are_not_understood_are_refused(store: Subject) -> None:
    """What a filter means is never guessed, and never ignored."""
    await store.put(NS, "k", {"n": 1})
    for filter in _REFUSED:
        await refuses(InvalidArgumentError, store.search(NS, filter=filter))
        await refuses(InvalidArgumentError, store.count(NS, filter=filter))
    nested: dict[str, Any] = {"n": 1}
    for _ in range(1_000):
        nested = {"$not": nested}
    await refuses(InvalidArgumentError, store.search(NS, filter=nested))


@check("filters")
async def filters_may_be_large(store: Subject) -> None:
    """A filter may name thousands of values."""
    await store.put(NS, "k", {"n": 4_999})
    await store.put(NS, "other", {"n": -1})
    assert await store.keys(*NS, filter={"n": {"$in": list(range(5_000))}}) == ["k"]
    assert await store.keys(*NS, filter={"$or": [{"n": n} for n in range(5_000)]}) == ["k"]
    assert await store.keys(*NS, filter={"$or": [{"$or": []}] * 5_000}) == []


CHECKS = (filters_accept, filters_that_are_not_understood_are_refused, filters_may_be_large)
