"""How a search finds, orders and pages: over the small operations of a backend, for all of them.

A search takes hits from a *source*, in the order of the search, and keeps those that its filter
accepts and that come after its cursor, until it has enough. Sorting reads everything and keeps the
best few. This module writes nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from threadmark._db.effects import Operation
from threadmark.store.backend import Backend, Hit, Record, Source, View
from threadmark.store.checks import Search
from threadmark.store.cursors import Place, Position, read_cursor, sort_position
from threadmark.store.items import SearchItem
from threadmark.store.keywords import fused, query_words
from threadmark.store.namespaces import encode_text
from threadmark.store.paths import find
from threadmark.store.times import as_datetime
from threadmark.store.values import clone

__all__ = ["HYBRID_DEPTH", "found"]

HYBRID_DEPTH = 1_000
"""How many of the best by meaning, and of the best by words, a hybrid search combines."""

_LARGEST_PAGE = 4_096


def found(
    backend: Backend, search: Search, view: View, vector: Any, semantic: bool
) -> Operation[tuple[list[Record], list[SearchItem]]]:
    """Carry out a search.

    Args:
        backend: What keeps the records.
        search: The search.
        view: Which records it may see.
        vector: The query's vector, for modes that need it.
        semantic: Whether queries are ranked by meaning unless told otherwise.

    Returns:
        The records and the items that show them.
    """
    kind = search.mode or ("semantic" if semantic else "keyword+rest")
    order = search.order if search.query is None else _ranking(kind, search.query)
    after = None if search.after is None else read_cursor(search.after, order)
    if search.query is not None:
        hits = yield from _ranked(backend, search, view, vector, kind, after)
    elif search.sort is not None:
        hits = yield from _sorted(backend, search, view, after)
    else:
        hits = yield from _listed(backend, search, view, after)
    return [hit.record for hit in hits], [_item(hit, order, backend.shares_values) for hit in hits]


def _ranking(kind: str, query: str) -> str:
    return f"{kind}:{blake2b(encode_text(query), digest_size=8).hexdigest()}"


def _item(hit: Hit, order: str, shared: bool) -> SearchItem:
    record = hit.record
    return SearchItem(
        record.namespace,
        record.key,
        clone(record.value) if shared else record.value,
        as_datetime(record.created_at),
        as_datetime(record.updated_at),
        hit.score,
        version=record.version,
        place=Place(order, hit.position),
    )


# Without a query


def _listed(backend: Backend, search: Search, view: View, after: Position | None) -> Operation[list[Hit]]:
    start = None if after is None else after[-1]
    if search.filter is not None:
        listing = _Listing(backend, view, search.descending, start)
        return (yield from _collected(listing, _accepts(search, None), search.offset, search.limit))
    records = yield from backend.page(
        view, after=start, descending=search.descending, limit=search.limit, offset=search.offset
    )
    return [_listed_hit(record) for record in records]


def _listed_hit(record: Record) -> Hit:
    return Hit(record, None, (record.seq,))


class _Listing:
    """All records, by sequence number."""

    def __init__(self, backend: Backend, view: View, descending: bool, after: int | None) -> None:
        self._backend = backend
        self._view = view
        self._descending = descending
        self._after = after

    def more(self, count: int) -> Operation[list[Hit]]:
        records = yield from self._backend.page(
            self._view, after=self._after, descending=self._descending, limit=count, offset=0
        )
        if records:
            self._after = records[-1].seq
        return [_listed_hit(record) for record in records]


def _sorted(backend: Backend, search: Search, view: View, after: Position | None) -> Operation[list[Hit]]:
    choose = heapq.nlargest if search.descending else heapq.nsmallest
    accepts = _accepts(search, after)
    wanted = search.offset + search.limit
    best: list[Hit] = []
    resume: Any = None
    while True:
        records, resume = yield from backend.scan(view, resume)
        hits = (Hit(record, None, _sort_position(record, search.sort)) for record in records)
        best = choose(wanted, [*best, *filter(accepts, hits)], key=lambda hit: hit.position)
        if resume is None:
            return best[search.offset :]


def _sort_position(record: Record, sort: Any) -> Position:
    if isinstance(sort, str):
        return sort_position(getattr(record, sort[1:]), record.seq)
    return sort_position(find(record.value, sort), record.seq)


# With a query


def _ranked(
    backend: Backend, search: Search, view: View, vector: Any, kind: str, after: Position | None
) -> Operation[list[Hit]]:
    words = query_words(search.query or "")
    if kind == "hybrid":
        return (yield from _hybrid(backend, search, view, vector, words, after))
    source: Source
    if kind == "semantic":
        source = backend.nearest(view, vector)
    elif kind == "keyword":
        source = backend.matching(view, words)
    else:
        source = _ThenTheRest(backend.matching(view, words), _Listing(backend, view, False, None))
    return (yield from _collected(source, _accepts(search, after), search.offset, search.limit))


def _hybrid(
    backend: Backend,
    search: Search,
    view: View,
    vector: Any,
    words: list[str],
    after: Position | None,
) -> Operation[list[Hit]]:
    accepts = _accepts(search, None)
    near = yield from _collected(backend.nearest(view, vector), accepts, 0, HYBRID_DEPTH)
    said = yield from _collected(backend.matching(view, words), accepts, 0, HYBRID_DEPTH)
    records = {hit.record.seq: hit.record for hit in (*near, *said)}
    scores = fused([hit.record.seq for hit in hits] for hits in (near, said))
    hits = [Hit(records[seq], score, (-score, seq)) for seq, score in scores.items()]
    hits.sort(key=lambda hit: hit.position)
    if after is not None:
        hits = [hit for hit in hits if hit.position > after]
    return hits[search.offset : search.offset + search.limit]


class _ThenTheRest:
    """The hits of a source, and after them everything that is not among them, unscored."""

    def __init__(self, source: Source, rest: Source) -> None:
        self._source = source
        self._rest = rest
        self._seen: set[int] = set()
        self._ranking = True

    def more(self, count: int) -> Operation[list[Hit]]:
        if self._ranking:
            hits = yield from self._source.more(count)
            if hits:
                self._seen.update(hit.record.seq for hit in hits)
                return [hit._replace(position=(0, *hit.position)) for hit in hits]
            self._ranking = False
        while hits := (yield from self._rest.more(count)):
            new = [hit._replace(position=(1, 0, *hit.position)) for hit in hits]
            new = [hit for hit in new if hit.record.seq not in self._seen]
            if new:
                return new
        return []


# What both need


def _accepts(search: Search, after: Position | None) -> Callable[[Hit], bool]:
    accept, descending = search.filter, search.descending

    def accepts(hit: Hit) -> bool:
        if after is not None and (hit.position >= after if descending else hit.position <= after):
            return False
        return accept is None or accept(hit.record.value)

    return accepts


def _collected(
    source: Source, accepts: Callable[[Hit], bool], offset: int, limit: int
) -> Operation[list[Hit]]:
    """Take hits from a source until there are enough."""
    wanted = offset + limit
    kept: list[Hit] = []
    size = min(wanted, _LARGEST_PAGE)
    while len(kept) < wanted:
        hits = yield from source.more(size)
        if not hits:
            break
        kept += filter(accepts, hits)
        # What the filter leaves over is little, or it would have been enough: take more at once.
        size = min(size * 4, _LARGEST_PAGE)
    return kept[offset:wanted]
