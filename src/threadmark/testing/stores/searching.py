"""Checks of search by meaning, by words and by both."""

from __future__ import annotations

from typing import Any

from threadmark.errors import EmbeddingError, InvalidArgumentError, StoreConflictError
from threadmark.store.base import PutOp, SearchOp
from threadmark.testing.stores.harness import Subject, check, embed, refuses

__all__ = ["CHECKS"]

NS = ("memories",)


def _index() -> Any:
    return {"embed": embed, "dims": 8, "fields": ["text"]}


def _many_fields() -> Any:
    return {"embed": embed, "dims": 8, "fields": ["title", "parts[*].text", "meta.note"]}


def _counting() -> Any:
    def counting(texts: list[str]) -> list[list[float]]:
        assert len(set(texts)) == len(texts), f"embedded twice: {texts}"
        seen.append(texts)
        return embed(texts)

    seen: list[list[str]] = []
    return {"embed": counting, "dims": 8, "fields": ["text", "more"]}


def _broken() -> Any:
    def broken(texts: list[str]) -> Any:
        return {
            "short": [[1.0] * 7 for _ in texts],
            "few": [[1.0] * 8 for _ in texts][1:],
            "nan": [[float("nan")] * 8 for _ in texts],
            "text": ["12345678" for _ in texts],
            "ragged": [[1.0], [1.0, 2.0]],
        }.get(texts[0], embed(texts))

    return {"embed": broken, "dims": 8, "fields": ["text"]}


@check("searching", index=_index)
async def the_nearest_come_first(store: Subject) -> None:
    """A query ranks items by meaning, and scores fall from the first to the last."""
    await store.put(NS, "tea", {"text": "tea tea"})
    await store.put((*NS, "pets"), "cats", {"text": "cat cat cat"})
    await store.put((*NS, "pets"), "both", {"text": "cat dog"})
    await store.put(NS, "dogs", {"text": "dog"})
    found = await store.search(NS, query="cat")
    assert [item.key for item in found] == ["cats", "both", "dogs", "tea"]
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)
    assert 0.99 < scores[0] <= 1.000001
    assert found[0].dict()["score"] == scores[0]
    assert await store.keys(*NS, query="dog", limit=2) == ["dogs", "both"]
    assert await store.keys(*NS, query="dog", limit=2, offset=1) == ["both", "tea"]
    assert await store.keys(*NS, "pets", query="tea") == ["both", "cats"]
    assert await store.keys("nobody", query="tea") == []


@check("searching", index=_index)
async def filters_come_before_ranking(store: Subject) -> None:
    """A filter or prefix takes nothing away from the limit: the best of what it accepts are found."""
    batch = [
        PutOp((*NS, str(n % 7)), f"k{n}", {"text": "cat " * (n % 5 + 1) + "dog", "n": n}) for n in range(200)
    ]
    await store.batch(batch)
    for search in (
        {"filter": {"n": {"$in": [3, 77, 150]}}},
        {"filter": {"n": {"$gte": 150}}},
        {"filter": {"n": {"$not": {"$lt": 198}}}},
        {"filter": {"n": -1}},
    ):
        every = await store.search(NS, query="cat", limit=200)
        accepted = {item.key for item in await store.search(NS, limit=200, **search)}
        expected = [item.key for item in every if item.key in accepted]
        assert await store.keys(*NS, query="cat", limit=10, **search) == expected[:10]
    below = [item for item in every if item.namespace == (*NS, "3")]
    assert await store.keys(*NS, "3", query="cat", limit=5) == [item.key for item in below[:5]]


@check("searching", index=_many_fields)
async def several_fields_score_by_the_best(store: Subject) -> None:
    """Each text of each field counts on its own, and an item is found once, by its best."""
    await store.put(NS, "parts", {"title": "tea", "parts": [{"text": "cat"}, {"text": "car"}, {"n": 1}]})
    await store.put(NS, "note", {"meta": {"note": "fish"}, "title": ""})
    await store.put(NS, "none", {"other": "cat car tea fish"})
    for query, best in (("cat", "parts"), ("car", "parts"), ("tea", "parts"), ("fish", "note")):
        found = await store.search(NS, query=query)
        assert sorted(item.key for item in found) == ["note", "parts"]
        assert found[0].key == best
        assert found[0].score > 0.99


