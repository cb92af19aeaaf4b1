"""Runs a piece of work on both libraries in turn, each in its own process, and keeps the medians."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.inserts import insert_again

ROOT = Path(__file__).parent.parent
OWN_ENVIRONMENT = ROOT / ".venv-bench" / "bin" / "python"
"""The Python that has LangGraph and what it needs, and nothing else."""
Figures = dict[str, float]


class Side:
    """One library: the Python that runs it, and its worker."""

    def __init__(self, root: str, python: str) -> None:
        self.root = root
        self.python = python
        self.process = subprocess.Popen(
            [python, "-m", "bench.worker", root],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, name: str, folder: str, options: dict[str, Any]) -> Figures:
        """Do some work and return its figures."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, folder, options]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"The worker of {self.root} died during {name}.")
        return json.loads(answer)  # type: ignore[no-any-return]

    def import_seconds(self) -> Figures:
        """Import the library's graph module in a fresh process."""
        program = (
            "import time; start = time.perf_counter(); "
            f"import {self.root}.graph; print(time.perf_counter() - start)"
        )
        done = subprocess.run(
            [self.python, "-W", "ignore", "-c", program],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return {"seconds": float(done.stdout)}

    def close(self) -> None:
        """End the worker."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def in_turn(sides: dict[str, Callable[[str], Figures]], rounds: int) -> dict[str, Figures]:
    """Let the sides take turns, each with a new folder, and return each one's medians."""
    seen: dict[str, list[Figures]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            with tempfile.TemporaryDirectory() as folder:
                seen[name].append(run(folder))
    return {name: medians(figures) for name, figures in seen.items()}


def medians(figures: list[Figures]) -> Figures:
    """Return the median of each figure."""
    return {key: statistics.median(f[key] for f in figures) for key in figures[0]}


def sqlite_floor(ours: Side, folder: str, options: dict[str, Any]) -> Figures:
    """Let our saver write a file, and insert its rows by hand."""
    ours.run("supersteps", folder, {**options, "saver": "sqlite"})
    (source,) = Path(folder).glob("*.db")
    synchronous = "FULL" if options["durability"] == "sync" else "NORMAL"
    steps = options["steps"]
    return {"step": insert_again(source, Path(folder) / "floor.db", steps, synchronous)}
