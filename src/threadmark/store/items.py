"""What a store returns: an item, and an item that was found by a search.

Items are plain data. This module knows no store.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from threadmark.store.cursors import Place, write_cursor

__all__ = ["Item", "SearchItem"]


class Item:
    """One remembered value with its address and times.

    Attributes:
        value: The value. It is a copy: changing it does not change the store.
        key: The item's key inside its namespace.
        namespace: The namespace.
        created_at: When the item was first put.
        updated_at: When it was last put.
        version: Which write made it, for `put(..., if_version=item.version)`. Later writes have
            larger versions; no two writes of a store share one.
    """

    __slots__ = ("created_at", "key", "namespace", "updated_at", "value", "version")

    def __init__(
        self,
        *,
        value: dict[str, Any],
        key: str,
        namespace: tuple[str, ...],
        created_at: datetime,
        updated_at: datetime,
        version: int | None = None,
    ) -> None:
        self.value = value
        self.key = key
        # What came through JSON brings a list and texts.
        self.namespace = tuple(namespace)
        self.created_at = _time(created_at)
        self.updated_at = _time(updated_at)
        self.version = version

    def dict(self) -> dict[str, Any]:
        """Return the item as a dictionary that JSON can carry."""
        return {
            "value": self.value,
            "key": self.key,
            "namespace": list(self.namespace),
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and self.dict() == other.dict()

    def __hash__(self) -> int:
        return hash((self.namespace, self.key))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.dict().items())
        return f"{type(self).__name__}({facts})"


class SearchItem(Item):
    """An item that a search found.

    Attributes:
        score: How well it matches the query, higher is better; `None` where nothing was ranked.
    """

    __slots__ = ("_place", "score")

    def __init__(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: dict[str, Any],
        created_at: datetime,
        updated_at: datetime,
        score: float | None = None,
        *,
        version: int | None = None,
        place: Place | None = None,
    ) -> None:
        super().__init__(
            value=value,
            key=key,
            namespace=namespace,
            created_at=created_at,
            updated_at=updated_at,
            version=version,
        )
        self.score = score
        self._place = place

    @property
    def cursor(self) -> str | None:
        """Where this item stands in its search: pass it as `after=` to read on behind it."""
        return None if self._place is None else write_cursor(self._place)

    def dict(self) -> dict[str, Any]:
        """Return the item, and its score if it has one, as a dictionary that JSON can carry."""
        return super().dict() if self.score is None else {**super().dict(), "score": self.score}


def _time(value: datetime | str) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
