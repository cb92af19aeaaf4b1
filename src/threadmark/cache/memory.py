"""A cache in this process's memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from threadmark._checks import function
from threadmark.cache.base import BaseCache, FullKey, Namespace, ValueT
from threadmark.checkpoint.serde.base import Encoded, SerializerProtocol

__all__ = ["InMemoryCache"]


class InMemoryCache(BaseCache[ValueT]):
    """Keeps values in a dict. Safe for threads; gone with the process.

    Args:
        serde: The serializer. The default is `JsonPlusSerializer()`.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, *, serde: SerializerProtocol | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(serde=serde)
        function("clock", clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Namespace, dict[str, tuple[Encoded, float | None]]] = {}

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return the values that are there and still valid."""
        now = self._clock()
        found: dict[FullKey, Encoded] = {}
        with self._lock:
            for namespace, key in keys:
                entries = self._kept.get(namespace, {})
                if key not in entries:
                    continue
                data, expiry = entries[key]
                if expiry is None or now < expiry:
                    found[(namespace, key)] = data
                else:
                    del entries[key]
        return {key: self.serde.loads_typed(data) for key, data in found.items()}

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """Keep values, each with the seconds that it stays valid (`None`: for ever)."""
        now = self._clock()
        encoded = {
            full: (self.serde.dumps_typed(value), None if ttl is None else now + ttl)
            for full, (value, ttl) in pairs.items()
        }
        with self._lock:
            for (namespace, key), entry in encoded.items():
                self._kept.setdefault(namespace, {})[key] = entry

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget the values of some namespaces, or all."""
        with self._lock:
            if namespaces is None:
                self._kept.clear()
                return
            for namespace in namespaces:
                self._kept.pop(namespace, None)

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Async `get`."""
        return self.get(keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """Async `set`."""
        self.set(pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Async `clear`."""
        self.clear(namespaces)
