"""The operations that a store can be asked for, and how a store is configured.

`BaseStore.batch` takes a list of these; every other method of a store builds one. They are plain
data, not checked yet; `checks` does that. This module knows no store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from typing_extensions import TypedDict

from threadmark.store.items import Item, SearchItem

__all__ = [
    "NOT_PROVIDED",
    "AEmbeddingsFunc",
    "CountOp",
    "Embeddings",
    "EmbeddingsFunc",
    "GetOp",
    "IndexConfig",
    "ListNamespacesOp",
    "MatchCondition",
    "Mode",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "PutOp",
    "Result",
    "SearchOp",
    "TTLConfig",
]

NamespacePath: TypeAlias = tuple[str, ...] | list[str]
"""Part of a namespace; `"*"` stands for any one segment."""
NamespaceMatchType: TypeAlias = Literal["prefix", "suffix"]
Mode: TypeAlias = Literal["semantic", "keyword", "hybrid"]
"""How a query ranks items: by meaning, by the words in them, or by both."""


class NotProvided(Enum):
    """The type of `NOT_PROVIDED`."""

    NOT_PROVIDED = 0


NOT_PROVIDED: Final = NotProvided.NOT_PROVIDED
"""Says that `ttl` was not given, which is not the same as `None` (never expires)."""


class GetOp(NamedTuple):
    """Read one item.

    Attributes:
        namespace: Its namespace.
        key: Its key.
        refresh_ttl: Whether reading starts its time to live anew; `None`: as the store is configured.
    """

    namespace: tuple[str, ...]
    key: str
    refresh_ttl: bool | None = None


class PutOp(NamedTuple):
    """Write or delete one item.

    Attributes:
        namespace: Its namespace.
        key: Its key.
        value: Its new value; `None` deletes it.
        index: Which fields to make searchable; `False`: none, `None`: as the store is configured.
        ttl: Minutes until it expires; `None`: never.
        if_version: Write only if the item is at this version.
        if_absent: Write only if there is no such item.
        returning: Whether the result is the version that was written, instead of `None`.
    """

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any] | None
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment] # not tuple.index
    ttl: float | None = None
    if_version: int | None = None
    if_absent: bool = False
    returning: bool = False


class SearchOp(NamedTuple):
    """Find items below a namespace. See `BaseStore.search` for the meaning of each attribute."""

    namespace_prefix: tuple[str, ...]
    filter: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool | None = None
    mode: Mode | None = None
    sort: str | None = None
    descending: bool = False
    after: str | None = None


class CountOp(NamedTuple):
    """Count the items below a namespace that a filter accepts."""

    namespace_prefix: tuple[str, ...]
    filter: Mapping[str, Any] | None = None


class MatchCondition(NamedTuple):
    """What a namespace must begin or end with."""

    match_type: NamespaceMatchType
    path: NamespacePath


class ListNamespacesOp(NamedTuple):
    """List the namespaces that hold items, sorted.

    Attributes:
        match_conditions: All of these must hold.
        max_depth: Cut longer namespaces to this many segments, and list each once.
        limit: How many at the most.
        offset: How many to skip.
    """

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Op: TypeAlias = GetOp | PutOp | SearchOp | CountOp | ListNamespacesOp
Result: TypeAlias = Item | list[SearchItem] | list[tuple[str, ...]] | int | None


class Embeddings(Protocol):
    """What turns texts into vectors. LangChain's `Embeddings` is one of these."""

    def embed_documents(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text to be found."""
        ...

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a text to search with."""
        ...

    async def aembed_documents(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Async `embed_documents`."""
        ...

    async def aembed_query(self, text: str) -> Sequence[float]:
        """Async `embed_query`."""
        ...


EmbeddingsFunc: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]]]
AEmbeddingsFunc: TypeAlias = Callable[[list[str]], Awaitable[Sequence[Sequence[float]]]]


class IndexConfig(TypedDict, total=False):
    """How the items of a store are made searchable.

    Keys:
        embed: What makes vectors: a function or coroutine function over a list of texts, LangChain
            `Embeddings`, or the name of a model as `"provider:model"`. Without it, search is by
            keywords only.
        dims: How many numbers a vector has. Needed with `embed`.
        fields: The paths of the fields to index. The default is `["$"]`, the whole value.
        distance_type: `"cosine"` (the default), `"inner_product"` or `"l2"`.
    """

    embed: Embeddings | EmbeddingsFunc | AEmbeddingsFunc | str
    dims: int
    fields: list[str] | None
    distance_type: Literal["cosine", "inner_product", "l2"]


class TTLConfig(TypedDict, total=False):
    """How long the items of a store live. All times are in minutes.

    Keys:
        default_ttl: The time to live of items that are put without one; `None`: for ever.
        refresh_on_read: Whether reading an item starts its time anew. The default is `False`.
        sweep_interval_minutes: How often a sweeper removes expired items from storage.
        omit_expired: `True`, and kept for those who set it: expired items are never returned.
    """

    default_ttl: float | None
    refresh_on_read: bool
    sweep_interval_minutes: float | None
    omit_expired: bool
