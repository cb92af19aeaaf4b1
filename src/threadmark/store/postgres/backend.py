"""The Postgres backend: records in a table with their words, their vectors in a table beside.

What a statement says is in `statements`; this module decides which ones an operation needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from threadmark._db.effects import Execute, ExecuteMany, Operation
from threadmark._db.postgres_session import Unheard
from threadmark._db.postgres_tables import Names
from threadmark.store.backend import Hit, Record, Source, View
from threadmark.store.indexing import WHOLE_VALUE, Index, record_words
from threadmark.store.namespaces import Span, encode_namespace, encode_text
from threadmark.store.postgres import statements as sql
from threadmark.store.postgres.nearest import Nearest, Space
from threadmark.store.postgres.prefilter import narrowed
from threadmark.store.postgres.rows import query_text, read_namespace, read_record, read_records, written

__all__ = ["PostgresBackend"]

_SCANNED_AT_ONCE = 1_000
_BEFORE_ALL = -(2**63)
_AFTER_ALL = 2**63 - 1
_MOST_LOCKS = 32
"""A server has room for about 64 locks of each connection. A batch that writes to more places than this takes
one lock, for all of them: nobody else writes until it is done."""


class PostgresBackend:
    """Records in a Postgres database.

    Args:
        names: Where the tables are.
        index: The store's index, if it has one.
        space: How its vectors are compared, if it has any.
    """

    shares_values = False

    def __init__(self, names: Names, index: Index | None, space: Space | None) -> None:
        self._names = names
        self._fields = WHOLE_VALUE if index is None else index.fields
        self._space = space

    # Writing

    def next_version(self) -> Operation[int]:
        rows = yield self._execute(sql.NEXT_VERSION, (self._names.table("versions"),))
        return rows[0][0]  # type: ignore[no-any-return]

    def insert(self, record: Record, vectors: Any) -> Operation[None]:
        address = encode_namespace(record.namespace), encode_text(record.key)
        yield self._execute(sql.INSERT, (*self._written(record), record.created_at, *address))
        yield from self._add_vectors(record, vectors)

    def replace(self, old: Record, new: Record, vectors: Any) -> Operation[None]:
        yield from self._drop_vectors([old])
        yield self._execute(sql.REPLACE, self._written(new))
        yield from self._add_vectors(new, vectors)

    def remove(self, records: Sequence[Record]) -> Operation[None]:
        yield from self._drop_vectors(records)
        yield self._execute(sql.REMOVE, ([record.seq for record in records],))

    def lock(self, places: Iterable[tuple[tuple[str, ...], str]]) -> Operation[None]:
        named = [(encode_namespace(namespace), encode_text(key)) for namespace, key in places]
        if len(named) <= _MOST_LOCKS:
            numbers = sorted(self._number(*place) for place in named)
            yield Unheard(sql.LOCK_PLACES, (self._number(), numbers))
        else:
            yield Unheard(sql.LOCK_ALL_PLACES, (self._number(),))
        if len(named) > 1:
            namespaces, keys = map(list, zip(*named, strict=True))
            yield Unheard(self._names.worded(sql.LOCK_ITEMS), (namespaces, keys))

    def _number(self, *place: bytes) -> int:
        """Return the number of the lock for a place; without one, for all of them."""
        name = blake2b(self._names.table("items").encode(), digest_size=8)
        for part in place:
            name.update(len(part).to_bytes(8) + part)
        return int.from_bytes(name.digest(), signed=True)

    def touch(self, records: Sequence[Record], now: int) -> Operation[None]:
        seqs, versions = [record.seq for record in records], [record.version for record in records]
        yield self._execute(sql.TOUCH, (now, seqs, versions))

    def _written(self, record: Record) -> tuple[Any, ...]:
        return written(record, record_words(record, self._fields))

    def _add_vectors(self, record: Record, vectors: Any) -> Operation[None]:
        if vectors is not None and self._space is not None:
            namespace = encode_namespace(record.namespace)
            rows = [
                (record.seq, part, namespace, self._space.dims, text)
                for part, text in enumerate(self._space.texts(vectors))
            ]
            yield self._many(sql.ADD_VECTOR, rows)

    def _drop_vectors(self, records: Sequence[Record]) -> Operation[None]:
        if self._space is not None:
            yield self._execute(sql.DROP_VECTORS, ([record.seq for record in records],))

    # Reading

    def find(self, namespace: tuple[str, ...], key: str, *, for_update: bool) -> Operation[Record | None]:
        statement = sql.FIND_FOR_UPDATE if for_update else sql.FIND
        rows = yield self._execute(statement, (encode_namespace(namespace), encode_text(key)))
        return read_record(rows[0]) if rows else None

    def expired(self, now: int, limit: int) -> Operation[list[Record]]:
        rows = yield self._execute(sql.EXPIRED, (now, limit))
        return read_records(rows)

    def page(
        self, view: View, *, after: int | None, descending: bool, limit: int, offset: int
    ) -> Operation[list[Record]]:
        condition = narrowed(view.filter)
        if after is None:
            after = _AFTER_ALL if descending else _BEFORE_ALL
        rows = yield self._execute(
            sql.PAGE[descending].format(narrowed=condition.after(6)),
            (*view.span, view.now, after, limit, offset, *condition.params),
        )
        return read_records(rows)

    def scan(self, view: View, resume: Any) -> Operation[tuple[list[Record], Any]]:
        condition = narrowed(view.filter)
        start = (b"", b"") if resume is None else resume
        rows = yield self._execute(
            sql.SCAN.format(narrowed=condition.after(6)),
            (*view.span, view.now, *start, _SCANNED_AT_ONCE, *condition.params),
        )
        end = len(rows) < _SCANNED_AT_ONCE
        return read_records(rows), None if end else (rows[-1][1], rows[-1][2])

    def count(self, view: View) -> Operation[int]:
        rows = yield self._execute(sql.COUNT, (*view.span, view.now))
        return rows[0][0]  # type: ignore[no-any-return]

    def namespaces(
        self, span: Span, now: int, after: tuple[str, ...], limit: int
    ) -> Operation[list[tuple[str, ...]]]:
        rows = yield self._execute(sql.NAMESPACES, (encode_namespace(after), *span, now, limit))
        return [read_namespace(name) for (name,) in rows]

    def nearest(self, view: View, vector: Any) -> Source:
        if self._space is None:
            raise TypeError("There is no embedding model; core refuses the search.")
        return Nearest(self._names, self._space, view, vector)

    def matching(self, view: View, words: Sequence[str]) -> Source:
        return _Matching(self._names, view, words)

    def _execute(self, statement: str, params: Sequence[Any]) -> Execute:
        return Execute(self._names.worded(statement), params)

    def _many(self, statement: str, params: Sequence[Sequence[Any]]) -> ExecuteMany:
        return ExecuteMany(self._names.worded(statement), params)


class _Matching:
    """The records that hold any of some words, as a source of hits."""

    def __init__(self, names: Names, view: View, words: Sequence[str]) -> None:
        condition = narrowed(view.filter)
        self._sql = names.worded(sql.MATCHING.format(narrowed=condition.after(6)))
        self._before = (*view.span, view.now, query_text(words))
        self._params = condition.params
        self._empty = not words
        self._offset = 0

    def more(self, count: int) -> Operation[list[Hit]]:
        if self._empty:
            return []
        rows = yield Execute(self._sql, (*self._before, count, self._offset, *self._params))
        self._offset += len(rows)
        hits = [(read_record(row[:-1]), float(row[-1])) for row in rows]
        return [Hit(record, score, (-score, record.seq)) for record, score in hits]
