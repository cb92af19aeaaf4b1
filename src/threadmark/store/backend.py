"""What a backend keeps, and the small operations that `operations` is written over.

A backend knows how records are stored; it does not know what a put may overwrite, when an item has
expired, what a search returns or in which order. Its methods are operations: generators of effects,
to be used with `yield from`. Those that write are called inside a transaction. All times are in
microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from threadmark._db.effects import Operation
from threadmark.store.checks import Fields
from threadmark.store.cursors import Position
from threadmark.store.namespaces import Span
from threadmark.store.query import Filter

__all__ = ["Backend", "Hit", "Record", "Source", "View"]


@dataclass(slots=True)
class Record:
    """An item as it is stored.

    Attributes:
        seq: The version that created it; the order of items, oldest first.
        namespace: Its namespace.
        key: Its key.
        value: Its value.
        version: The version that last wrote it.
        created_at: When it was created.
        updated_at: When it was last written.
        ttl: How long it lives after it was written or refreshed; `None`: for ever.
        expires_at: When it expires; from that moment on it is gone.
        fields: The paths to index; `None`: as the store is configured.
    """

    seq: int
    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    version: int
    created_at: int
    updated_at: int
    ttl: int | None = None
    expires_at: int | None = None
    fields: Fields | None = None

    def alive(self, now: int) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or self.expires_at > now


class Hit(NamedTuple):
    """A record that a search came upon, with its score and its position in the search's order."""

    record: Record
    score: float | None
    position: Position


class View(NamedTuple):
    """Which records an operation may see.

    Attributes:
        span: The namespaces.
        filter: The values. A backend may use it to fetch fewer records; it need not.
        now: The moment. Expired records must be left out.
        writing: Whether this is inside a transaction that writes: what it wrote must be seen, and may
            yet be undone.
    """

    span: Span
    filter: Filter | None
    now: int
    writing: bool = False


class Source(Protocol):
    """Hits in order, taken a few at a time."""

    def more(self, count: int) -> Operation[list[Hit]]:
        """Return about the next `count` hits; none at the end."""
        ...


class Backend(Protocol):
    """What stores records."""

    shares_values: bool
    """Whether the values of records are those that are stored, and must be copied for callers."""

    def lock(self, places: Iterable[tuple[tuple[str, ...], str]]) -> Operation[None]:
        """Have transactions that will write to the same places (a namespace and a key each) wait for one
        another now, so that they cannot do so crosswise later."""
        ...

    def find(self, namespace: tuple[str, ...], key: str, *, for_update: bool) -> Operation[Record | None]:
        """Return a record, expired or not. `for_update`: nobody else may change it until the end of
        the transaction."""
        ...

    def next_version(self) -> Operation[int]:
        """Return a version that is larger than all that were given before."""
        ...

    def insert(self, record: Record, vectors: Any) -> Operation[None]:
        """Write a record that is not there, with its vectors (an array, or `None`)."""
        ...

    def replace(self, old: Record, new: Record, vectors: Any) -> Operation[None]:
        """Write a record in place of another with the same sequence number, with its vectors."""
        ...

    def remove(self, records: Sequence[Record]) -> Operation[None]:
        """Remove records and all that the indexes hold of them."""
        ...

    def touch(self, records: Sequence[Record], now: int) -> Operation[None]:
        """Start the time to live of records anew, where they are still at the same version."""
        ...

    def expired(self, now: int, limit: int) -> Operation[list[Record]]:
        """Return up to `limit` records that have expired and that nobody else is removing."""
        ...

    def page(
        self, view: View, *, after: int | None, descending: bool, limit: int, offset: int
    ) -> Operation[list[Record]]:
        """Return up to `limit` records by sequence number, from behind the number `after`."""
        ...

    def scan(self, view: View, resume: Any) -> Operation[tuple[list[Record], Any]]:
        """Return some records in any order, and where to resume; `None` at the end."""
        ...

    def count(self, view: View) -> Operation[int]:
        """Return the number of records, whatever the filter."""
        ...

    def namespaces(
        self, span: Span, now: int, after: tuple[str, ...], limit: int
    ) -> Operation[list[tuple[str, ...]]]:
        """Return up to `limit` namespaces that hold living records, sorted, from behind `after`."""
        ...

    def nearest(self, view: View, vector: Any) -> Source:
        """Return the records by similarity to a vector, as positions `(-score, seq)`."""
        ...

    def matching(self, view: View, words: Sequence[str]) -> Source:
        """Return the records that hold any of the words, as positions `(-score, seq)`."""
        ...
