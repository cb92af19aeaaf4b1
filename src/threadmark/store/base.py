"""The store contract: what must be remembered across threads, and how it is asked for.

A store of your own derives from `BaseStore` and implements `batch` and `abatch`; everything else is
written over them. This module knows no backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from threadmark.errors import InvalidArgumentError, InvalidNamespaceError
from threadmark.store.embeddings import ensure_embeddings
from threadmark.store.items import Item, SearchItem
from threadmark.store.ops import (
    NOT_PROVIDED,
    AEmbeddingsFunc,
    CountOp,
    Embeddings,
    EmbeddingsFunc,
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    MatchCondition,
    Mode,
    NamespaceMatchType,
    NamespacePath,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
)
from threadmark.store.paths import get_text_at_path

__all__ = [
    "NOT_PROVIDED",
    "AEmbeddingsFunc",
    "BaseStore",
    "CountOp",
    "Embeddings",
    "EmbeddingsFunc",
    "GetOp",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "Mode",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
    "ensure_embeddings",
    "get_text_at_path",
]


class BaseStore(ABC):
    """Values under keys in namespaces, shared by all threads of a graph.

    Every method has an async twin, named with an `a`, that does the same. All raise
    `InvalidArgumentError` for arguments that are refused, before anything is read or written.
    """

    supports_ttl: bool = False
    """Whether items can expire."""
    ttl_config: TTLConfig | None = None
    """How long items live."""

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations in order, all or none of them.

        Args:
            ops: The operations. Each sees what those before it did.

        Returns:
            One result for each: an item or `None`, a list of items, a list of namespaces, a count, and
            for a `PutOp` the version if it is `returning`, else `None`.

        Raises:
            StoreConflictError: A condition of a `PutOp` does not hold; nothing was written.
        """

    @abstractmethod
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async `batch`."""

    def get(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """Return an item, or `None` when there is none.

        Args:
            namespace: Its namespace.
            key: Its key.
            refresh_ttl: Whether this starts its time to live anew. The default is the store's
                `refresh_on_read`.
        """
        return cast("Item | None", self.batch([GetOp(namespace, key, refresh_ttl)])[0])

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
        if_version: int | None = None,
        if_absent: bool = False,
    ) -> int | None:
        """Write an item.

        Args:
            namespace: Its namespace: texts that are not empty, of any characters.
            key: Its key.
            value: A JSON-like dictionary, which is copied.
            index: The paths of the fields that make it searchable; `False`: none. The default is the
                store's.
            ttl: Minutes until it expires, or `None` for never. The default is the store's.
            if_version: Write only if the item is at this version.
            if_absent: Write only if there is no such item.

        Returns:
            The version that was written, if the store counts versions.

        Raises:
            StoreConflictError: `if_version` or `if_absent` does not hold; nothing was written.
            SerializationError: The value is not JSON-like; nothing was written.
            EmbeddingError: The embedding model misbehaved; nothing was written.
        """
        op = self._put_op(namespace, key, value, index, ttl, if_version, if_absent)
        return cast("int | None", self.batch([op])[0])

    def delete(self, namespace: tuple[str, ...], key: str, *, if_version: int | None = None) -> None:
        """Remove an item; there need not be one.

        Args:
            namespace: Its namespace.
            key: Its key.
            if_version: Remove it only if it is at this version.

        Raises:
            StoreConflictError: `if_version` does not hold.
        """
        self.batch([PutOp(namespace, key, None, if_version=if_version)])

    def search(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        mode: Mode | None = None,
        sort: str | None = None,
        descending: bool = False,
        after: str | None = None,
    ) -> list[SearchItem]:
        """Find items below a namespace.

        Without a query or `sort`, the oldest item comes first and the newest last. With a query, the
        best comes first.

        Args:
            namespace_prefix: The namespaces begin with these segments; `()` for all.
            query: What to look for, in words.
            filter: Conditions on the value, as `{"kind": "note", "score": {"$gte": 10}}`.
            limit: How many items at the most.
            offset: How many to skip.
            refresh_ttl: Whether this starts the time to live of what it returns anew. The default is
                the store's `refresh_on_read`.
            mode: How to rank by the query. The default is `"semantic"` where an embedding model is
                configured; elsewhere items are ranked by keywords, and those without any of the words
                follow unranked.
            sort: The path of a field to sort by, or `"$key"`, `"$created_at"`, `"$updated_at"`.
            descending: Turn the order round.
            after: The `cursor` of an item of an earlier page: return what comes after it.
        """
        op = SearchOp(
            namespace_prefix, filter, limit, offset, query, refresh_ttl, mode, sort, descending, after
        )
        return cast("list[SearchItem]", self.batch([op])[0])

    def count(self, namespace_prefix: tuple[str, ...], /, *, filter: Mapping[str, Any] | None = None) -> int:
        """Return how many items there are below a namespace.

        Args:
            namespace_prefix: The namespaces begin with these segments; `()` for all.
            filter: Conditions on the value, as in `search`.
        """
        return cast("int", self.batch([CountOp(namespace_prefix, filter)])[0])

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that hold items, sorted.

        Args:
            prefix: They begin with these segments; `"*"` stands for any one.
            suffix: They end with these segments; `"*"` stands for any one.
            max_depth: Cut longer ones to this many segments, and list each once.
            limit: How many at the most.
            offset: How many to skip.
        """
        op = _list_op(prefix, suffix, max_depth, limit, offset)
        return cast("list[tuple[str, ...]]", self.batch([op])[0])

    async def aget(
        self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Async `get`."""
        return cast("Item | None", (await self.abatch([GetOp(namespace, key, refresh_ttl)]))[0])

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
        if_version: int | None = None,
        if_absent: bool = False,
    ) -> int | None:
        """Async `put`."""
        op = self._put_op(namespace, key, value, index, ttl, if_version, if_absent)
        return cast("int | None", (await self.abatch([op]))[0])

    async def adelete(self, namespace: tuple[str, ...], key: str, *, if_version: int | None = None) -> None:
        """Async `delete`."""
        await self.abatch([PutOp(namespace, key, None, if_version=if_version)])

    async def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        mode: Mode | None = None,
        sort: str | None = None,
        descending: bool = False,
        after: str | None = None,
    ) -> list[SearchItem]:
        """Async `search`."""
        op = SearchOp(
            namespace_prefix, filter, limit, offset, query, refresh_ttl, mode, sort, descending, after
        )
        return cast("list[SearchItem]", (await self.abatch([op]))[0])

    async def acount(
        self, namespace_prefix: tuple[str, ...], /, *, filter: Mapping[str, Any] | None = None
    ) -> int:
        """Async `count`."""
        return cast("int", (await self.abatch([CountOp(namespace_prefix, filter)]))[0])

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Async `list_namespaces`."""
        op = _list_op(prefix, suffix, max_depth, limit, offset)
        return cast("list[tuple[str, ...]]", (await self.abatch([op]))[0])

    def _put_op(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None,
        ttl: float | NotProvided | None,
        if_version: int | None,
        if_absent: bool,
    ) -> PutOp:
        if value is None:
            raise InvalidArgumentError("put takes a dictionary; to remove an item, call delete.")
        if ttl is NOT_PROVIDED:
            ttl = (self.ttl_config or {}).get("default_ttl")
        return PutOp(namespace, key, value, index, ttl, if_version, if_absent, returning=True)


def _list_op(
    prefix: NamespacePath | None,
    suffix: NamespacePath | None,
    max_depth: int | None,
    limit: int,
    offset: int,
) -> ListNamespacesOp:
    conditions = []
    if prefix:
        conditions.append(MatchCondition("prefix", prefix))
    if suffix:
        conditions.append(MatchCondition("suffix", suffix))
    return ListNamespacesOp(tuple(conditions) or None, max_depth, limit, offset)
