"""What a store does, written once for all backends as generators of effects.

Conditions of a put, expiry, order, paging, ranking: all of it is decided here, over the small
operations of a `Backend`. Requests come in checked and with their vectors; nothing here embeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from threadmark._db.effects import Operation, Transaction
from threadmark.errors import StoreConflictError
from threadmark.store.backend import Backend, Record, View
from threadmark.store.checks import Count, Get, ListNamespaces, Put, Request, Search
from threadmark.store.items import Item
from threadmark.store.namespaces import ends_with, span_of, starts_with
from threadmark.store.ops import Result
from threadmark.store.searching import found
from threadmark.store.times import as_datetime, as_moment
from threadmark.store.values import clone

__all__ = ["Answers", "Job", "Operations"]

_SWEPT_BY_PUT = 8
_NAMESPACES_PAGE = 1_000


@dataclass(slots=True)
class Job:
    """A request with what the embedding model had to say about it.

    Attributes:
        request: The request.
        vectors: Of a put: an array with the vectors of its texts, or `None`. Of a search: the query's
            vector, or `None`.
    """

    request: Request
    vectors: Any = None


@dataclass(slots=True)
class Answers:
    """What the requests of a batch were answered. A batch that is started again goes on from here.

    Attributes:
        results: The answers; `None` before all requests were carried out.
        read: The records that were read, and whose time to live begins anew.
    """

    results: list[Result] | None = None
    read: list[Record] = field(default_factory=list)


class Operations:
    """The operations of one store.

    Args:
        backend: What keeps the records.
        clock: Returns the time in seconds since 1970.
        refresh: Whether reading refreshes the time to live unless told otherwise.
        semantic: Whether queries are ranked by meaning unless told otherwise.
        durable: Whether what was written must survive a power cut.
    """

    def __init__(
        self, backend: Backend, *, clock: Callable[[], float], refresh: bool, semantic: bool, durable: bool
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._refresh = refresh
        self._semantic = semantic
        self._durable = durable

    def batch(self, jobs: Sequence[Job], answers: Answers | None = None) -> Operation[list[Result]]:
        """Carry out requests in order, all or none.

        Args:
            jobs: The requests.
            answers: How far the batch has come, when it may be started again.

        Raises:
            StoreConflictError: A condition of a put does not hold.
        """
        found = answers or Answers()
        if found.results is None:
            found.read = []
            found.results = yield from self._carry_out(jobs, found.read)
        if found.read:
            # By itself, so that nobody who writes something else has to wait for it.
            yield Transaction(self._backend.touch(found.read, self._now()))
        return found.results

    def _carry_out(self, jobs: Sequence[Job], touched: list[Record]) -> Operation[list[Result]]:
        if any(isinstance(job.request, Put) for job in jobs):
            return (yield Transaction(self._write(jobs, touched), self._durable))  # type: ignore[no-any-return]
        if len(jobs) == 1:
            return (yield from self._each(jobs, self._now(), touched))
        results: list[Result] = yield Transaction(self._each(jobs, self._now(), touched), read_only=True)
        return results

    def sweep(self, limit: int) -> Operation[int]:
        """Remove up to `limit` expired items, and return how many there were."""
        return (yield Transaction(self._sweep(self._now(), limit)))  # type: ignore[no-any-return]

    def reindexable(self, resume: Any) -> Operation[tuple[list[Record], Any]]:
        """Return some of all items, and where to resume; `None` at the end."""
        view = View(span_of(()), None, self._now())
        return (yield from self._backend.scan(view, resume))

    def reindex(self, records: Sequence[Record], vectors: Sequence[Any]) -> Operation[None]:
        """Index records anew, where they have not changed."""
        yield Transaction(self._reindex(records, vectors), self._durable)

    def _reindex(self, records: Sequence[Record], vectors: Sequence[Any]) -> Operation[None]:
        for record, own in zip(records, vectors, strict=True):
            there = yield from self._backend.find(record.namespace, record.key, for_update=True)
            if there is not None and there.version == record.version:
                yield from self._backend.replace(there, there, own)

    # One request after the other

    def _write(self, jobs: Sequence[Job], touched: list[Record]) -> Operation[list[Result]]:
        places = {(job.request.namespace, job.request.key) for job in jobs if isinstance(job.request, Put)}
        yield from self._backend.lock(places)
        # The time is read inside the transaction: waiting for it may have taken a while.
        now = self._now()
        results = yield from self._each(jobs, now, touched, writing=True)
        if any(isinstance(job.request, Put) and job.request.ttl for job in jobs):
            # Whoever adds what expires removes more of it than they add, so that it cannot pile up.
            yield from self._sweep(now, _SWEPT_BY_PUT + len(jobs))
        return results

    def _each(
        self, jobs: Sequence[Job], now: int, touched: list[Record], writing: bool = False
    ) -> Operation[list[Result]]:
        results: list[Result] = []
        for job in jobs:
            results.append((yield from self._one(job, now, touched, writing)))
        return results

    def _one(self, job: Job, now: int, touched: list[Record], writing: bool) -> Operation[Result]:
        request = job.request
        if isinstance(request, Get):
            return (yield from self._get(request, now, touched))
        if isinstance(request, Put):
            return (yield from self._put(request, job.vectors, now))
        if isinstance(request, Search):
            view = View(request.span, request.filter, now, writing)
            records, items = yield from found(self._backend, request, view, job.vectors, self._semantic)
            touched += self._to_touch(request.refresh, records)
            return items
        if isinstance(request, Count):
            return (yield from self._count(request, now))
        return (yield from self._list_namespaces(request, now))

    def _get(self, request: Get, now: int, touched: list[Record]) -> Operation[Item | None]:
        record = yield from self._backend.find(request.namespace, request.key, for_update=False)
        if record is None or not record.alive(now):
            return None
        touched += self._to_touch(request.refresh, [record])
        return Item(
            value=clone(record.value) if self._backend.shares_values else record.value,
            key=record.key,
            namespace=record.namespace,
            created_at=as_datetime(record.created_at),
            updated_at=as_datetime(record.updated_at),
            version=record.version,
        )

    def _to_touch(self, asked: bool | None, records: list[Record]) -> list[Record]:
        wanted = self._refresh if asked is None else asked
        return [record for record in records if record.ttl is not None] if wanted else []

    # Writing

    def _put(self, request: Put, vectors: Any, now: int) -> Operation[int | None]:
        there = yield from self._backend.find(request.namespace, request.key, for_update=True)
        living = there if there is not None and there.alive(now) else None
        _check_condition(request, living)
        if there is not None and (request.value is None or living is None):
            yield from self._backend.remove([there])
        if request.value is None:
            return None
        version = yield from self._backend.next_version()
        record = Record(
            seq=version,
            namespace=request.namespace,
            key=request.key,
            value=request.value,
            version=version,
            created_at=now,
            updated_at=now,
            ttl=request.ttl,
            expires_at=None if request.ttl is None else now + request.ttl,
            fields=request.fields,
        )
        if living is None:
            yield from self._backend.insert(record, vectors)
        else:
            record = replace(record, seq=living.seq, created_at=living.created_at)
            yield from self._backend.replace(living, record, vectors)
        return version if request.returning else None

    def _sweep(self, now: int, limit: int) -> Operation[int]:
        expired = yield from self._backend.expired(now, limit)
        if expired:
            yield from self._backend.remove(expired)
        return len(expired)

    # Counting and listing

    def _count(self, request: Count, now: int) -> Operation[int]:
        view = View(request.span, request.filter, now)
        if request.filter is None:
            return (yield from self._backend.count(view))
        count, resume = 0, None
        while True:
            records, resume = yield from self._backend.scan(view, resume)
            count += sum(request.filter(record.value) for record in records)
            if resume is None:
                return count

    def _list_namespaces(self, request: ListNamespaces, now: int) -> Operation[list[tuple[str, ...]]]:
        listed: list[tuple[str, ...]] = []
        span = span_of(_literal_part(request.prefixes))
        last: tuple[str, ...] = ()
        wanted = request.offset + request.limit
        while len(listed) < wanted:
            page = yield from self._backend.namespaces(span, now, last, _NAMESPACES_PAGE)
            for namespace in page:
                cut = namespace[: request.max_depth]
                # They come sorted, so the same cut comes several times in a row.
                if _wanted(namespace, request) and (not listed or listed[-1] != cut):
                    listed.append(cut)
            if len(page) < _NAMESPACES_PAGE:
                break
            last = page[-1]
        return listed[request.offset : wanted]

    def _now(self) -> int:
        return as_moment(self._clock())


def _check_condition(request: Put, living: Record | None) -> None:
    version = None if living is None else living.version
    conditional = request.if_absent or request.if_version is not None
    if conditional and version != request.if_version:
        raise StoreConflictError(request.namespace, request.key, request.if_version, version)


def _literal_part(prefixes: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    path = prefixes[0] if prefixes else ()
    return path[: path.index("*")] if "*" in path else path


def _wanted(namespace: tuple[str, ...], request: ListNamespaces) -> bool:
    return all(starts_with(namespace, path) for path in request.prefixes) and all(
        ends_with(namespace, path) for path in request.suffixes
    )
