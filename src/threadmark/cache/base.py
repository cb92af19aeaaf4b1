"""The cache contract: keep a node's writes under a namespace and a key, for a while.

A cache may forget anything at any time. Values go through the serializer, so what is handed out is never
the object that was put in. This module knows no graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from threadmark._checks import serializer
from threadmark.checkpoint.serde.base import SerializerProtocol

__all__ = ["BaseCache", "FullKey", "Namespace"]

ValueT = TypeVar("ValueT")
Namespace: TypeAlias = tuple[str, ...]
FullKey: TypeAlias = tuple[Namespace, str]


class BaseCache(ABC, Generic[ValueT]):
    """The base class of caches.

    Args:
        serde: The serializer. The default is `JsonPlusSerializer()`.
    """

    serde: SerializerProtocol

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

        serializer("serde", serde)
        self.serde = serde if serde is not None else JsonPlusSerializer()

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return the values that are there and still valid."""

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """Keep values, each with the seconds that it stays valid (`None`: for ever)."""

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget the values of some namespaces, or all."""

    @abstractmethod
    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Async `get`."""

    @abstractmethod
    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """Async `set`."""

    @abstractmethod
    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Async `clear`."""
