"""Every saver keeps every promise of the kit, through its sync and its async methods."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import NotOfferedError
from threadmark.testing import SAVER_CHECKS, Check, check_saver, run_saver_check

KEY = bytes(range(32))
SAVERS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: InMemorySaver(),
    "compressed memory": lambda path: InMemorySaver(compress=True),
    "encrypted memory": lambda path: InMemorySaver(serde=EncryptedSerializer(KEY)),
    "sqlite": lambda path: SqliteSaver(path / "x.db"),
    "sqlite connection": lambda path: SqliteSaver(sqlite3.connect(path / "x.db")),
    "sqlite in memory": lambda path: SqliteSaver(":memory:"),
    "compressed sqlite": lambda path: SqliteSaver(path / "x.db", compress=True),
    "encrypted sqlite": lambda path: SqliteSaver(
        path / "x.db", serde=EncryptedSerializer(KEY, searchable=["user"]), compress=True
    ),
}


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("name", SAVERS)
@pytest.mark.parametrize("check", SAVER_CHECKS, ids=str)
def test_promise(check: Check, name: str, face: Any, tmp_path: Path) -> None:
    run_saver_check(check, lambda: SAVERS[name](tmp_path), face)


@pytest.mark.parametrize("check", SAVER_CHECKS, ids=str)
def test_sync_methods_work_inside_an_event_loop(check: Check, tmp_path: Path) -> None:
    async def inside() -> None:
        run_saver_check(check, lambda: SqliteSaver(tmp_path / "x.db"), "sync")

    asyncio.run(inside())


def test_a_report_says_what_was_kept_broken_and_not_offered() -> None:
    class Forgetful(InMemorySaver):
        def delete_thread(self, thread_id: str) -> None:
            """Delete nothing."""

        def prune(self, thread_ids: Any, **rules: Any) -> None:
            raise NotOfferedError("Forgetful", "prune")

    report = check_saver(Forgetful, faces=["sync"])
    assert not report.complete
    broken = {result.check.promise for result in report.broken}
    assert "A deleted thread is gone, in all namespaces, and other threads are not" in broken
    outcomes = {result.outcome for result in report if "prune(" in result.check.promise}
    assert outcomes == {"not offered"}
    assert "broken" in str(report)
    assert check_saver(InMemorySaver, faces=["async"], groups=["classic"]).complete
