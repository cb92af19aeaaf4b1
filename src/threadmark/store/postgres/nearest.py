"""Semantic search by pgvector: with an HNSW index, or by comparing all vectors.

The index proposes candidates in the order of their distance, and may stop before it has shown all. What is
still wanted then is found by comparing all. An item with several vectors scores by the best of them.
"""

from __future__ import annotations

from typing import Any

from threadmark._db.effects import Execute, Operation, Rows
from threadmark._db.postgres_tables import Names
from threadmark.store.backend import Hit, View
from threadmark.store.indexing import Index
from threadmark.store.postgres.prefilter import narrowed
from threadmark.store.postgres.rows import read_record
from threadmark.store.postgres.statements import Vectors
from threadmark.store.vectors import numpy

__all__ = ["Nearest", "Space"]


class Space:
    """How vectors are compared.

    Cosines are inner products of vectors of length one, so that a vector without a direction has a place.

    Args:
        index: The store's index.
        exact: Whether to compare all vectors always.
    """

    def __init__(self, index: Index, exact: bool) -> None:
        self.dims = index.dims
        self.sql = Vectors(index.dims, "l2" if index.distance == "l2" else "ip")
        self.exact = exact or not self.sql.can_be_indexed
        self._cosine = index.distance == "cosine"

    def texts(self, vectors: Any) -> list[str]:
        """Return vectors as pgvector reads them."""
        np = numpy()
        rows = np.asarray(vectors, np.float32)
        if self._cosine:
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = rows / np.where(lengths == 0, 1, lengths)
        return ["[" + ",".join(map(repr, row)) + "]" for row in rows.astype(float).tolist()]


class Nearest:
    """The records by similarity to a vector, as a source of hits."""

    def __init__(self, names: Names, space: Space, view: View, vector: Any) -> None:
        condition = narrowed(view.filter)
        text = space.sql.nearest if not space.exact else space.sql.exact
        self._sql = names.worded(text.format(narrowed=condition.after(5)))
        self._exact_sql = names.worded(space.sql.exact.format(narrowed=condition.after(5)))
        self._before = (*view.span, view.now, space.texts(vector[None])[0])
        self._params = condition.params
        self._exact = space.exact
        self._limit = 0
        self._seen: set[int] = set()
        self._done = False

    def more(self, count: int) -> Operation[list[Hit]]:
        while not self._done:
            self._limit += count
            rows = yield Execute(self._sql, (*self._before, self._limit, *self._params))
            hits = self._new(self._certain(rows))
            if hits:
                return hits
            count = max(count, self._limit)
        return []

    def _certain(self, rows: Rows) -> Rows:
        """Return the rows behind which no others belong between them."""
        if len(rows) < self._limit:
            if self._exact:
                self._done = True
                return rows
            self._sql, self._exact, self._limit = self._exact_sql, True, 0
        # Of those that are equally far away, some may not be here: they come together next time.
        return [row for row in rows if row[-1] != rows[-1][-1]]

    def _new(self, rows: Rows) -> list[Hit]:
        hits = []
        for row in sorted(rows, key=lambda row: (row[-1], row[0])):
            if row[0] not in self._seen:
                self._seen.add(row[0])
                score = -float(row[-1])
                hits.append(Hit(read_record(row[:-1]), score, (-score, row[0])))
        return hits
