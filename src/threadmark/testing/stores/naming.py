"""Checks of namespaces and keys: any characters, compared by segment, listed."""

from __future__ import annotations

import enum
from typing import Any

from threadmark.errors import InvalidArgumentError, InvalidNamespaceError
from threadmark.store.base import ListNamespacesOp, MatchCondition
from threadmark.store.checks import MAX_KEY_BYTES, MAX_NAMESPACE_BYTES
from threadmark.testing.stores.harness import Subject, check, refuses

__all__ = ["CHECKS", "HOSTILE_NAMESPACES"]

HOSTILE_NAMESPACES: tuple[tuple[str, ...], ...] = (
    ("a",),
    ("a", "b"),
    ("a", "b", "c"),
    ("a.b",),
    ("a:b", "c"),
    ("a", "b:c"),
    ("a/b",),
    ("a\x00",),
    ("a\x00b",),
    ("a\x00", "b"),
    ("a", "\x00b"),
    ("a", "\x00"),
    ("a", "\x00\x00"),
    ("a\xff",),
    ("a", "\xff"),
    ("a", "\U0010ffff"),
    ("a", "\ud800"),
    ("%",),
    ("a%",),
    ("_",),
    ("*",),
    ("a_b",),
    ("acme",),
    ("acme-corp",),
    ("acme corp",),
    ("'; DROP TABLE items; --",),
    ('"', "\\", "'"),
    ("$", "{}", "[]"),
    ("我", "的", "🙂"),
    ("langgraph",),
    ("A",),
    (" ",),
    ("\n",),
)
"""Namespaces that a careless comparison takes for one another. All different."""


class _Kind(enum.StrEnum):
    NOTES = "notes"


_BAD_NAMESPACES: tuple[Any, ...] = ((), ("",), ("a", ""), (1,), ("a", None), "ab", None, (["a"],), {"a"})
_BAD_KEYS: tuple[Any, ...] = (None, 1, b"k", ["k"])


@check("naming")
async def namespaces_are_kept_apart(store: Subject) -> None:
    """Namespaces of any characters are different whenever they are."""
    for number, namespace in enumerate(HOSTILE_NAMESPACES):
        await store.put(namespace, "k", {"n": number})
    for number, namespace in enumerate(HOSTILE_NAMESPACES):
        item = await store.get(namespace, "k")
        assert (item.namespace, item.value) == (namespace, {"n": number})
    assert await store.list_namespaces() == sorted(HOSTILE_NAMESPACES)


@check("naming")
async def prefixes_compare_segments(store: Subject) -> None:
    """A prefix search finds the namespaces that begin with its segments, and no others."""
    for namespace in HOSTILE_NAMESPACES:
        await store.put(namespace, "k", {})
    for prefix in ((), *HOSTILE_NAMESPACES):
        below = [ns for ns in HOSTILE_NAMESPACES if ns[: len(prefix)] == prefix]
        assert [item.namespace for item in await store.search(prefix, limit=100)] == below
        assert await store.count(prefix) == len(below)


@check("naming")
async def keys_are_kept_apart(store: Subject) -> None:
    """Keys of any characters are different whenever they are."""
    keys = ["", " ", "a", "A", "a\x00", "a\x00b", "%", "*", "'", "我", "\ud800", "\ud83d\ude00", "🙂"]
    for key in keys:
        await store.put(("ns",), key, {"key": key})
    for key in keys:
        assert (await store.get(("ns",), key)).value == {"key": key}
    assert await store.keys("ns") == keys


@check("naming")
async def names_are_checked_alike(store: Subject) -> None:
    """A namespace or key that is refused in a put is refused everywhere, and nothing is written."""
    for namespace in _BAD_NAMESPACES:
        await refuses(InvalidNamespaceError, store.put(namespace, "k", {}))
        await refuses(InvalidNamespaceError, store.get(namespace, "k"))
        await refuses(InvalidNamespaceError, store.delete(namespace, "k"))
        if namespace != ():
            await refuses(InvalidNamespaceError, store.search(namespace))
            await refuses(InvalidNamespaceError, store.count(namespace))
    for key in _BAD_KEYS:
        await refuses(InvalidArgumentError, store.put(("ns",), key, {}))
        await refuses(InvalidArgumentError, store.get(("ns",), key))
        await refuses(InvalidArgumentError, store.delete(("ns",), key))
    assert await store.count(()) == 0


@check("naming")
async def long_names_have_a_limit(store: Subject) -> None:
    """Names up to the limits work, and longer ones are refused."""
    key, namespace = "k" * MAX_KEY_BYTES, ("n" * (MAX_NAMESPACE_BYTES - 1),)
    await store.put(namespace, key, {"n": 1})
    assert (await store.get(namespace, key)).value == {"n": 1}
    await refuses(InvalidArgumentError, store.put(("ns",), f"{key}k", {}))
    await refuses(InvalidArgumentError, store.get(("ns",), "é" * MAX_KEY_BYTES))
    await refuses(InvalidNamespaceError, store.put((f"{namespace[0]}n",), "k", {}))


@check("naming")
async def lists_and_enums_name_namespaces(store: Subject) -> None:
    """A namespace may be given as a list, and a segment as a member of a `StrEnum`."""
    await store.put(["users", _Kind.NOTES], "k", {"n": 1})
    item = await store.get(("users", "notes"), "k")
    assert item.namespace == ("users", "notes")
    assert [type(segment) for segment in item.namespace] == [str, str]


@check("naming")
async def namespaces_are_listed(store: Subject) -> None:
    """Namespaces are listed sorted, each once, by prefix, suffix and depth."""
    spaces = [("b",), ("a", "x", "p"), ("a", "y", "p"), ("a", "y", "q"), ("a", "y", "q", "p")]
    for namespace in spaces:
        for key in ("1", "2"):
            await store.put(namespace, key, {})
    listed = store.list_namespaces
    assert await listed() == sorted(spaces)
    assert await listed(prefix=("a", "y")) == [("a", "y", "p"), ("a", "y", "q"), ("a", "y", "q", "p")]
    assert await listed(suffix=("p",)) == [("a", "x", "p"), ("a", "y", "p"), ("a", "y", "q", "p")]
    assert await listed(prefix=("a", "*", "p")) == [("a", "x", "p"), ("a", "y", "p")]
    assert await listed(prefix=["*"], suffix=["y", "*"]) == [("a", "y", "p"), ("a", "y", "q")]
    assert await listed(max_depth=2) == [("a", "x"), ("a", "y"), ("b",)]
    assert await listed(prefix=("nobody",)) == []
    assert await listed(limit=2) == [("a", "x", "p"), ("a", "y", "p")]
    assert await listed(limit=2, offset=4) == [("b",)]
    assert await listed(max_depth=1, limit=1, offset=1) == [("b",)]


@check("naming")
async def listing_is_checked(store: Subject) -> None:
    """Arguments of a listing that make no sense are refused."""
    for arguments in ({"limit": -1}, {"offset": "1"}, {"max_depth": 0}, {"prefix": "ab"}, {"suffix": (1,)}):
        await refuses(InvalidArgumentError, store.list_namespaces(**arguments))
    condition: Any = MatchCondition("middle", ("a",))  # type: ignore[arg-type]
    await refuses(InvalidArgumentError, store.batch([ListNamespacesOp((condition,))]))


CHECKS = (
    namespaces_are_kept_apart,
    prefixes_compare_segments,
    keys_are_kept_apart,
    names_are_checked_alike,
    long_names_have_a_limit,
    lists_and_enums_name_namespaces,
    namespaces_are_listed,
    listing_is_checked,
)
