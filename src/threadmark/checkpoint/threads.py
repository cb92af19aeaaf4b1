"""The thread index: which threads there are, found by what is known about them, never by their values."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from threadmark._checks import shown
from threadmark.checkpoint.bridge import Bridged
from threadmark.checkpoint.records import ThreadStatus
from threadmark.errors import InvalidArgumentError

__all__ = ["ThreadIndex", "ThreadInfo", "ThreadPage", "ThreadQuery", "Threads"]

FRESH_MS = 1_000
"""How old a thread's `updated` may be before a commit that changes nothing else renews it."""

STATUSES = ("idle", "running", "paused", "failed")
_LARGEST_PAGE = 10_000
_LAST_DATE = 253_402_300_799_000


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """What is known about a thread.

    Attributes:
        thread_id: The thread.
        status: `"idle"`, `"running"`, `"paused"` or `"failed"`.
        created_at: When its first checkpoint was saved.
        updated_at: When it changed last, to the second.
        metadata: The metadata of its runs, and what `update` added.
        expires_at: When it will be gone; `None` for never.
    """

    thread_id: str
    status: ThreadStatus
    created_at: datetime
    updated_at: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """A page of a listing.

    Attributes:
        threads: The threads, those that changed last first.
        cursor: Give this to get the next page; `None` when this is the last one.
    """

    threads: Sequence[ThreadInfo]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ThreadQuery:
    """Which threads are meant. Times are milliseconds since 1970.

    Attributes:
        metadata: Entries that the thread's metadata must have.
        status: The status that it must have.
        after: It changed at this time or later.
        before: It changed before this time.
    """

    metadata: Mapping[str, Any] = field(default_factory=dict)
    status: ThreadStatus | None = None
    after: int | None = None
    before: int | None = None


class _Index:
    """Gives a saver its index. A saver that has an attribute of that name already keeps it."""

    def __get__(self, saver: Threads | None, owner: type) -> ThreadIndex:
        if saver is None:
            raise AttributeError(f"The thread index belongs to a saver, not to the class {owner.__name__}.")
        return ThreadIndex(saver)


class Threads(Bridged):
    """What a saver offers behind its `threads`."""

    threads = _Index()
    """The thread index."""

    def find_threads(self, query: ThreadQuery, limit: int, cursor: str | None) -> ThreadPage:
        """Return one page of the threads that a query means."""
        page: ThreadPage = self._sync("find_threads", query, limit, cursor)
        return page

    async def afind_threads(self, query: ThreadQuery, limit: int, cursor: str | None) -> ThreadPage:
        """Async `find_threads`."""
        page: ThreadPage = await self._async("find_threads", query, limit, cursor)
        return page

    def count_threads(self, query: ThreadQuery) -> int:
        """Return how many threads a query means."""
        count: int = self._sync("count_threads", query)
        return count

    async def acount_threads(self, query: ThreadQuery) -> int:
        """Async `count_threads`."""
        count: int = await self._async("count_threads", query)
        return count

    def get_thread(self, thread_id: str) -> ThreadInfo | None:
        """Return what is known about a thread."""
        found: ThreadInfo | None = self._sync("get_thread", thread_id)
        return found

    async def aget_thread(self, thread_id: str) -> ThreadInfo | None:
        """Async `get_thread`."""
        found: ThreadInfo | None = await self._async("get_thread", thread_id)
        return found

    def update_thread(
        self, thread_id: str, metadata: Mapping[str, Any] | None, ttl: timedelta | str | None
    ) -> ThreadInfo | None:
        """Change what is known about a thread; `None` if there is no such thread."""
        found: ThreadInfo | None = self._sync("update_thread", thread_id, metadata, ttl)
        return found

    async def aupdate_thread(
        self, thread_id: str, metadata: Mapping[str, Any] | None, ttl: timedelta | str | None
    ) -> ThreadInfo | None:
        """Async `update_thread`."""
        found: ThreadInfo | None = await self._async("update_thread", thread_id, metadata, ttl)
        return found


