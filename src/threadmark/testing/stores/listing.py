"""Checks of searches without a query: order, sorting, paging, counting."""

from __future__ import annotations

from threadmark.errors import InvalidArgumentError
from threadmark.testing.stores.harness import Subject, check, refuses

__all__ = ["CHECKS"]

NS = ("notes",)


async def _fill(store: Subject, count: int) -> None:
    for number in range(count):
        await store.put((*NS, str(number % 3)), f"k{number}", {"n": number, "odd": number % 2 == 1})


@check("listing")
async def oldest_come_first(store: Subject) -> None:
    """Without a query, items come in the order in which they were created, newest last."""
    await store.put(("b",), "1", {})
    await store.put(("a",), "2", {})
    await store.put(("b",), "0", {})
    await store.put(("a", "x"), "3", {})
    assert await store.keys() == ["1", "2", "0", "3"]
    await store.put(("b",), "1", {"again": True})
    assert await store.keys() == ["1", "2", "0", "3"]
    await store.delete(("b",), "1")
    await store.put(("b",), "1", {})
    assert await store.keys() == ["2", "0", "3", "1"]
    assert await store.keys("b") == ["0", "1"]
    assert await store.keys(descending=True) == ["1", "3", "0", "2"]


@check("listing")
async def limit_and_offset_cut(store: Subject) -> None:
    """`limit` and `offset` cut a piece out of the result, with and without a filter."""
    await _fill(store, 25)
    every = [f"k{number}" for number in range(25)]
    assert len(await store.search(NS)) == 10
    for offset, limit in ((0, 3), (5, 10), (20, 10), (30, 5), (0, 0)):
        cut = slice(offset, offset + limit)
        assert await store.keys(*NS, limit=limit, offset=offset) == every[cut]
        assert await store.keys(*NS, limit=limit, offset=offset, descending=True) == every[::-1][cut]
        odd = await store.keys(*NS, filter={"odd": True}, limit=limit, offset=offset)
        assert odd == every[1::2][cut]
    for arguments in ({"limit": -1}, {"limit": True}, {"limit": None}, {"offset": -1}, {"offset": 2.0}):
        await refuses(InvalidArgumentError, store.search(NS, **arguments))


async def _all_pages(store: Subject, **search: object) -> list[str]:
    keys: list[str] = []
    page = await store.search(NS, limit=4, **search)
    while page:
        keys += [item.key for item in page]
        page = await store.search(NS, limit=4, after=page[-1].cursor, **search)
    return keys


@check("listing")
async def cursors_page(store: Subject) -> None:
    """Reading on from a cursor returns every item once, in any order of the search."""
    await _fill(store, 23)
    for search in (
        {},
        {"descending": True},
        {"filter": {"odd": True}},
        {"sort": "odd"},
        {"sort": "n", "descending": True},
        {"sort": "missing"},
        {"sort": "$key", "filter": {"n": {"$lt": 15}}},
        {"sort": "$created_at"},
        {"sort": "$updated_at", "descending": True},
    ):
        assert await _all_pages(store, **search) == await store.keys(*NS, **search)


@check("listing")
async def cursors_stand_changes(store: Subject) -> None:
    """Items that come and go between pages move no other item from page to page."""
    await _fill(store, 12)
    page = await store.search(NS, limit=6)
    await store.delete(page[1].namespace, page[1].key)
    await store.delete(page[-1].namespace, page[-1].key)
    await store.put((*NS, "2"), "k8", {"again": True})
    await store.put(NS, "new", {})
    rest = await store.keys(*NS, after=page[-1].cursor)
    assert rest == ["k6", "k7", "k8", "k9", "k10", "k11", "new"]


@check("listing")
async def foreign_cursors_are_refused(store: Subject) -> None:
    """A cursor that belongs to another search, or is none, is refused."""
    await _fill(store, 3)
    by_age = (await store.search(NS))[0].cursor
    by_field = (await store.search(NS, sort="n"))[0].cursor
    for cursor, search in (
        (by_field, {}),
        (by_age, {"sort": "n"}),
        (by_age, {"descending": True}),
        (by_field, {"sort": "odd"}),
        (by_age, {"offset": 1}),
        ("", {}),
        ("nonsense", {}),
        ("WyJsaXN0OnVwIiwieCJd", {}),
        ("WyJsaXN0OnVwIl0=", {}),
        ("bnVsbA==", {}),
        ("WyJsaXN0OnVwIixJbmZpbml0eV0=", {}),
        (12, {}),
    ):
        await refuses(InvalidArgumentError, store.search(NS, after=cursor, **search))


@check("listing")
async def fields_sort(store: Subject) -> None:
    """Sorting puts missing first, then `None`, booleans, numbers, texts and the rest; equals by age."""
    values = [[1], "b", 2**70, 1.5, None, True, "a", 2, False, {"x": 1}, 2.0, "B", -(2**70)]
    for number, value in enumerate(values):
        await store.put(NS, f"k{number}", {"a": {"b": value}})
    await store.put(NS, "none", {"a": 1})
    order = ["none", "k4", "k8", "k5", "k12", "k3", "k7", "k10", "k2", "k11", "k6", "k1", "k0", "k9"]
    assert await store.keys(*NS, sort="a.b") == order
    assert await store.keys(*NS, sort="a.b", descending=True) == order[::-1]
    assert await store.keys(*NS, sort="a.b", limit=3, offset=2) == order[2:5]
    for sort in ("", "$", "a[*]", "$nothing", 1, ["n"]):
        await refuses(InvalidArgumentError, store.search(NS, sort=sort))


@check("listing")
async def facts_sort(store: Subject) -> None:
    """Items sort by key and by their times."""
    for key in ("b", "c", "a"):
        await store.put(NS, key, {})
        store.clock.pass_minutes(1)
    await store.put(NS, "b", {"again": True})
    assert await store.keys(*NS, sort="$key") == ["a", "b", "c"]
    assert await store.keys(*NS, sort="$created_at") == ["b", "c", "a"]
    assert await store.keys(*NS, sort="$updated_at") == ["c", "a", "b"]


@check("listing")
async def items_are_counted(store: Subject) -> None:
    """Counting agrees with searching."""
    await _fill(store, 25)
    assert await store.count(()) == 25
    assert await store.count((*NS, "0")) == 9
    assert await store.count(NS, filter={"odd": True}) == 12
    assert await store.count(NS, filter={"n": {"$gte": 100}}) == 0
    assert await store.count(("nobody",)) == 0


CHECKS = (
    oldest_come_first,
    limit_and_offset_cut,
    cursors_page,
    cursors_stand_changes,
    foreign_cursors_are_refused,
    fields_sort,
    facts_sort,
    items_are_counted,
)
