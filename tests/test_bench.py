"""The benchmark runs and fills its table. What it measures is not judged here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

ROWS = [
    "Superstep, one small node, no saver",
    "The same, memory saver",
    "The same, SQLite, durability async",
    "The same, SQLite, durability sync",
    "SQLite file after",
    "Chat, .*: file",
    "Chat, .*: last turn",
    "Chat, .*: history listed",
    "Step .* against step",
    "`import threadmark.graph`",
]


def test_the_benchmark_fills_its_table(tmp_path: Path) -> None:
    out = tmp_path / "benchmarks.md"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    written = out.read_text(encoding="utf-8")
    runs = written.split("## Runs")[1].split("\n## ")[0]
    lines = [line for line in runs.splitlines() if line.startswith("| ")]
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert head == ["Work", "LangGraph", "threadmark", "Part", "Floor", "Budget", "Met"]
    assert len(body) == len(ROWS)
    for (work, peer, ours, *_, met), pattern in zip(body, ROWS, strict=True):
        assert re.match(pattern, work), (work, pattern)
        assert re.match(r"[\d,.]+ (µs|ms|s|kB|MB|×)$", peer), work
        assert re.match(r"[\d,.]+ (µs|ms|s|kB|MB|×)$", ours), work
        assert met in ("yes", "**no**")
    assert "- Python 3." in written
    assert "- langgraph " in written