class ThreadIndex:
    """Finds threads of a saver. Every method has an async twin."""

    def __init__(self, saver: Threads) -> None:
        self._saver = saver

    def list(
        self,
        *,
        status: ThreadStatus | None = None,
        updated_after: datetime | None = None,
        updated_before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ThreadPage:
        """Return a page of threads, those that changed last first.

        Args:
            status: Only threads of this status.
            updated_after: Only threads that changed at this time or later.
            updated_before: Only threads that changed before this time.
            limit: How many at most.
            cursor: From the page before.

        Raises:
            InvalidArgumentError: An argument has no meaning.
        """
        query = _query({}, status, updated_after, updated_before)
        return self._saver.find_threads(query, _page_size(limit), cursor)

    async def alist(
        self,
        *,
        status: ThreadStatus | None = None,
        updated_after: datetime | None = None,
        updated_before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ThreadPage:
        """Async `list`."""
        query = _query({}, status, updated_after, updated_before)
        return await self._saver.afind_threads(query, _page_size(limit), cursor)

    def search(
        self,
        metadata: Mapping[str, Any],
        *,
        status: ThreadStatus | None = None,
        updated_after: datetime | None = None,
        updated_before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ThreadPage:
        """Return a page of the threads whose metadata has all of these entries, and see `list`."""
        query = _query(metadata, status, updated_after, updated_before)
        return self._saver.find_threads(query, _page_size(limit), cursor)

    async def asearch(
        self,
        metadata: Mapping[str, Any],
        *,
        status: ThreadStatus | None = None,
        updated_after: datetime | None = None,
        updated_before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ThreadPage:
        """Async `search`."""
        query = _query(metadata, status, updated_after, updated_before)
        return await self._saver.afind_threads(query, _page_size(limit), cursor)

    def count(self, metadata: Mapping[str, Any] | None = None, *, status: ThreadStatus | None = None) -> int:
        """Return how many threads there are with this metadata and status."""
        return self._saver.count_threads(_query(metadata or {}, status, None, None))

    async def acount(
        self, metadata: Mapping[str, Any] | None = None, *, status: ThreadStatus | None = None
    ) -> int:
        """Async `count`."""
        return await self._saver.acount_threads(_query(metadata or {}, status, None, None))

    def get(self, thread_id: str) -> ThreadInfo | None:
        """Return what is known about a thread, or `None`."""
        return self._saver.get_thread(thread_id)

    async def aget(self, thread_id: str) -> ThreadInfo | None:
        """Async `get`."""
        return await self._saver.aget_thread(thread_id)

    def update(
        self,
        thread_id: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        ttl: timedelta | str | None = "keep",
    ) -> ThreadInfo | None:
        """Change what is known about a thread.

        Args:
            thread_id: The thread.
            metadata: Entries to add or replace.
            ttl: How long the thread lives from now on; `None` for ever.

        Returns:
            What is known now, or `None` if there is no such thread.
        """
        return self._saver.update_thread(thread_id, _entries(metadata), _ttl(ttl))

    async def aupdate(
        self,
        thread_id: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        ttl: timedelta | str | None = "keep",
    ) -> ThreadInfo | None:
        """Async `update`."""
        return await self._saver.aupdate_thread(thread_id, _entries(metadata), _ttl(ttl))


def milliseconds(moment: datetime) -> int:
    """Return a time as milliseconds since 1970. One without a zone is taken as local."""
    return round(moment.timestamp() * 1000)


def moment(milliseconds: int) -> datetime:
    """Return a time in UTC, as far as it has a date: what lives for ages expires at the end of time."""
    return datetime.fromtimestamp(min(max(milliseconds, 0), _LAST_DATE) / 1000, UTC)


def _query(
    metadata: Mapping[str, Any],
    status: ThreadStatus | None,
    after: datetime | None,
    before: datetime | None,
) -> ThreadQuery:
    if status is not None and (not isinstance(status, str) or status not in STATUSES):
        raise InvalidArgumentError(f"status is one of {', '.join(STATUSES)}, not {shown(status)}.")
    for name, given in (("updated_after", after), ("updated_before", before)):
        if given is not None and not isinstance(given, datetime):
            raise InvalidArgumentError(f"{name} is a datetime, or None, not {shown(given)}.")
    return ThreadQuery(
        _entries(metadata),
        status,
        None if after is None else milliseconds(after),
        None if before is None else milliseconds(before),
    )


def _entries(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, Mapping) or not all(type(key) is str for key in metadata):
        raise InvalidArgumentError(f"metadata is a dict from keys to values, not {shown(metadata)}.")
    return dict(metadata)


def _page_size(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit <= _LARGEST_PAGE:
        raise InvalidArgumentError(f"limit is a whole number from 1 to {_LARGEST_PAGE}, not {shown(limit)}.")
    return limit


def _ttl(ttl: timedelta | str | None) -> timedelta | str | None:
    if ttl == "keep" or ttl is None or (isinstance(ttl, timedelta) and ttl > timedelta()):
        return ttl
    raise InvalidArgumentError(f"ttl is a positive timedelta, or None for ever, not {shown(ttl)}.")


def write_cursor(updated: int, thread: int) -> str:
    """Return the cursor of the page that follows a thread."""
    return base64.urlsafe_b64encode(f"{updated}.{thread}".encode()).decode()


def read_cursor(cursor: str) -> tuple[int, int]:
    """Undo `write_cursor`.

    Raises:
        InvalidArgumentError: It is not one of ours.
    """
    try:
        updated, thread = base64.urlsafe_b64decode(cursor.encode()).decode().split(".")
        return int(updated), int(thread)
    except (ValueError, AttributeError, binascii.Error) as error:
        raise InvalidArgumentError(
            f"{shown(cursor)} is no cursor of this index; take it from the page before."
        ) from error
