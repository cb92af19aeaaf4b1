"""The floor under our SQLite saver: the rows that it wrote, inserted by hand, one transaction a step.

The rows are taken from a file that a run left, table by table, so this knows no schema: each table's
rows are dealt out evenly over the steps, and a table of a few rows has its last one replaced each time.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

Rows = list[tuple[Any, ...]]


def insert_again(source: Path, target: Path, steps: int, synchronous: str) -> float:
    """Insert the rows of `source` into a new file `target`; seconds for each step."""
    schema, tables = read(source)
    connection = sqlite3.connect(target, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    for statement in schema:
        connection.execute(statement)
    plan = [(insert(name, rows), deal(rows, steps)) for name, rows in tables.items() if rows]
    start = time.perf_counter()
    for step in range(steps):
        connection.execute("BEGIN IMMEDIATE")
        for statement, shares in plan:
            connection.executemany(statement, shares[step])
        connection.execute("COMMIT")
    took = time.perf_counter() - start
    connection.close()
    return took / steps


def read(source: Path) -> tuple[list[str], dict[str, Rows]]:
    """Return the statements that make the tables, and their rows."""
    connection = sqlite3.connect(source)
    made = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    names = [name for kind, name, _ in made if kind == "table"]
    tables = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
    connection.close()
    return [sql for _, _, sql in made], tables


def insert(name: str, rows: Rows) -> str:
    """The statement that inserts one row."""
    marks = ", ".join("?" * len(rows[0]))
    return f'INSERT OR REPLACE INTO "{name}" VALUES ({marks})'


def deal(rows: Rows, steps: int) -> list[Rows]:
    """Deal rows out over the steps."""
    if len(rows) < steps // 2:
        return [rows[-1:]] * steps
    return [rows[len(rows) * i // steps : len(rows) * (i + 1) // steps] for i in range(steps)]
