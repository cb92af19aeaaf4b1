"""The stores under test, each opened empty."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from threadmark.store.core import RecordStore
from threadmark.store.memory import InMemoryStore
from threadmark.store.sqlite import SqliteStore
from threadmark.testing.stores import StoreOptions

STORES = ["memory", "sqlite file", "sqlite memory"]


@pytest.fixture
def open_named(tmp_path: Path) -> Callable[[str, StoreOptions], RecordStore]:
    """Return what opens a store of a kind, in a file of its own."""
    numbers = itertools.count()

    def opened(kind: str, options: StoreOptions) -> RecordStore:
        arguments: dict[str, Any] = {"index": options.index, "ttl": options.ttl, "clock": options.clock}
        if kind == "memory":
            return InMemoryStore(**arguments)
        place = ":memory:" if kind == "sqlite memory" else str(tmp_path / f"store{next(numbers)}.db")
        return SqliteStore(place, **arguments)

    return opened


@pytest.fixture(params=STORES)
def open_store(
    request: pytest.FixtureRequest, open_named: Callable[[str, StoreOptions], RecordStore]
) -> Callable[[StoreOptions], RecordStore]:
    """Return what opens a store of each kind in turn."""
    return lambda options: open_named(request.param, options)
