"""The half of a store that does not depend on what keeps the records.

`RecordStore` checks operations, has them embedded, and runs them over a `Backend`, sync and async. A
store of this kind says how an operation is performed, and nothing else. Nothing here knows a database.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from threadmark._checks import amount, flag, function, instance
from threadmark._db.effects import Operation
from threadmark.errors import InvalidArgumentError
from threadmark.store.backend import Backend
from threadmark.store.base import BaseStore
from threadmark.store.checks import Put, Search, check_op, check_ttl
from threadmark.store.indexing import Content, Index
from threadmark.store.operations import Job, Operations
from threadmark.store.ops import Op, Result, TTLConfig
from threadmark.store.sweeper import Sweeper

__all__ = ["RecordStore"]

T = TypeVar("T")

_SWEPT_AT_ONCE = 500
_SWEEP_MINUTES = 5
_TTL_KEYS = {"default_ttl", "refresh_on_read", "sweep_interval_minutes", "omit_expired"}


class RecordStore(BaseStore):
    """A store over a backend.

    Args:
        backend: What keeps the records.
        index: The checked index configuration, if any.
        ttl: How long items live.
        clock: Returns the time in seconds since 1970; for tests.
        durable: Whether what was written must survive a power cut.
    """

    supports_ttl = True

    def __init__(
        self,
        backend: Backend,
        *,
        index: Index | None,
        ttl: TTLConfig | None,
        clock: Callable[[], float] | None,
        durable: bool,
    ) -> None:
        self.ttl_config = _checked(ttl)
        function("clock", clock, optional=True)
        self._index = index
        self._operations = Operations(
            backend,
            clock=clock or time.time,
            refresh=(ttl or {}).get("refresh_on_read", False),
            semantic=index is not None and index.embeddings is not None,
            durable=durable,
        )
        self._sweeper = Sweeper(self._sweep)

    @abstractmethod
    def _perform(self, operation: Operation[T]) -> T:
        """Run an operation in the calling thread."""

    @abstractmethod
    async def _aperform(self, operation: Operation[T], jobs: Sequence[Job] = ()) -> T:
        """Run an operation, that of these jobs, without blocking the event loop."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See `BaseStore.batch`."""
        jobs = self._jobs(ops)
        if not jobs:
            return []
        if self._index is not None:
            vectors = self._index.vectors(_contents(jobs))
            _fill(jobs, vectors, self._index.query_vectors(_queries(jobs)))
        return self._perform(self._operations.batch(jobs))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `BaseStore.abatch`."""
        jobs = self._jobs(ops)
        if not jobs:
            return []
        if self._index is not None:
            vectors = await self._index.avectors(_contents(jobs))
            _fill(jobs, vectors, await self._index.aquery_vectors(_queries(jobs)))
        return await self._aperform(self._operations.batch(jobs), jobs)

    # Items that expire

    def sweep_ttl(self) -> int:
        """Remove the items that have expired, some at a time, and return how many there were."""
        return self._sweep()

    def _sweep(self) -> int:
        swept = 0
        while True:
            batch = self._perform(self._operations.sweep(_SWEPT_AT_ONCE))
            swept += batch
            if batch < _SWEPT_AT_ONCE:
                return swept

    async def asweep_ttl(self) -> int:
        """Async `sweep_ttl`."""
        swept = 0
        while True:
            batch = await self._aperform(self._operations.sweep(_SWEPT_AT_ONCE))
            swept += batch
            if batch < _SWEPT_AT_ONCE:
                return swept

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Remove expired items at intervals, from a thread, until the store is closed.

        Args:
            sweep_interval_minutes: The interval. The default is the store's
                `sweep_interval_minutes`, or five minutes.

        Returns:
            A future that is done when the sweeper has ended.
        """
        _check_minutes("sweep_interval_minutes", sweep_interval_minutes)
        minutes = sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes")
        _check_minutes("sweep_interval_minutes", minutes)
        return self._sweeper.start((minutes or _SWEEP_MINUTES) * 60)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the sweeper, and return whether it has ended.

        Args:
            timeout: How many seconds to wait for a sweep that is under way.
        """
        amount("timeout", timeout, zero=True, optional=True)
        return self._sweeper.stop(timeout)

    # Indexing anew

    def reindex(self) -> int:
        """Index all items as the store is configured now, and return how many there were.

        For items that were put before the store had an index, or with another model or other fields.
        Items that are put meanwhile are left as they are.

        Raises:
            InvalidArgumentError: The store has no index.
        """
        index, resume, count = self._indexed(), None, 0
        while True:
            records, resume = self._perform(self._operations.reindexable(resume))
            vectors = index.vectors((record.value, record.fields) for record in records)
            self._perform(self._operations.reindex(records, vectors))
            count += len(records)
            if resume is None:
                return count

    async def areindex(self) -> int:
        """Async `reindex`."""
        index, resume, count = self._indexed(), None, 0
        while True:
            records, resume = await self._aperform(self._operations.reindexable(resume))
            vectors = await index.avectors((record.value, record.fields) for record in records)
            await self._aperform(self._operations.reindex(records, vectors))
            count += len(records)
            if resume is None:
                return count

    def _indexed(self) -> Index:
        if self._index is None:
            raise InvalidArgumentError("The store has no index; open it with index={...} to reindex.")
        return self._index

    # Checking

    def _jobs(self, ops: Iterable[Op]) -> list[Job]:
        jobs = [Job(check_op(op)) for op in ops]
        if self._index is None or self._index.embeddings is None:
            for job in jobs:
                if isinstance(job.request, Search) and job.request.mode in ("semantic", "hybrid"):
                    raise InvalidArgumentError(
                        f"mode={job.request.mode!r} needs an embedding model. Open the store with "
                        f"index={{'embed': ..., 'dims': ...}}, or search with mode='keyword'."
                    )
        return jobs


def _contents(jobs: Sequence[Job]) -> list[Content]:
    return [(job.request.value, job.request.fields) for job in jobs if isinstance(job.request, Put)]


def _queries(jobs: Sequence[Job]) -> list[str]:
    return [
        job.request.query
        for job in jobs
        if isinstance(job.request, Search) and job.request.query and job.request.mode != "keyword"
    ]


def _fill(jobs: Sequence[Job], vectors: list[Any], queries: Mapping[str, Any]) -> None:
    left = iter(vectors)
    for job in jobs:
        if isinstance(job.request, Put):
            job.vectors = next(left)
        elif isinstance(job.request, Search) and job.request.query is not None:
            job.vectors = queries.get(job.request.query)


def _checked(ttl: TTLConfig | None) -> TTLConfig | None:
    if ttl is None:
        return None
    instance("ttl", ttl, Mapping, "a dict, or None")
    unknown = set(ttl) - _TTL_KEYS
    if unknown:
        raise InvalidArgumentError(f"ttl has no {sorted(map(str, unknown))}; it takes {sorted(_TTL_KEYS)}.")
    if not ttl.get("omit_expired", True):
        raise InvalidArgumentError("omit_expired=False is not offered: what has expired is gone.")
    flag("refresh_on_read", ttl.get("refresh_on_read", False))
    flag("omit_expired", ttl.get("omit_expired", True))
    check_ttl(ttl.get("default_ttl"))
    _check_minutes("sweep_interval_minutes", ttl.get("sweep_interval_minutes"))
    return ttl


def _check_minutes(name: str, minutes: Any) -> None:
    amount(name, minutes, optional=True, most=1e6)