@check("searching", index=_index)
async def puts_choose_their_fields(store: Subject) -> None:
    """`index` of a put takes the place of the store's fields; `False` leaves the item out."""
    await store.put(NS, "other", {"text": "cat", "name": "dog"}, index=["name"])
    await store.put(NS, "both", {"text": "cat", "name": "dog"}, index=["name", "text"])
    await store.put(NS, "out", {"text": "cat"}, index=False)
    for mode in ("semantic", "keyword", "hybrid"):
        assert set(await store.keys(*NS, query="dog", mode=mode)) == {"other", "both"}
    assert (await store.keys(*NS, query="cat"))[0] == "both"
    assert await store.keys(*NS, query="cat", mode="keyword") == ["both"]
    assert await store.keys(*NS) == ["other", "both", "out"]
    for index in (True, "text", [""], ["a..b"], [1]):
        await refuses(InvalidArgumentError, store.put(NS, "k", {"text": "cat"}, index=index))


@check("searching", index=_index)
async def indexes_follow_the_items(store: Subject) -> None:
    """A changed, un-indexed or deleted item is not found by what it said before."""
    await store.put(NS, "changed", {"text": "cat"})
    await store.put(NS, "hidden", {"text": "cat"})
    await store.put(NS, "deleted", {"text": "cat"})
    assert len(await store.search(NS, query="cat")) == 3
    await store.put(NS, "changed", {"text": "dog"})
    await store.put(NS, "hidden", {"text": "cat"}, index=False)
    await store.delete(NS, "deleted")
    (item,) = await store.search(NS, query="cat")
    assert item.key == "changed"
    assert item.score < 0.5
    assert await store.keys(*NS, query="cat", mode="keyword") == []
    assert await store.keys(*NS, query="dog", mode="keyword") == ["changed"]
    await store.put(NS, "deleted", {"text": "dog dog"})
    assert await store.keys(*NS, query="dog", mode="hybrid") == ["changed", "deleted"]


@check("searching", index=_index)
async def failed_batches_leave_indexes_alone(store: Subject) -> None:
    """What a failed batch would have indexed is not found, and what it would have dropped is."""
    await store.put(NS, "old", {"text": "cat"})
    batch = [
        PutOp(NS, "old", {"text": "dog"}),
        PutOp(NS, "new", {"text": "cat"}),
        SearchOp(NS, query="cat"),
        PutOp(NS, "new", {"text": "fish"}, if_absent=True),
    ]
    await refuses(StoreConflictError, store.batch(batch))
    for mode in ("semantic", "keyword", "hybrid"):
        assert await store.keys(*NS, query="cat", mode=mode) == ["old"]
    assert (await store.search(NS, query="cat"))[0].score > 0.99
    await store.put(NS, "next", {"text": "dog"})
    assert await store.keys(*NS, query="dog") == ["next", "old"]
    results = await store.batch([*batch[:3], SearchOp(NS, query="dog", mode="keyword")])
    assert [item.key for item in results[2]] == ["new", "old", "next"]
    assert {item.key for item in results[3]} == {"old", "next"}


@check("searching", index=_broken)
async def misbehaving_models_are_refused(store: Subject) -> None:
    """A vector of the wrong size, or none, is refused, and nothing is written."""
    for text in ("short", "few", "nan", "text", "ragged"):
        await refuses(EmbeddingError, store.put(NS, "k", {"text": text}))
    assert await store.count(()) == 0
    await store.put(NS, "k", {"text": "cat"})
    await refuses(EmbeddingError, store.search(NS, query="short"))


@check("searching", index=_counting)
async def texts_are_embedded_once(store: Subject) -> None:
    """A batch asks the model once, and for each distinct text once."""
    batch = [PutOp(NS, f"k{n}", {"text": "cat", "more": f"dog {n % 2}"}) for n in range(6)]
    await store.batch([*batch, PutOp(NS, "k9", {"text": ""}), PutOp(NS, "k0", None)])
    assert len(await store.search(NS, query="cat")) == 5


@check("searching", index=_index)
async def ranked_results_page(store: Subject) -> None:
    """Reading on from a cursor goes down the ranking, each item once."""
    await store.batch([PutOp(NS, f"k{n}", {"text": "cat " * (n % 4) + "dog"}) for n in range(30)])
    for mode in ("semantic", "keyword", "hybrid"):
        every = await store.keys(*NS, query="cat dog", mode=mode)
        assert len(every) == 30
        paged: list[str] = []
        page = await store.search(NS, query="cat dog", mode=mode, limit=7)
        while page:
            paged += [item.key for item in page]
            after = page[-1].cursor
            page = await store.search(NS, query="cat dog", mode=mode, limit=7, after=after)
        assert paged == every
        await refuses(InvalidArgumentError, store.search(NS, after=after))


