"""How items become searchable: the checked index configuration, the vectors that it makes of values
and queries, and the words of a record.

Each distinct text of a batch is embedded once. This module knows no backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from threadmark._checks import instance, one_of, shown
from threadmark.errors import InvalidArgumentError
from threadmark.store.backend import Record
from threadmark.store.checks import Fields
from threadmark.store.embeddings import ensure_embeddings
from threadmark.store.keywords import words_of
from threadmark.store.ops import Embeddings, IndexConfig
from threadmark.store.paths import leaf_text, parse_path, texts_at
from threadmark.store.vectors import checked_vectors, numpy

__all__ = ["WHOLE_VALUE", "Content", "Index", "record_words"]

Content: TypeAlias = tuple[Any, Fields | None]
"""A value, and the fields of it to index."""

WHOLE_VALUE: Fields = ("$",)

_KEYS = {"embed", "dims", "fields", "distance_type"}
_DISTANCES = ("cosine", "inner_product", "l2")


class Index:
    """What a store's index configuration says.

    Args:
        config: As users write it.

    Attributes:
        dims: How many numbers a vector has; 0 where there is no embedding model.
        distance: How vectors are compared.
        embeddings: The embedding model.
        fields: The paths of the fields to index.

    Raises:
        InvalidArgumentError: The configuration is refused.
        MissingDependencyError: It needs a package that is not installed.
    """

    def __init__(self, config: IndexConfig) -> None:
        instance("index", config, Mapping, "a dict, or None")
        unknown = set(config) - _KEYS
        if unknown:
            raise InvalidArgumentError(f"index has no {sorted(map(str, unknown))}; it takes {sorted(_KEYS)}.")
        self.fields = _fields(config.get("fields"))
        self.distance = config.get("distance_type", "cosine")
        one_of("distance_type", self.distance, _DISTANCES)
        self.dims = 0
        self.embeddings: Embeddings | None = None
        if config.get("embed") is not None:
            self.dims = _dims(config.get("dims"))
            numpy()
            self.embeddings = ensure_embeddings(config["embed"])

    def vectors(self, contents: Iterable[Content]) -> list[Any]:
        """Return the vectors of each value as an array, or `None` where it has none.

        Raises:
            EmbeddingError: The embedding model misbehaved.
        """
        texts = [self._texts_of(*content) for content in contents]
        distinct = _distinct(texts)
        if self.embeddings is None or not distinct:
            return [None] * len(texts)
        return self._shared_out(texts, distinct, self.embeddings.embed_documents(distinct))

    async def avectors(self, contents: Iterable[Content]) -> list[Any]:
        """Async `vectors`."""
        texts = [self._texts_of(*content) for content in contents]
        distinct = _distinct(texts)
        if self.embeddings is None or not distinct:
            return [None] * len(texts)
        return self._shared_out(texts, distinct, await self.embeddings.aembed_documents(distinct))

    def query_vectors(self, queries: Iterable[str]) -> dict[str, Any]:
        """Return the vector of each query; nothing where there is no embedding model.

        Raises:
            EmbeddingError: The embedding model misbehaved.
        """
        if self.embeddings is None:
            return {}
        embed = self.embeddings.embed_query
        return {query: self._vector(embed(query)) for query in set(queries)}

    async def aquery_vectors(self, queries: Iterable[str]) -> dict[str, Any]:
        """Async `query_vectors`."""
        if self.embeddings is None:
            return {}
        distinct = list(set(queries))
        vectors = await asyncio.gather(*map(self.embeddings.aembed_query, distinct))
        return dict(zip(distinct, map(self._vector, vectors), strict=True))

    def _texts_of(self, value: Any, fields: Fields | None) -> list[str]:
        if self.embeddings is None:
            return []
        paths = self.fields if fields is None else fields
        return list(dict.fromkeys(text for path in paths for text in texts_at(value, parse_path(path))))

    def _shared_out(self, texts: list[list[str]], distinct: list[str], vectors: Any) -> list[Any]:
        rows = checked_vectors(vectors, len(distinct), self.dims)
        at = {text: row for row, text in enumerate(distinct)}
        return [rows[[at[text] for text in own]] if own else None for own in texts]

    def _vector(self, vector: Any) -> Any:
        return checked_vectors([vector], 1, self.dims)[0]


def record_words(record: Record, fields: Fields) -> list[str]:
    """Return the words of a record that can be searched for.

    Args:
        record: The record.
        fields: The fields to index where the record has none of its own.
    """
    paths = fields if record.fields is None else record.fields
    return [word for path in paths for word in words_of(leaf_text(record.value, parse_path(path)))]


def _distinct(texts: list[list[str]]) -> list[str]:
    return list(dict.fromkeys(text for own in texts for text in own))


def _fields(fields: Any) -> Fields:
    if fields is None:
        return WHOLE_VALUE
    if not isinstance(fields, (list, tuple)) or not fields:
        raise InvalidArgumentError(f"fields is a list of paths, not {shown(fields)}.")
    for field in fields:
        parse_path(field)
    return tuple(fields)


def _dims(dims: Any) -> int:
    if type(dims) is not int or not 0 < dims <= 100_000:
        raise InvalidArgumentError(
            f"An index with embed needs dims, the length of a vector, not {shown(dims)}."
        )
    return dims
