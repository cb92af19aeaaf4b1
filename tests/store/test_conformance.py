"""Every store of ours keeps every promise of the kit, through its sync and its async methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from threadmark.errors import NotOfferedError
from threadmark.store.base import BaseStore, Op, Result
from threadmark.store.memory import InMemoryStore
from threadmark.testing.stores import (
    STORE_CHECKS,
    StoreCheck,
    StoreFactory,
    StoreOptions,
    check_store,
    run_store_check,
)


@pytest.mark.parametrize("check", STORE_CHECKS, ids=str)
@pytest.mark.parametrize("face", ["sync", "async"])
def test_store_keeps(check: StoreCheck, face: Any, open_store: StoreFactory) -> None:
    run_store_check(check, open_store, face)


class Wrapper(BaseStore):
    """A store of somebody else: no clock, no index, no times to live, and it forgets versions."""

    def __init__(self) -> None:
        self._inner = InMemoryStore()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return [None if isinstance(result, int) else result for result in self._inner.batch(ops)]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self.batch(ops)


def test_the_kit_reports_what_is_broken_and_what_is_not_offered() -> None:
    def factory(options: StoreOptions) -> BaseStore:
        if options.index or options.ttl:
            raise NotOfferedError("Wrapper", "an index")
        return Wrapper()

    report = check_store(factory, groups=["items", "searching"], faces=["sync"])

    outcomes = {result.check.promise: result.outcome for result in report}
    assert outcomes["A value comes back equal and of the same types."] == "kept"
    assert outcomes["A query ranks items by meaning, and scores fall from the first to the last."] == (
        "not offered"
    )
    assert "A put with `if_version` writes only over that version; the loser changes nothing." in [
        result.check.promise for result in report.broken
    ]
    assert not report.complete