@check("searching", index=_index)
async def hybrid_finds_by_either(store: Subject) -> None:
    """Hybrid search finds what either finds, and puts first what both find."""
    await store.put(NS, "meaning", {"text": "bikes and cars: bike car"})
    await store.put(NS, "both", {"text": "the car of Zoë"})
    await store.put(NS, "word", {"text": "Zoë"})
    found = await store.search(NS, query="car zoe", mode="hybrid")
    assert found[0].key == "both"
    assert {item.key for item in found} == {"meaning", "both", "word"}
    assert await store.keys(*NS, query="car zoe", mode="hybrid", filter={"text": "Zoë"}) == ["word"]


@check("searching", index=lambda: {"fields": ["text", "tags"]})
async def words_are_found(store: Subject) -> None:
    """An item is found by any of the words, whatever their case, accents and script."""
    await store.put(NS, "en", {"text": "The Quick-Brown fox_jumps", "tags": ["alpha", 42]})
    await store.put(NS, "de", {"text": "Müßiggang ist aller Laster Anfang", "hidden": "quick"})
    await store.put(NS, "zh", {"text": "我喜欢吃披萨"})
    await store.put((*NS, "x"), "ko", {"text": "한국어 문장", "tags": {"a": "beta"}})
    for query, keys in (
        ("QUICK", ["en"]),
        ("jumps!", ["en"]),
        ("42", ["en"]),
        ("mussiggang", ["de"]),
        ("披萨", ["zh"]),
        ("한국어", ["ko"]),
        ("beta alpha", ["en", "ko"]),
        ("quic", []),
        ("hidden", []),
        ("?!", []),
        ('" OR words : *', []),
        ("NOT NEAR AND", []),
    ):
        assert sorted(await store.keys(*NS, query=query, mode="keyword")) == sorted(keys), query
    assert await store.keys(*NS, "x", query="quick beta", mode="keyword") == ["ko"]
    found = await store.search(NS, query="fox anfang quick", mode="keyword")
    assert [item.key for item in found] == ["en", "de"]
    assert found[0].score > found[1].score > 0
    assert await store.keys(*NS, query="fox 我", mode="keyword", filter={"tags": {"$exists": True}}) == ["en"]


@check("searching")
async def queries_need_no_index(store: Subject) -> None:
    """Without an index, queries rank by the words of whole values, and the rest follows by age."""
    await store.put(NS, "a", {"fact": "Ann likes tea"})
    await store.put(NS, "b", {"fact": "Bob drives a car", "tags": ["red"]})
    await store.put(NS, "c", {"fact": "Eve has a cat"})
    await store.put(NS, "d", {"fact": "red red car"}, index=False)
    found = await store.search(NS, query="which car is red?")
    assert [item.key for item in found] == ["b", "a", "c", "d"]
    assert [item.score is None for item in found] == [False, True, True, True]
    assert await store.keys(*NS, query="car", limit=1) == ["b"]
    await refuses(InvalidArgumentError, store.search(NS, query="car", after=found[0].cursor))
    first = await store.search(NS, query="car", limit=2)
    assert await store.keys(*NS, query="car", after=first[-1].cursor) == ["c", "d"]
    assert await store.keys(*NS, query="car", mode="keyword") == ["b"]
    assert await store.keys(*NS, query="") == ["a", "b", "c", "d"]


@check("searching")
async def queries_are_checked(store: Subject) -> None:
    """A query that cannot be answered as asked is refused."""
    for search in (
        {"query": "cat", "mode": "semantic"},
        {"query": "cat", "mode": "hybrid"},
        {"query": "cat", "mode": "other"},
        {"query": 1},
        {"mode": "keyword"},
        {"query": "cat", "sort": "text"},
        {"query": "cat", "descending": True},
    ):
        await refuses(InvalidArgumentError, store.search(NS, **search))


CHECKS = (
    the_nearest_come_first,
    filters_come_before_ranking,
    several_fields_score_by_the_best,
    puts_choose_their_fields,
    indexes_follow_the_items,
    failed_batches_leave_indexes_alone,
    misbehaving_models_are_refused,
    texts_are_embedded_once,
    ranked_results_page,
    hybrid_finds_by_either,
    words_are_found,
    queries_need_no_index,
    queries_are_checked,
)
