"""The SQLite backend: records in a table, their words in FTS5, their vectors in a table beside.

What a statement says is in `statements`; this module decides which ones an operation needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from threadmark._db.effects import Execute, ExecuteMany, Operation
from threadmark.store.backend import Record, Source, View
from threadmark.store.indexing import Index, record_words
from threadmark.store.namespaces import Span, encode_namespace, encode_text
from threadmark.store.sqlite import statements as sql
from threadmark.store.sqlite.nearest import Nearest, VectorCache
from threadmark.store.sqlite.prefilter import narrowed
from threadmark.store.sqlite.rows import StoredRecord, read_namespace, read_record, read_records, written
from threadmark.store.sqlite.words import Indexed, Scanned, space_names
from threadmark.store.vectors import numpy

__all__ = ["SqliteBackend"]

_SCANNED_AT_ONCE = 1_000
_BEFORE_ALL = -(2**63)
_AFTER_ALL = 2**63 - 1


class SqliteBackend:
    """Records in a SQLite file.

    Args:
        index: The store's index, if it has one.
    """

    shares_values = False

    def __init__(self, index: Index | None) -> None:
        self._index = index
        self._cache = VectorCache(index) if index and index.dims else None

    # Writing

    def next_version(self) -> Operation[int]:
        rows = yield Execute(sql.NEXT_VERSION)
        return rows[0][0]  # type: ignore[no-any-return]

    def insert(self, record: Record, vectors: Any) -> Operation[None]:
        vectors_at = None if vectors is None else record.version
        has_words = yield from self._add_to_indexes(record, vectors_at, vectors)
        address = encode_namespace(record.namespace), encode_text(record.key)
        yield Execute(sql.INSERT, (*written(record, vectors_at, has_words), record.created_at, *address))

    def replace(self, old: Record, new: Record, vectors: Any) -> Operation[None]:
        yield from self._drop_from_indexes(old)
        vectors_at = None
        if vectors is not None:
            # Caches read what has a new version, so vectors need one even if the record does not.
            vectors_at = new.version if new.version != old.version else (yield from self.next_version())
        has_words = yield from self._add_to_indexes(new, vectors_at, vectors)
        yield Execute(sql.REPLACE, written(new, vectors_at, has_words))

    def remove(self, records: Sequence[Record]) -> Operation[None]:
        for record in records:
            yield from self._drop_from_indexes(record)
        yield ExecuteMany(sql.REMOVE, [(record.seq,) for record in records])

    def lock(self, places: Iterable[tuple[tuple[str, ...], str]]) -> Operation[None]:
        # Only one transaction writes at a time.
        yield from ()

    def touch(self, records: Sequence[Record], now: int) -> Operation[None]:
        yield ExecuteMany(sql.TOUCH, [(now, record.seq, record.version) for record in records])

    def _add_to_indexes(self, record: Record, vectors_at: int | None, vectors: Any) -> Operation[bool]:
        if vectors_at is not None:
            data = numpy().ascontiguousarray(vectors, "<f4").tobytes()
            yield Execute(sql.ADD_VECTORS, (vectors_at, record.seq, vectors.shape[1], data))
        words = record_words(record, self._index.fields) if self._index else []
        if words:
            yield Execute(sql.ADD_WORDS, (record.seq, space_names(record.namespace), " ".join(words)))
        return bool(words)

    def _drop_from_indexes(self, record: Record) -> Operation[None]:
        # All records that an operation hands back came from here.
        stored = cast("StoredRecord", record)
        if stored.vectors_at is not None:
            yield Execute(sql.DROP_VECTORS, (stored.vectors_at,))
        if stored.has_words:
            yield Execute(sql.DROP_WORDS, (stored.seq,))

    # Reading

    def find(self, namespace: tuple[str, ...], key: str, *, for_update: bool) -> Operation[Record | None]:
        rows = yield Execute(sql.FIND, (encode_namespace(namespace), encode_text(key)))
        return read_record(rows[0]) if rows else None

    def expired(self, now: int, limit: int) -> Operation[list[Record]]:
        rows = yield Execute(sql.EXPIRED, (now, limit))
        return list(read_records(rows))

    def page(
        self, view: View, *, after: int | None, descending: bool, limit: int, offset: int
    ) -> Operation[list[Record]]:
        reach, spaces = yield from self._reach(view.span)
        condition = narrowed(view.filter)
        if after is None:
            after = _AFTER_ALL if descending else _BEFORE_ALL
        rows = yield Execute(
            sql.PAGE[reach, descending].format(narrowed=condition.sql),
            (*spaces, view.now, after, *condition.params, limit, offset),
        )
        return list(read_records(rows))

    def _reach(self, span: Span) -> Operation[tuple[str, tuple[bytes, ...]]]:
        """Return how many namespaces are in a span, and what to bind for them."""
        if not span.low:
            return "all", span
        first, last = (yield Execute(sql.ENDS, (*span, *span)))[0]
        return ("one", (span.low if first is None else first,)) if first == last else ("some", span)

    def scan(self, view: View, resume: Any) -> Operation[tuple[list[Record], Any]]:
        condition = narrowed(view.filter)
        start = (b"", b"") if resume is None else resume
        rows = yield Execute(
            sql.SCAN.format(narrowed=condition.sql),
            (*view.span, view.now, *start, *condition.params, _SCANNED_AT_ONCE),
        )
        end = len(rows) < _SCANNED_AT_ONCE
        return list(read_records(rows)), None if end else (rows[-1][1], rows[-1][2])

    def count(self, view: View) -> Operation[int]:
        rows = yield Execute(sql.COUNT, (*view.span, view.now))
        return rows[0][0]  # type: ignore[no-any-return]

    def namespaces(
        self, span: Span, now: int, after: tuple[str, ...], limit: int
    ) -> Operation[list[tuple[str, ...]]]:
        rows = yield Execute(sql.NAMESPACES, (encode_namespace(after), *span, now, limit))
        return [read_namespace(name) for (name,) in rows]

    def nearest(self, view: View, vector: Any) -> Source:
        if self._index is None or self._cache is None:
            raise TypeError("There is no embedding model; core refuses the search.")
        # What a transaction has written is undone if it fails, and must not stay in the cache.
        cache = VectorCache(self._index) if view.writing else self._cache
        return Nearest(cache, view, vector)

    def matching(self, view: View, words: Sequence[str]) -> Source:
        if self._index is not None:
            return Indexed(view, words)
        # Which words are rare is told by all items, whatever the filter.
        everything = view._replace(filter=None)
        return Scanned(lambda resume: self.scan(everything, resume), words)
