"""The demo tells the truth: what it says of the kill, the resume, the fork and the costs did happen."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def told(place: Path) -> str:
    """What the demo prints when nobody sits at the terminal."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_process_is_killed_between_two_tasks_of_a_step(told: str) -> None:
    assert "killed in the middle of a superstep (exit code -9)" in told
    assert "The thread waits for check_warranty; order: 4711" in told


def test_what_was_finished_does_not_run_again(told: str, place: Path) -> None:
    runs = (place / ".demo" / "runs.txt").read_text().split()
    assert runs.count("read") == 1
    assert runs.count("look_up_order") == 1
    assert runs.count("check_warranty") == 2


def test_the_human_and_the_fork_lead_to_two_endings(told: str) -> None:
    assert "Shall I refund 80 EUR? [yes] yes" in told
    assert re.search(r"6\. Answered\.\n.*We offer you: refund 80 EUR\.", told)
    assert "We offer you: 10 % off a new kettle." in told
    assert "The first ending is still there: We are sorry" in told


def test_the_tree_shows_both_branches_and_true_costs(told: str, place: Path) -> None:
    rows = re.findall(r"^ {3}([|` -]*)(-?\d) (\w+) +(\d+) +([\d.]+)   (.*)$", told, re.MULTILINE)
    sources = [source for _, _, source, *_ in rows]
    assert sources.count("input") == 1
    assert sources.count("update") == 1
    assert [mark.strip() for mark, *_ in rows].count("`--") == 1
    assert any(wrote.startswith("check_warranty: {'warranty': 'expired'}") for *_, wrote in rows)
    content = sum(int(size) for _, _, _, size, _, _ in rows)
    assert content == stored(place / ".demo" / "support.db")


def stored(path: Path) -> int:
    """All bytes of content in our tables."""
    with sqlite3.connect(path) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return sum(
            len(value if isinstance(value, bytes) else str(value).encode())
            for (name,) in tables
            if name.startswith("tm_")
            for row in connection.execute(f'SELECT * FROM "{name}"')
            for value in row
            if value is not None
        )


def test_it_ends_with_what_to_try_next(told: str) -> None:
    *_, last = told.strip().split("\n\n")
    assert last.startswith("Try next:")
    assert len(last.splitlines()) >= 4
