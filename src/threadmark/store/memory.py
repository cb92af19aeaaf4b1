"""A store in the memory of this process, for tests, demos and caches.

It does everything that the other stores do, in the same way: the operations are theirs, and here they
run over dictionaries. A lock makes each operation atomic; a batch that fails is undone.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush, merge
from itertools import islice
from typing import Any, TypeVar

from threadmark._db.drive import drive
from threadmark._db.effects import Effect, Operation, Transaction
from threadmark._db.worker import run_apart
from threadmark.store.backend import Hit, Record, Source, View
from threadmark.store.checks import Count, Search
from threadmark.store.core import RecordStore
from threadmark.store.indexing import WHOLE_VALUE, Index, record_words
from threadmark.store.keywords import WordScores
from threadmark.store.namespaces import Span, encode_namespace
from threadmark.store.operations import Job
from threadmark.store.ops import IndexConfig, TTLConfig
from threadmark.store.vectors import VectorIndex

__all__ = ["InMemoryStore"]

T = TypeVar("T")

_HEAVY = 1_000
"""Searching more items than this is no work for an event loop."""


class InMemoryStore(RecordStore):
    """A store in memory, for sync and async callers.

    Args:
        index: How items are made searchable. Without it, queries look for words in whole values.
        ttl: How long items live.
        clock: Returns the time in seconds since 1970; for tests.
    """

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        checked = None if index is None else Index(index)
        self.index_config = index
        self._records = _Records(checked)
        self._lock = threading.Lock()
        super().__init__(self._records, index=checked, ttl=ttl, clock=clock, durable=False)

    def _perform(self, operation: Operation[T]) -> T:
        with self._lock:
            return drive(operation, self._records.effect)

    async def _aperform(self, operation: Operation[T], jobs: Sequence[Job] = ()) -> T:
        heavy = len(self._records) > _HEAVY and any(isinstance(job.request, (Search, Count)) for job in jobs)
        if heavy or not self._lock.acquire(blocking=False):
            return await run_apart(lambda: self._perform(operation))
        try:
            return drive(operation, self._records.effect)
        finally:
            self._lock.release()


class _Records:
    """The backend: records in dictionaries. The caller holds the store's lock."""

    shares_values = True

    def __init__(self, index: Index | None) -> None:
        self._fields = index.fields if index else WHOLE_VALUE
        self._vectors = VectorIndex(index.dims, index.distance) if index and index.dims else None
        self._spaces: dict[tuple[str, ...], dict[str, Record]] = {}
        self._names: list[bytes] = []
        self._namespaces: dict[bytes, tuple[str, ...]] = {}
        self._by_seq: dict[int, Record] = {}
        self._words: dict[int, Counter[str]] = {}
        self._due = _Due()
        self._version = 0
        self._undo: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._by_seq)

    def effect(self, effect: Effect) -> Any:
        """Perform the only effect there is in memory: a transaction is undone when it fails."""
        if not isinstance(effect, Transaction):
            raise TypeError(f"Nothing in memory performs {effect!r}.")
        try:
            return drive(effect.body, self.effect)
        except BaseException:
            for undo in reversed(self._undo):
                undo()
            raise
        finally:
            self._undo.clear()

    # Writing

    def next_version(self) -> Operation[int]:
        yield from ()
        self._version += 1
        return self._version

    def lock(self, places: Iterable[tuple[tuple[str, ...], str]]) -> Operation[None]:
        yield from ()

    def insert(self, record: Record, vectors: Any) -> Operation[None]:
        yield from ()
        self._put(record, vectors)
        self._undo.append(lambda: self._take(record))

    def replace(self, old: Record, new: Record, vectors: Any) -> Operation[None]:
        yield from ()
        before = self._vectors_of(old)
        self._put(new, vectors)
        self._undo.append(lambda: self._put(old, before))

    def remove(self, records: Sequence[Record]) -> Operation[None]:
        yield from ()
        for record in records:
            before = self._vectors_of(record)
            self._take(record)
            self._undo.append(partial(self._put, record, before))

    def touch(self, records: Sequence[Record], now: int) -> Operation[None]:
        yield from ()
        for record in records:
            there = self._by_seq.get(record.seq)
            if there is not None and there.version == record.version and there.ttl is not None:
                self._undo.append(partial(setattr, there, "expires_at", there.expires_at))
                there.expires_at = now + there.ttl

    def _put(self, record: Record, vectors: Any) -> None:
        space = self._spaces.get(record.namespace)
        if space is None:
            space = self._spaces[record.namespace] = {}
            name = encode_namespace(record.namespace)
            insort(self._names, name)
            self._namespaces[name] = record.namespace
        late = record.key not in space and bool(space) and next(reversed(space.values())).seq > record.seq
        space[record.key] = record
        if late:
            # An undone removal: back to its place in the order.
            self._spaces[record.namespace] = dict(sorted(space.items(), key=lambda entry: entry[1].seq))
        self._by_seq[record.seq] = record
        self._words.pop(record.seq, None)
        self._due.add(record)
        if self._vectors is not None:
            self._vectors.put(record.seq, encode_namespace(record.namespace), vectors)

    def _take(self, record: Record) -> None:
        space = self._spaces[record.namespace]
        del space[record.key]
        if not space:
            del self._spaces[record.namespace]
            name = encode_namespace(record.namespace)
            del self._names[bisect_left(self._names, name)]
            del self._namespaces[name]
        del self._by_seq[record.seq]
        self._words.pop(record.seq, None)
        if self._vectors is not None:
            self._vectors.drop(record.seq)

    def _vectors_of(self, record: Record) -> Any:
        return None if self._vectors is None else self._vectors.get(record.seq)

    # Reading

    def find(self, namespace: tuple[str, ...], key: str, *, for_update: bool) -> Operation[Record | None]:
        yield from ()
        return self._spaces.get(namespace, {}).get(key)

    def expired(self, now: int, limit: int) -> Operation[list[Record]]:
        yield from ()
        return self._due.until(now, limit, self._by_seq)

    def page(
        self, view: View, *, after: int | None, descending: bool, limit: int, offset: int
    ) -> Operation[list[Record]]:
        yield from ()
        runs = [reversed(run.values()) if descending else run.values() for run in self._below(view.span)]
        records: Iterator[Record] = (
            iter(runs[0])
            if len(runs) == 1
            else merge(*runs, key=lambda record: record.seq, reverse=descending)
        )
        if after is not None:
            records = (r for r in records if (r.seq < after if descending else r.seq > after))
        if view.filter is not None:
            accepts = view.filter
            records = (record for record in records if accepts(record.value))
        living = (record for record in records if record.alive(view.now))
        return list(islice(living, offset, offset + limit))

    def scan(self, view: View, resume: Any) -> Operation[tuple[list[Record], Any]]:
        yield from ()
        return list(self._living(view)), None

    def count(self, view: View) -> Operation[int]:
        yield from ()
        return sum(1 for _ in self._living(view))

    def namespaces(
        self, span: Span, now: int, after: tuple[str, ...], limit: int
    ) -> Operation[list[tuple[str, ...]]]:
        yield from ()
        first = max(bisect_left(self._names, span.low), bisect_right(self._names, encode_namespace(after)))
        names = self._names[first : bisect_left(self._names, span.high)]
        spaces = (self._namespaces[name] for name in names)
        living = (ns for ns in spaces if any(record.alive(now) for record in self._spaces[ns].values()))
        return list(islice(living, limit))

    def nearest(self, view: View, vector: Any) -> Source:
        ranked = () if self._vectors is None else self._vectors.ranked(vector, view.span)
        return self._hits(view, ranked)

    def matching(self, view: View, words: Sequence[str]) -> Source:
        scores = WordScores(words)
        for record in self._living(view):
            if record.fields != ():
                scores.add(record.seq, self._words_of(record))
        return self._hits(view, scores.ranked())

    def _hits(self, view: View, ranked: Iterable[tuple[int, float]]) -> Source:
        found = ((self._by_seq[seq], score) for seq, score in ranked)
        accepts = view.filter
        return _Hits(
            Hit(record, score, (-score, record.seq))
            for record, score in found
            if record.alive(view.now) and (accepts is None or accepts(record.value))
        )

    def _below(self, span: Span) -> list[dict[str, Record]]:
        names = self._names[bisect_left(self._names, span.low) : bisect_left(self._names, span.high)]
        return [self._spaces[self._namespaces[name]] for name in names]

    def _living(self, view: View) -> Iterator[Record]:
        return (r for space in self._below(view.span) for r in space.values() if r.alive(view.now))

    def _words_of(self, record: Record) -> Counter[str]:
        if record.seq not in self._words:
            self._words[record.seq] = Counter(record_words(record, self._fields))
        return self._words[record.seq]


class _Hits:
    """Hits that are known already, as a source."""

    def __init__(self, hits: Iterator[Hit]) -> None:
        self._hits = hits

    def more(self, count: int) -> Operation[list[Hit]]:
        yield from ()
        return list(islice(self._hits, count))


class _Due:
    """Which records expire when. A record that was refreshed is found at its old time, and moved."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int]] = []
        self._at: dict[int, int] = {}

    def add(self, record: Record) -> None:
        moment = record.expires_at
        if moment is not None and moment < self._at.get(record.seq, moment + 1):
            self._at[record.seq] = moment
            heappush(self._queue, (moment, record.seq))

    def until(self, now: int, limit: int, records: Mapping[int, Record]) -> list[Record]:
        expired: list[Record] = []
        while self._queue and self._queue[0][0] <= now and len(expired) < limit:
            moment, seq = heappop(self._queue)
            if self._at.get(seq) != moment:
                continue
            del self._at[seq]
            record = records.get(seq)
            if record is not None and not record.alive(now):
                expired.append(record)
            elif record is not None:
                self.add(record)
        return expired
