"""Writes the table: to the terminal as it grows, and to docs/benchmarks.md."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sqlite3
import subprocess
from collections.abc import Iterable
from pathlib import Path

from bench.rows import Row

HEAD = ("Work", "LangGraph", "threadmark", "Part", "Floor", "Budget", "Met")
SCALES = {"us": (1e6, "µs"), "ms": (1e3, "ms"), "s": (1.0, "s"), "x": (1.0, "×")}
PACKAGES = (
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "langchain-core",
    "ormsgpack",
    "psycopg",
)


def cells(row: Row) -> tuple[str, ...]:
    """Return a row's texts."""
    return (
        row.work,
        figure(row.peer, row.unit),
        figure(row.ours, row.unit),
        part(row),
        figure(row.floor, row.unit),
        " and ".join(budgets(row)) or "–",
        {True: "yes", False: "**no**", None: "–"}[row.met],
    )


def part(row: Row) -> str:
    """Return which part of the peer's figure ours is."""
    if not row.peer or row.unit == "x":
        return "–"
    if row.ours <= row.peer:
        return f"1/{row.peer / row.ours:.1f}"
    return f"{row.ours / row.peer:.1f} ×"


def budgets(row: Row) -> Iterable[str]:
    """Yield what a row must keep to."""
    if row.share is not None:
        yield f"1/{1 / row.share:.0f}"
    if row.limit is not None:
        yield f"at most {figure(row.limit, row.unit)}"
    if row.times_floor is not None:
        yield f"{row.times_floor} × floor"


def figure(value: float | None, unit: str) -> str:
    """Return a figure with its unit."""
    if value is None:
        return "–"
    if unit == "bytes":
        return f"{value / 1e6:.2f} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"
    scale, name = SCALES[unit]
    scaled = value * scale
    return f"{scaled:,.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f} {name}"


def line(texts: Iterable[str]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(texts) + " |"


def table(rows: Iterable[Row]) -> list[str]:
    """Return a whole table."""
    return [line(HEAD), line(["---"] * len(HEAD)), *(line(cells(row)) for row in rows)]


def document(tables: dict[str, list[str]], peer_python: str) -> str:
    """Return the text of docs/benchmarks.md."""
    versions = peer_versions(peer_python)
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; do not edit. The same programs run on both libraries, each in a",
        "process of its own, in turn; the figures are medians. The floor is the same functions called",
        "in a loop, or the same rows inserted by hand, one transaction a step.",
        "",
        f"- Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        f"- Machine: {cpu()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        f"- Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        *(f"- {name} {version}" for name, version in versions.items()),
    ]
    for title, body in tables.items():
        lines += ["", f"## {title}", "", *body]
    return "\n".join(lines) + "\n"


def peer_versions(python: str) -> dict[str, str]:
    """Return the versions of the packages that the peer runs with."""
    program = (
        "import importlib.metadata as m, json; "
        f"print(json.dumps({{name: m.version(name) for name in {PACKAGES!r}}}))"
    )
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def cpu() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    names = [
        text.split(":", 1)[1].strip()
        for text in (info.read_text() if info.exists() else "").splitlines()
        if text.startswith("model name")
    ]
    return names[0] if names else platform.processor() or platform.machine()
