"""Checks of the time to live. The store is opened with a clock that the check moves."""

from __future__ import annotations

from typing import Any

from threadmark.errors import InvalidArgumentError, StoreConflictError
from threadmark.store.base import GetOp, PutOp, SearchOp
from threadmark.testing.stores.harness import Subject, check, embed, refuses

__all__ = ["CHECKS"]

NS = ("sessions",)


def _index() -> Any:
    return {"embed": embed, "dims": 8, "fields": ["text"]}


@check("expiry")
async def items_expire(store: Subject) -> None:
    """An expired item is gone from its moment on, whichever way one looks for it."""
    await store.put((*NS, "short"), "k", {"n": 1}, ttl=2)
    await store.put(NS, "stays", {"n": 1})
    store.clock.pass_minutes(1.999)
    assert await store.get((*NS, "short"), "k") is not None
    assert await store.keys(*NS) == ["k", "stays"]
    store.clock.pass_minutes(0.001)
    assert await store.get((*NS, "short"), "k") is None
    assert await store.keys(*NS) == ["stays"]
    assert await store.keys(*NS, descending=True) == ["stays"]
    assert await store.keys(*NS, "short") == []
    assert await store.keys(*NS, filter={"n": 1}) == ["stays"]
    assert await store.keys(*NS, sort="n") == ["stays"]
    assert await store.keys(*NS, query="anything", mode=None) == ["stays"]
    assert await store.count(NS) == 1
    assert await store.count(NS, filter={"n": 1}) == 1
    assert await store.list_namespaces() == [NS]


@check("expiry", index=_index)
async def items_expire_from_indexes(store: Subject) -> None:
    """An expired item is not found by a query, in any mode."""
    await store.put(NS, "k", {"text": "a cat"}, ttl=2)
    await store.put(NS, "stays", {"text": "a cat and a dog"})
    for mode in ("semantic", "keyword", "hybrid"):
        assert set(await store.keys(*NS, query="cat", mode=mode)) == {"k", "stays"}
    store.clock.pass_minutes(2)
    for mode in ("semantic", "keyword", "hybrid"):
        assert await store.keys(*NS, query="cat", mode=mode) == ["stays"]


@check("expiry")
async def expired_items_are_absent(store: Subject) -> None:
    """A put finds nothing where an item has expired, and makes a new one."""
    old = await store.put(NS, "k", {"n": 1}, ttl=1)
    await store.put(NS, "later", {})
    store.clock.pass_minutes(1)
    await refuses(StoreConflictError, store.put(NS, "k", {}, if_version=old))
    await refuses(StoreConflictError, store.delete(NS, "k", if_version=old))
    await store.put(NS, "k", {"n": 2}, if_absent=True)
    item = await store.get(NS, "k")
    assert item.value == {"n": 2}
    assert item.created_at.timestamp() == store.clock.now
    assert await store.keys(*NS) == ["later", "k"]
    store.clock.pass_minutes(100)
    assert await store.get(NS, "k") is not None


@check("expiry", ttl={"default_ttl": 10})
async def the_default_applies(store: Subject) -> None:
    """A put without `ttl` takes the store's default; `None` means for ever; each put starts anew."""
    await store.put(NS, "default", {})
    await store.put(NS, "never", {}, ttl=None)
    await store.put(NS, "short", {}, ttl=1)
    await store.put(NS, "renewed", {})
    store.clock.pass_minutes(1)
    assert await store.keys(*NS) == ["default", "never", "renewed"]
    await store.put(NS, "renewed", {})
    store.clock.pass_minutes(9)
    assert await store.keys(*NS) == ["never", "renewed"]
    await store.put(NS, "renewed", {}, ttl=None)
    store.clock.pass_minutes(1e6)
    assert await store.keys(*NS) == ["never", "renewed"]


@check("expiry")
async def reading_refreshes_if_asked(store: Subject) -> None:
    """Reading starts the time anew where it was asked to, and only there."""
    for key in ("got", "searched", "left"):
        await store.put(NS, key, {"key": key}, ttl=10)
    await store.put(NS, "for ever", {})
    store.clock.pass_minutes(9)
    await store.get(NS, "got", refresh_ttl=True)
    await store.get(NS, "for ever", refresh_ttl=True)
    await store.search(NS, filter={"key": "searched"}, refresh_ttl=True)
    await store.get(NS, "left")
    await store.get(NS, "left", refresh_ttl=False)
    await store.search(NS, limit=100)
    store.clock.pass_minutes(1)
    assert await store.keys(*NS) == ["got", "searched", "for ever"]
    store.clock.pass_minutes(9)
    assert await store.keys(*NS) == ["for ever"]
    assert await store.get(NS, "got", refresh_ttl=True) is None


@check("expiry", ttl={"default_ttl": 10, "refresh_on_read": True})
async def reading_refreshes_if_configured(store: Subject) -> None:
    """A store can be configured to refresh on every read, and a read can say no."""
    for key in ("got", "searched", "batched", "left"):
        await store.put(NS, key, {"key": key})
    store.clock.pass_minutes(9)
    await store.get(NS, "got")
    await store.search(NS, filter={"key": "searched"})
    await store.batch([GetOp(NS, "batched"), PutOp(("other",), "k", {})])
    await store.get(NS, "left", refresh_ttl=False)
    await store.batch([SearchOp(NS, refresh_ttl=False), GetOp(NS, "left", refresh_ttl=False)])
    store.clock.pass_minutes(9)
    assert await store.keys(*NS, refresh_ttl=False) == ["got", "searched", "batched"]


@check("expiry")
async def times_to_live_are_checked(store: Subject) -> None:
    """A time to live is a positive number of minutes."""
    for ttl in (0, -1, float("nan"), float("inf"), "1", True, 1e300):
        await refuses(InvalidArgumentError, store.put(NS, "k", {}, ttl=ttl))
    assert await store.count(()) == 0
    await store.put(NS, "k", {}, ttl=0.5)
    store.clock.pass_minutes(0.49)
    assert await store.get(NS, "k") is not None


@check("expiry")
async def sweeping_removes(store: Subject) -> None:
    """Sweeping removes what has expired, tells how much, and touches nothing else."""
    await store.put(NS, "stays", {})
    await store.put(NS, "long", {}, ttl=100)
    await store.batch([PutOp(NS, f"k{number}", {}, ttl=1) for number in range(600)])
    await store.put(NS, "k0", {}, ttl=100)
    await store.put(NS, "long", {}, ttl=1)
    store.clock.pass_minutes(1)
    assert await store.sweep_ttl() == 600
    assert await store.sweep_ttl() == 0
    assert await store.keys(*NS) == ["stays", "k0"]


CHECKS = (
    items_expire,
    items_expire_from_indexes,
    expired_items_are_absent,
    the_default_applies,
    reading_refreshes_if_asked,
    reading_refreshes_if_configured,
    times_to_live_are_checked,
    sweeping_removes,
)
