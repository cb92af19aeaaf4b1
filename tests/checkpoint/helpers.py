"""What several tests need: threads that have something of everything, and everything that a file holds."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from threadmark.checkpoint.base import BaseCheckpointSaver, Commit, TaskCommit, TaskWrites
from threadmark.checkpoint.encode import Memo

VOLATILE = {"updated", "created"}


def config(thread_id: str, ns: str | None = "", checkpoint_id: str | None = None, **more: Any) -> Any:
    """Return a config."""
    named = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id, **more}
    return {"configurable": {key: value for key, value in named.items() if value is not None}}


class Run:
    """A run that commits one superstep after the other, as the engine does."""

    def __init__(
        self, saver: BaseCheckpointSaver[str], thread_id: str = "t", ns: str = "", **at: Any
    ) -> None:
        self.saver, self.thread_id, self.ns = saver, thread_id, ns
        loaded = saver.load(config(thread_id, ns, **at))
        self.head, self.memo = loaded.head, loaded.memo or Memo()
        saved = loaded.saved
        self.tip = saved.checkpoint["id"] if saved else None
        self.values = dict(saved.checkpoint["channel_values"]) if saved else {}
        self.versions = dict(saved.checkpoint["channel_versions"]) if saved else {}

    def work(
        self, name: str, *, writes: Any = (), about: Any = None, changes: Any = None, **more: Any
    ) -> Commit:
        """Return the next commit."""
        changes = {**(changes or {}), **more}
        latest = max(self.versions.values(), default="0")
        version = f"{int(latest.split('.')[0]) + 1:032}.0.{name}"
        new = dict.fromkeys(changes, version)
        values, versions = {**self.values, **changes}, {**self.versions, **new}
        checkpoint: Any = {
            "v": 4,
            "ts": "2026-01-01T00:00:00+00:00",
            "id": name,
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": {},
            "updated_channels": None,
        }
        return Commit(
            self.thread_id, self.ns, self.tip, checkpoint, about or {}, new, writes, self.head, memo=self.memo
        )

    def commit(self, work: Commit) -> None:
        """Save a commit."""
        self.head = self.saver.commit(self.saver.prepare(work)) or self.head
        self.tip = work.checkpoint["id"]
        self.values = work.checkpoint["channel_values"]
        self.versions = work.checkpoint["channel_versions"]

    def step(self, name: str, **more: Any) -> None:
        """Save one more checkpoint."""
        self.commit(self.work(name, **more))

    def save(self, *writes: TaskWrites) -> None:
        """Save writes of tasks that ran from the tip."""
        work = TaskCommit(self.thread_id, self.ns, self.tip or "", writes, self.head)
        self.saver.commit(self.saver.prepare(work))


def fill(saver: BaseCheckpointSaver[str], thread_id: str = "t") -> None:
    """Create a thread with lists, forks, branches, a sub-graph, writes, runs and metadata."""
    run = Run(saver, thread_id)
    items: list[Any] = []
    for n in range(6):
        items = [*items[n // 4 :], {"n": n}]
        task = TaskWrites(f"task{n}", "~1", [("l", items[-1])])
        about = {"run_id": f"{thread_id}-run{n // 2}", "user": "u"}
        run.step(f"c{n}", writes=[task] if n else [], about=about, l=items, n=n)
        run.save(TaskWrites(f"ahead{n}", "~2", [("n", n), ("__interrupt__", "?")]))
    fork = Run(saver, thread_id, checkpoint_id="c2")
    fork.step("f0", l=[*fork.values["l"], "fork"], about={"run_id": f"{thread_id}-fork"})
    saver.create_branch(config(thread_id, "", "c1"), "try")
    inner = Run(saver, thread_id, "node:task")
    for n in range(2):
        inner.step(f"i{n}", l=[n], about={"parents": {"": "f0"}})


def dump(path: Path) -> dict[str, list[Any]]:
    """Return every row of our tables, without the times."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    tables = "SELECT name FROM sqlite_schema WHERE name GLOB 'tm_*' AND type = 'table'"
    names = [row[0] for row in connection.execute(tables)]
    found = {
        name: sorted(
            repr({key: row[key] for key in row.keys() if key not in VOLATILE})  # noqa: SIM118 - not a dict
            for row in connection.execute(f"SELECT * FROM {name}")
        )
        for name in names
    }
    connection.close()
    return found


def shown(saver: BaseCheckpointSaver[str], thread_id: str = "t") -> list[Any]:
    """Return everything that can be read of a thread."""
    listed = [
        (found.config, found.parent_config, found.checkpoint, found.metadata, found.pending_writes)
        for found in saver.list(config(thread_id, None))
    ]
    return [*listed, saver.branches(config(thread_id))]
