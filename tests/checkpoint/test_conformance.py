"""Every saver keeps every promise of the kit, through its sync and its async methods."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.testing import SAVER_CHECKS, Check, run_saver_check

SAVERS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: InMemorySaver(),
    "compressed memory": lambda path: InMemorySaver(compress=True),
    "sqlite": lambda path: SqliteSaver(path / "x.db"),
    "sqlite connection": lambda path: SqliteSaver(sqlite3.connect(path / "x.db")),
    "sqlite in memory": lambda path: SqliteSaver(":memory:"),
    "compressed sqlite": lambda path: SqliteSaver(path / "x.db", compress=True),
}


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("name", SAVERS)
@pytest.mark.parametrize("check", SAVER_CHECKS, ids=str)
def test_promise(check: Check, name: str, face: Any, tmp_path: Path) -> None:
    run_saver_check(check, lambda: SAVERS[name](tmp_path), face)
