"""The thread index and leases, for the memory saver."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from threadmark._checks import duration, text
from threadmark.checkpoint.address import check_name, matches, thread_id_of
from threadmark.checkpoint.labels import about, values_of
from threadmark.checkpoint.memory.parts import Thread
from threadmark.checkpoint.memory.shelf import Shelf
from threadmark.checkpoint.threads import (
    ThreadInfo,
    ThreadPage,
    ThreadQuery,
    moment,
    read_cursor,
    write_cursor,
)

__all__ = ["Indexing"]


class Indexing(Shelf):
    """See `threadmark.checkpoint.threads` and `threadmark.checkpoint.leases`."""

    def find_threads(self, query: ThreadQuery, limit: int, cursor: str | None) -> ThreadPage:
        """Return one page of the threads that a query means."""
        after = read_cursor(cursor) if cursor is not None else None
        with self._lock:
            found = [
                (thread, info)
                for thread, info in self._meant(query)
                if after is None or (thread.updated, thread.number) < after
            ]
        page = found[:limit]
        more = len(found) > limit
        return ThreadPage(
            [info for _, info in page],
            write_cursor(page[-1][0].updated, page[-1][0].number) if more else None,
        )

    def count_threads(self, query: ThreadQuery) -> int:
        """Return how many threads a query means."""
        with self._lock:
            return len(self._meant(query))

    def get_thread(self, thread_id: str) -> ThreadInfo | None:
        """Return what is known about a thread."""
        thread_id = thread_id_of(thread_id)
        with self._lock:
            thread = self._thread(thread_id)
            return self._info(thread_id, thread) if thread is not None else None

    def update_thread(
        self, thread_id: str, metadata: Mapping[str, Any] | None, ttl: timedelta | str | None
    ) -> ThreadInfo | None:
        """Change what is known about a thread; `None` if there is no such thread."""
        thread_id = thread_id_of(thread_id)
        added = about(metadata or {}, self._codec)
        with self._lock:
            thread = self._thread(thread_id)
            if thread is None:
                return None
            thread.updated = self._options.now()
            thread.about.update(added)
            if not isinstance(ttl, str):
                thread.ttl = _milliseconds(ttl)
                thread.expires = None if thread.ttl is None else thread.updated + thread.ttl
            return self._info(thread_id, thread)

    def _meant(self, query: ThreadQuery) -> list[tuple[Thread, ThreadInfo]]:
        candidates = [
            (thread, self._info(thread_id, thread))
            for thread_id, thread in self._by_time()
            if (query.status is None or thread.status == query.status)
            and (query.after is None or thread.updated >= query.after)
            and (query.before is None or thread.updated < query.before)
        ]
        return [each for each in candidates if matches(each[1].metadata, query.metadata)]

    def _info(self, thread_id: str, thread: Thread) -> ThreadInfo:
        return ThreadInfo(
            thread_id,
            thread.status,
            moment(thread.created),
            moment(thread.updated),
            values_of(thread.about, self._codec),
            None if thread.expires is None else moment(thread.expires),
        )

    # Leases

    def take_lease(self, thread_id: str, token: str, ttl: timedelta) -> bool:
        """Take or renew a lease, if it is free, has ended, or has this token."""
        text("token", token)
        check_name(token)
        duration("ttl", ttl)
        thread_id = thread_id_of(thread_id)
        with self._lock:
            holder, expires = self._leases.get(thread_id, (token, 0))
            now = self._options.now()
            if holder != token and expires > now:
                return False
            self._leases[thread_id] = (token, now + (_milliseconds(ttl) or 0))
            return True

    def drop_lease(self, thread_id: str, token: str) -> None:
        """Give a lease back, if it still has this token."""
        thread_id = thread_id_of(thread_id)
        with self._lock:
            if self._holder(thread_id) == token:
                del self._leases[thread_id]

    def _holder(self, thread_id: str) -> str | None:
        return self._leases.get(thread_id, (None, 0))[0]


def _milliseconds(time: timedelta | None) -> int | None:
    return None if time is None else max(round(time.total_seconds() * 1000), 1)
