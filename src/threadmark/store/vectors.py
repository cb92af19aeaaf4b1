"""Exact nearest-neighbour search over vectors in memory, with numpy.

The vectors lie in blocks of 32-bit floats, so that the index grows by one block at a time, and a
search multiplies block by block without copying any. An item may have several vectors; it scores by
the best. The index knows items by number and by namespace; whether an item may be shown, and which of
several answers to believe, is decided by the store.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from threadmark.errors import EmbeddingError, MissingDependencyError
from threadmark.store.namespaces import Span

__all__ = ["VectorIndex", "checked_vectors", "numpy"]

_BLOCK: Final = 4_096
_FREE: Final = -1

Vectors: TypeAlias = Any
"""An array of 32-bit floats, a row for each vector. Not named more closely, as numpy may be missing."""
Numbers: TypeAlias = Any
"""An array of 64-bit integers."""


def numpy() -> Any:
    """Return the numpy module.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import numpy as module
    except ImportError as error:
        raise MissingDependencyError(
            "Semantic search needs numpy: pip install 'threadmark[search]'. Without embed in its index, a "
            "store still searches by keywords."
        ) from error
    return module


def checked_vectors(vectors: Any, count: int, dims: int) -> Vectors:
    """Return what an embedding model gave as an array with one row for each text.

    Raises:
        EmbeddingError: It is not `count` vectors of `dims` finite numbers.
    """
    np = numpy()
    try:
        rows: Vectors = np.asarray([np.asarray(row, dtype=np.float32) for row in vectors], np.float32)
    except (TypeError, ValueError) as error:
        raise EmbeddingError(
            f"The embedding model must return one list of numbers for each text: {error}. Check embed."
        ) from error
    if len(rows) != count:
        raise EmbeddingError(f"The embedding model returned {len(rows)} vectors for {count} texts.")
    if count and rows.shape != (count, dims):
        size = rows.shape[1:] if rows.ndim != 2 else rows.shape[1]
        raise EmbeddingError(
            f"The embedding model returns vectors of {size} numbers, but the index is configured with "
            f"dims={dims}. Set dims to what the model returns."
        )
    if not np.isfinite(rows).all():
        raise EmbeddingError("The embedding model returned a vector with a number that is not finite.")
    return rows


