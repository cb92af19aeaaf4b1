"""Semantic search on SQLite: the vectors of the file, kept in memory, and checked against the file.

The cache is brought up to date before each search by reading the vectors that were written since, by
whichever process. What it says is a proposal: an item is shown only if the file still holds it, alive,
with the vectors that were compared. So vectors that have meanwhile gone cost a little time and no
correctness; now and then they are dropped.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

from threadmark._db.effects import Execute, Operation, Rows
from threadmark.errors import InvalidArgumentError, StorageCorruptError
from threadmark.store.backend import Hit, View
from threadmark.store.indexing import Index
from threadmark.store.sqlite import statements as sql
from threadmark.store.sqlite.prefilter import narrowed
from threadmark.store.sqlite.rows import StoredRecord, read_records
from threadmark.store.vectors import VectorIndex, numpy

__all__ = ["Nearest", "VectorCache"]

_LOADED_AT_ONCE = 2_000
_MOST_AT_ONCE = 4_096
_BYTES = 4


class VectorCache:
    """The vectors of one file.

    Args:
        index: The store's index.
    """

    def __init__(self, index: Index) -> None:
        self.vectors = VectorIndex(index.dims, index.distance)
        self._lock = threading.Lock()
        self._last = 0
        self._versions: dict[int, int] = {}
        self._unchecked = 0

    def load(self) -> Operation[None]:
        """Read what was written since the last time."""
        while True:
            rows = yield Execute(sql.NEW_VECTORS, (self._last, _LOADED_AT_ONCE))
            self._take(rows)
            if len(rows) < _LOADED_AT_ONCE:
                break
        if self._unchecked > max(_LOADED_AT_ONCE, len(self.vectors) // 4):
            yield from self._drop_removed()

    def is_current(self, record: StoredRecord | None) -> bool:
        """Whether a record still has the vectors that are here."""
        return record is not None and record.vectors_at == self._versions.get(record.seq)

    def _take(self, rows: Rows) -> None:
        with self._lock:
            # Another thread may have read the same rows, or later ones of the same items.
            new = [row for row in rows if row[0] > self._versions.get(row[1], 0)]
            sizes = [self._checked_size(*row) for row in new]
            if new:
                np = numpy()
                joined = np.frombuffer(b"".join(row[4] for row in new), "<f4")
                items = [(row[1], row[2], size) for row, size in zip(new, sizes, strict=True)]
                self.vectors.put_many(items, joined.reshape(-1, self.vectors.dims))
            self._versions.update((row[1], row[0]) for row in new)
            self._last = max([self._last, *(row[0] for row in rows)])
            self._unchecked += len(new)

    def _checked_size(self, version: int, seq: int, namespace: bytes, dims: int, blob: Any) -> int:
        if dims != self.vectors.dims:
            raise InvalidArgumentError(
                f"The file holds vectors of {dims} numbers, and the index is configured with "
                f"dims={self.vectors.dims}. Configure the model that wrote them, or call reindex()."
            )
        readable = isinstance(namespace, bytes) and isinstance(blob, bytes) and blob
        if not readable or len(blob) % (dims * _BYTES):
            raise StorageCorruptError(f"The vectors of item number {seq} are damaged; call reindex().")
        return len(blob) // (dims * _BYTES)

    def _drop_removed(self) -> Operation[None]:
        last = self._last
        there = {seq for (seq,) in (yield Execute(sql.WITH_VECTORS))}
        with self._lock:
            self._unchecked = 0
            for seq, version in list(self._versions.items()):
                if seq not in there and version <= last:
                    del self._versions[seq]
                    self.vectors.drop(seq)


class Nearest:
    """The records by similarity to a vector, as a source of hits."""

    def __init__(self, cache: VectorCache, view: View, vector: Any) -> None:
        self._cache = cache
        self._view = view
        self._vector = vector
        self._narrowed = narrowed(view.filter)
        self._ranked: Iterator[tuple[int, float]] | None = None

    def more(self, count: int) -> Operation[list[Hit]]:
        if self._ranked is None:
            yield from self._cache.load()
            self._ranked = self._cache.vectors.ranked(self._vector, self._view.span)
        while proposed := list(islice(self._ranked, count)):
            hits = yield from self._checked(proposed)
            if hits:
                return hits
            count = min(count * 4, _MOST_AT_ONCE)
        return []

    def _checked(self, proposed: list[tuple[int, float]]) -> Operation[list[Hit]]:
        rows = yield Execute(
            sql.AMONG.format(narrowed=self._narrowed.sql),
            (
                json.dumps([seq for seq, _ in proposed]),
                *self._view.span,
                self._view.now,
                *self._narrowed.params,
            ),
        )
        records = {record.seq: record for record in read_records(rows)}
        return [
            Hit(records[seq], score, (-score, seq))
            for seq, score in proposed
            if self._cache.is_current(records.get(seq))
        ]
