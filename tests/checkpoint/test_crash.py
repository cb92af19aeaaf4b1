"""Every operation, abandoned at every effect: what is found afterwards is all of it or nothing of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.base import TaskWrites
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.testing import Stopped, abandoned

from .helpers import Run, config, dump, fill, shown


def first_step(saver: SqliteSaver) -> None:
    Run(saver, "new").step("c0", l=[1], n=1, about={"user": "v", "run_id": "r"})


def next_step(saver: SqliteSaver) -> None:
    run = Run(saver)
    run.step("f1", writes=[TaskWrites("t", "~", [("l", 1)])], l=[*run.values["l"], "more"], n="new")


def edit_step(saver: SqliteSaver) -> None:
    run = Run(saver)
    run.step("f1", l=["edited", *run.values["l"][1:], "more"], about={"user": "other"})


def fork_step(saver: SqliteSaver) -> None:
    run = Run(saver, checkpoint_id="c4")
    run.step("g0", l=[*run.values["l"], "g"], n=None)


def writes(saver: SqliteSaver) -> None:
    Run(saver).save(TaskWrites("x", "~", [("l", 1), ("__resume__", 2)]), TaskWrites("y", "~", [("l", 3)]))


def put(saver: SqliteSaver) -> None:
    checkpoint = Run(saver).work("p0", l=["put"], n=2).checkpoint
    new = dict.fromkeys(("l", "n"), checkpoint["channel_versions"]["l"])
    saver.put(config("t", "", "f0"), checkpoint, {"run_id": "put"}, new)


OPERATIONS: dict[str, Callable[[SqliteSaver], Any]] = {
    "first step": first_step,
    "next step": next_step,
    "edit": edit_step,
    "fork": fork_step,
    "writes": writes,
    "put": put,
    "prune latest": lambda s: s.prune(["t"], keep="latest"),
    "prune last": lambda s: s.prune(["t"], keep_last=2),
    "prune old": lambda s: s.prune(["t"], older_than=timedelta(0)),
    "delete runs": lambda s: s.delete_for_runs(["t-run1", "t-fork"]),
    "delete all runs": lambda s: s.delete_for_runs(["t-run0", "t-run1", "t-run2", "t-fork"]),
    "delete": lambda s: s.delete_thread("t"),
    "copy": lambda s: s.copy_thread("t", "copy"),
    "create branch": lambda s: s.create_branch(config("t"), "new"),
    "rename branch": lambda s: s.rename_branch(config("t"), "try", "new"),
    "switch branch": lambda s: s.switch_branch(config("t"), "try"),
    "delete branch": lambda s: s.delete_branch(config("t"), "try"),
    "update": lambda s: s.threads.update("t", metadata={"user": "v"}, ttl=timedelta(days=1)),
    "lease": lambda s: s.take_lease("t", "token", timedelta(days=1)),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "x.db"
    with SqliteSaver(path) as saver:
        fill(saver)
        fill(saver, "other")
    return path


def without_clock(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: found for name, found in rows.items() if name not in ("tm_leases", "tm_threads")}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_abandoned_operation_is_done_or_was_never_begun(name: str, template: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    shutil.copy(template, path)
    before = without_clock(dump(path))
    with SqliteSaver(path) as saver:
        OPERATIONS[name](saver)
    after = without_clock(dump(path))
    assert name in ("lease", "update") or after != before
    at = 0
    while True:
        shutil.copy(template, path)
        with SqliteSaver(path) as saver:
            try:
                with abandoned(saver._database, at):
                    OPERATIONS[name](saver)
            except Stopped:
                pass
            else:
                break
        found = without_clock(dump(path))
        assert found in (before, after), f"half done at effect {at}"
        with SqliteSaver(path) as saver:
            assert all(shown(saver, "other"))
            OPERATIONS[name](saver) if found == before else None
            assert without_clock(dump(path)) == after
            Run(saver).step("afterwards", l=["afterwards"])
        at += 1
    assert at > 2