class VectorIndex:
    """The vectors of items, searchable by similarity.

    Safe to use from several threads.

    Args:
        dims: The length of a vector.
        distance: `"cosine"`, `"inner_product"` or `"l2"`.
    """

    def __init__(self, dims: int, distance: str = "cosine") -> None:
        self._np = numpy()
        self.dims = dims
        self._distance = distance
        self._lock = threading.Lock()
        self._blocks: list[Vectors] = []
        self._owners: Numbers = self._np.empty(0, self._np.int64)
        self._free: list[int] = []
        self._rows: dict[int, tuple[bytes, list[int]]] = {}
        self._spaces: dict[bytes, set[int]] = {}
        self._names: list[bytes] = []

    def __len__(self) -> int:
        """Return how many items have vectors."""
        return len(self._rows)

    def put(self, item: int, namespace: bytes, vectors: Vectors | None) -> None:
        """Give an item these vectors in place of those that it had.

        Args:
            item: The item's number.
            namespace: Its namespace, encoded.
            vectors: One row for each vector; `None` drops the item.
        """
        if vectors is None:
            self.drop(item)
        else:
            self.put_many([(item, namespace, len(vectors))], vectors)

    def put_many(self, items: Iterable[tuple[int, bytes, int]], vectors: Vectors) -> None:
        """Give items these vectors in place of those that they had.

        Args:
            items: For each item its number, its namespace, and how many of the vectors are its own.
            vectors: The vectors of all items in their order.
        """
        if self._distance == "cosine":
            vectors = self._normalised(vectors)
        first = 0
        with self._lock:
            for item, namespace, count in items:
                self._drop(item)
                self._add(item, namespace, vectors[first : first + count])
                first += count

    def get(self, item: int) -> Vectors | None:
        """Return the vectors of an item as they are compared, `None` when it has none."""
        with self._lock:
            if item not in self._rows:
                return None
            rows = self._rows[item][1]
            return self._np.stack([self._blocks[row // _BLOCK][row % _BLOCK] for row in rows])

    def drop(self, item: int) -> None:
        """Remove the vectors of an item; it need not have any."""
        with self._lock:
            self._drop(item)

    def items(self) -> list[int]:
        """Return the numbers of the items that have vectors."""
        with self._lock:
            return list(self._rows)

    def ranked(self, query: Vectors, span: Span) -> Iterator[tuple[int, float]]:
        """Yield items with their scores, the best first and the lower number first among equals.

        Args:
            query: One vector.
            span: The namespaces to search.
        """
        if self._distance == "cosine":
            query = self._normalised(query[None])[0]
        with self._lock:
            rows = self._rows_below(span)
            scores = self._all_scores(query) if rows is None else self._scores_of(rows, query)
            owners = self._owners.copy() if rows is None else self._owners[rows]
        yield from self._descending(scores, owners)

    # Ranking

    def _all_scores(self, query: Vectors) -> Vectors:
        scores: Vectors = self._np.empty(len(self._owners), self._np.float32)
        for number, block in enumerate(self._blocks):
            at = slice(number * _BLOCK, (number + 1) * _BLOCK)
            scores[at] = self._similarity(block, query)
        scores[self._owners == _FREE] = -self._np.inf
        return scores

    def _scores_of(self, rows: Numbers, query: Vectors) -> Vectors:
        parts = [
            self._similarity(self._gathered(rows[at : at + _BLOCK]), query)
            for at in range(0, len(rows), _BLOCK)
        ]
        return self._np.concatenate(parts) if parts else self._np.empty(0, self._np.float32)

    def _gathered(self, rows: Numbers) -> Vectors:
        found: Vectors = self._np.empty((len(rows), self.dims), self._np.float32)
        numbers = rows // _BLOCK
        for number in self._np.unique(numbers):
            of_block = numbers == number
            found[of_block] = self._blocks[number][rows[of_block] % _BLOCK]
        return found

    def _similarity(self, vectors: Vectors, query: Vectors) -> Vectors:
        if self._distance != "l2":
            return vectors @ query
        apart = vectors - query
        return -self._np.sqrt(self._np.einsum("ij,ij->i", apart, apart))

    def _descending(self, scores: Vectors, owners: Numbers) -> Iterator[tuple[int, float]]:
        np = self._np
        seen: set[int] = set()
        left = np.flatnonzero(owners != _FREE)
        wanted = 64
        while len(left):
            bound = -np.inf
            if wanted < len(left):
                bound = np.partition(scores[left], len(left) - wanted)[len(left) - wanted]
            # All that score the same are taken together, for the order among them to be by number.
            best = left[scores[left] >= bound]
            left = left[scores[left] < bound]
            for row in best[np.lexsort((owners[best], -scores[best]))]:
                item = int(owners[row])
                if item not in seen:
                    seen.add(item)
                    yield item, float(scores[row])
            wanted *= 8

    def _normalised(self, vectors: Vectors) -> Vectors:
        lengths = self._np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / self._np.where(lengths == 0, 1, lengths)

    # Rows. The caller holds the lock.

    def _rows_below(self, span: Span) -> Numbers | None:
        """Return the rows to search; `None` when it is as quick to search all and there are no others."""
        low, high = bisect_left(self._names, span.low), bisect_left(self._names, span.high)
        if high - low == len(self._names):
            return None
        rows = [row for name in self._names[low:high] for row in self._spaces[name]]
        return self._np.sort(self._np.fromiter(rows, self._np.int64, len(rows)))

    def _add(self, item: int, namespace: bytes, vectors: Vectors) -> None:
        rows = [self._free_row() for _ in range(len(vectors))]
        for row, vector in zip(rows, vectors, strict=True):
            self._blocks[row // _BLOCK][row % _BLOCK] = vector
            self._owners[row] = item
        self._rows[item] = (namespace, rows)
        if namespace not in self._spaces:
            self._spaces[namespace] = set()
            insort(self._names, namespace)
        self._spaces[namespace].update(rows)

    def _drop(self, item: int) -> None:
        if item not in self._rows:
            return
        namespace, rows = self._rows.pop(item)
        self._owners[rows] = _FREE
        self._free += rows
        space = self._spaces[namespace]
        space.difference_update(rows)
        if not space:
            del self._spaces[namespace]
            del self._names[bisect_left(self._names, namespace)]

    def _free_row(self) -> int:
        if not self._free:
            self._grow()
        return self._free.pop()

    def _grow(self) -> None:
        np = self._np
        first = len(self._owners)
        self._blocks.append(np.zeros((_BLOCK, self.dims), np.float32))
        self._owners = np.concatenate([self._owners, np.full(_BLOCK, _FREE, np.int64)])
        self._free = list(range(first + _BLOCK - 1, first - 1, -1))
