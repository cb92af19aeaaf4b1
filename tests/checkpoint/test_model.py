"""Random programs of saver calls: every backend agrees with the model, after every call."""

from __future__ import annotations

import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from checkpoint.model import Point, ThreadModel
from threadmark.checkpoint._sql import lists
from threadmark.checkpoint.base import BaseCheckpointSaver, Commit, TaskCommit, TaskWrites, get_checkpoint_id
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import InvalidArgumentError, ThreadConflictError, ThreadDeletedError

THREADS = st.sampled_from(["a", "b"])
SPACES = st.sampled_from(["", "", "lasting", "node:task"])
ITEMS = st.one_of(st.integers(0, 3), st.sampled_from(["x", "y"]), st.lists(st.integers(0, 1), max_size=2))
NAMES = st.sampled_from(["main", "try", "other"])
KINDS = st.sampled_from(["create", "rename", "switch", "delete"])
RUNS = st.sampled_from(["run1", "run2", None])


def config(thread_id: str, ns: str | None = "", checkpoint_id: str | None = None, **more: Any) -> Any:
    named = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id, **more}
    return {"configurable": {key: value for key, value in named.items() if value is not None}}


class Savers(RuleBasedStateMachine):
    """Calls every saver and the model alike."""

    def __init__(self) -> None:
        super().__init__()
        # Rows of lists are put together after many items; here few must do.
        self.fold, lists._FOLD = lists._FOLD, 4
        self.folder = Path(tempfile.mkdtemp())
        self.savers: dict[str, BaseCheckpointSaver[str]] = {
            "memory": InMemorySaver(),
            "sqlite": SqliteSaver(self.folder / "x.db"),
            "compressed": SqliteSaver(self.folder / "y.db", compress=True),
        }
        self.threads: dict[str, ThreadModel] = {}
        self.count = 0

    def teardown(self) -> None:
        for saver in self.savers.values():
            if isinstance(saver, SqliteSaver):
                saver.close()
        shutil.rmtree(self.folder)
        lists._FOLD = self.fold

    def everywhere(self, call: Any) -> Any:
        """Call every saver; all must answer alike."""
        answers = {name: call(saver) for name, saver in self.savers.items()}
        assert len({repr(answer) for answer in answers.values()}) == 1, answers
        return next(iter(answers.values()))

    def some_point(self, data: Any, thread_id: str, ns: str) -> str | None:
        model = self.threads.get(thread_id, ThreadModel())
        ids = sorted(name for (n, name) in model.points if n == ns)
        return data.draw(st.sampled_from(ids)) if ids else None

    def metadata(self, data: Any, thread_id: str, ns: str) -> dict[str, Any]:
        run_id = data.draw(RUNS)
        about: dict[str, Any] = {"step": self.count, **({"run_id": run_id} if run_id else {})}
        if ":" in ns:
            about["parents"] = {"": self.threads[thread_id].heads["", "main"]}
        return about

    def can_write(self, thread_id: str, ns: str) -> bool:
        """A sub-graph runs only where there is a graph around it."""
        return ":" not in ns or ("", "main") in self.threads.get(thread_id, ThreadModel()).heads

    # Saving

    @rule(data=st.data(), thread_id=THREADS, ns=SPACES, fork=st.booleans(), steps=st.integers(1, 3))
    def run(self, data: Any, thread_id: str, ns: str, fork: bool, steps: int) -> None:
        """A run loads, and commits some supersteps."""
        if not self.can_write(thread_id, ns):
            return
        model = self.threads.get(thread_id)
        branches = sorted({b for (n, b) in model.heads if n == ns}) if model else []
        branch = data.draw(st.sampled_from(branches)) if branches else "main"
        start = self.some_point(data, thread_id, ns) if fork else None
        loaded = {
            name: saver.load(config(thread_id, ns, start, branch=branch))
            for name, saver in self.savers.items()
        }
        first = next(iter(loaded.values())).saved
        parent = first.checkpoint["id"] if first else None
        values = dict(first.checkpoint["channel_values"]) if first else {}
        versions = dict(first.checkpoint["channel_versions"]) if first else {}
        heads = {name: each.head for name, each in loaded.items()}
        for _ in range(steps):
            self.count += 1
            changes, kept, cleared = self.changes(data, values)
            version = self.savers["memory"].get_next_version(max(versions.values(), default=None))
            new = dict.fromkeys([*changes, *cleared], version)
            values = {k: v for k, v in {**values, **changes}.items() if k not in cleared}
            versions.update(new)
            tasks = [TaskWrites(f"t{self.count}", f"~{self.count % 3}", list(changes.items()))]
            about = self.metadata(data, thread_id, ns)
            checkpoint: Any = {
                "v": 4,
                "ts": "",
                "id": f"{self.count % 7}-{self.count}",
                "channel_values": dict(values),
                "channel_versions": dict(versions),
                "versions_seen": {},
                "updated_channels": None,
            }
            for name, saver in self.savers.items():
                work = Commit(
                    thread_id, ns, parent, checkpoint, about, new, tasks, heads[name], kept, cleared,
                    memo=loaded[name].memo,
                )  # fmt: skip
                heads[name] = saver.commit(saver.prepare(work))
            model = self.threads.setdefault(thread_id, ThreadModel())
            if parent is not None:
                self.write(model, ns, parent, tasks[0])
            model.add(ns, branch, checkpoint["id"], parent, values, about)
            parent = checkpoint["id"]

    def changes(self, data: Any, values: dict[str, Any]) -> tuple[Any, Any, Any]:
        changes: dict[str, Any] = {}
        kept: dict[str, Any] = {}
        old = values.get("l")
        if isinstance(old, list):
            start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(old))] * 2)))
            added = data.draw(st.lists(ITEMS, max_size=3))
            changes["l"] = [*old[start:stop], *added, *old[stop:]]
            if data.draw(st.booleans()):
                kept["l"] = [(start, stop), len(added), (stop, len(old))]
        else:
            changes["l"] = data.draw(st.lists(ITEMS, max_size=4))
        if data.draw(st.booleans()):
            changes["n"] = data.draw(ITEMS)
        if data.draw(st.integers(0, 9)) == 0:
            changes["l"] = data.draw(ITEMS)
            kept = {}
        cleared = ["n"] if "n" not in changes and "n" in values and data.draw(st.booleans()) else []
        return changes, kept, cleared

    @rule(data=st.data(), thread_id=THREADS, ns=SPACES)
    def put(self, data: Any, thread_id: str, ns: str) -> None:
        """Somebody puts a checkpoint by hand."""
        if not self.can_write(thread_id, ns):
            return
        parent = self.some_point(data, thread_id, ns)
        self.count += 1
        value = data.draw(st.lists(ITEMS, max_size=4))
        version = f"{self.count:032}.1"
        about = self.metadata(data, thread_id, ns)
        checkpoint: Any = {
            "v": 4,
            "ts": "",
            "id": f"{self.count % 7}-{self.count}",
            "channel_values": {"l": value},
            "channel_versions": {"l": version},
            "versions_seen": {},
            "updated_channels": None,
        }
        self.everywhere(lambda s: s.put(config(thread_id, ns, parent), checkpoint, about, {"l": version}))
        model = self.threads.setdefault(thread_id, ThreadModel())
        model.add(ns, "main", checkpoint["id"], parent, {"l": value}, about)

    @rule(data=st.data(), thread_id=THREADS, ns=SPACES, special=st.booleans(), task=st.integers(0, 2))
    def put_writes(self, data: Any, thread_id: str, ns: str, special: bool, task: int) -> None:
        """A task's writes are saved ahead of its superstep."""
        point = self.some_point(data, thread_id, ns)
        if point is None:
            return
        channel = "__resume__" if special else "l"
        work = TaskWrites(f"ahead{task}", f"~{task}", [(channel, data.draw(ITEMS)), (channel, 1)])
        self.everywhere(lambda s: s.put_writes(config(thread_id, ns, point), work.writes, *work[:2]))
        self.write(self.threads[thread_id], ns, point, work)

    @staticmethod
    def write(model: ThreadModel, ns: str, point: str, task: TaskWrites) -> None:
        saved = model.points[ns, point].writes
        for n, (channel, value) in enumerate(task.writes):
            place = (task.task_id, -4 if channel == "__resume__" else n)
            if place[1] < 0 or place not in saved:
                saved[place] = (channel, value, task.task_path)

    @rule(data=st.data(), thread_id=THREADS)
    def lose_race(self, data: Any, thread_id: str) -> None:
        """Of two runs on one head, the second is refused; a run on a deleted thread is refused too."""
        if ("", "main") not in self.threads.get(thread_id, ThreadModel()).heads:
            return
        stale = {name: saver.load(config(thread_id)) for name, saver in self.savers.items()}
        gone = data.draw(st.booleans())
        if gone:
            self.delete_thread(thread_id)
        self.run(data=data, thread_id=thread_id, ns="", fork=False, steps=1)
        tip = self.threads[thread_id].heads.get(("", "main"))
        if any(found.head is not None and found.head.checkpoint_id == tip for found in stale.values()):
            return  # The run went on with another branch.
        self.count += 1
        for name, saver in self.savers.items():
            found = stale[name]
            assert found.saved is not None
            checkpoint = {**found.saved.checkpoint, "id": f"late{self.count}"}
            parent = found.saved.checkpoint["id"]
            late = Commit(thread_id, "", parent, checkpoint, {}, {}, (), found.head, memo=found.memo)  # type: ignore[arg-type]
            try:
                saver.commit(saver.prepare(late))
            except ThreadDeletedError:
                assert gone
            except ThreadConflictError:
                assert not gone
            else:
                raise AssertionError("a late commit went through")
            try:
                saver.commit(saver.prepare(TaskCommit(thread_id, "", parent, [], found.head)))
            except ThreadDeletedError:
                assert gone

    # Upkeep

    @rule(thread_id=THREADS)
    def delete_thread(self, thread_id: str) -> None:
        self.everywhere(lambda s: s.delete_thread(thread_id))
        self.threads.pop(thread_id, None)

    @rule(thread_id=THREADS, keep_last=st.integers(1, 3), latest=st.booleans())
    def prune(self, thread_id: str, keep_last: int, latest: bool) -> None:
        rules: Any = {"keep": "latest"} if latest else {"keep_last": keep_last}
        self.everywhere(lambda s: s.prune([thread_id], **rules))
        if thread_id in self.threads:
            self.threads[thread_id].prune(1 if latest else keep_last, not latest)

    @rule(runs=st.sets(st.sampled_from(["run1", "run2"]), min_size=1))
    def delete_runs(self, runs: set[str]) -> None:
        self.everywhere(lambda s: s.delete_for_runs(sorted(runs)))
        for thread_id, model in list(self.threads.items()):
            ran = {point.metadata.get("run_id") for point in model.points.values()}
            if runs & ran:
                model.delete_runs(runs)
            if not model.points:
                del self.threads[thread_id]

    @rule()
    def copy_thread(self) -> None:
        def copied(saver: BaseCheckpointSaver[str]) -> str:
            try:
                saver.copy_thread("a", "b")
            except InvalidArgumentError:
                return "refused"
            return "copied"

        if self.everywhere(copied) == "copied":
            assert "b" not in self.threads
            self.threads["b"] = copy.deepcopy(self.threads["a"])
        else:
            assert "a" not in self.threads or "b" in self.threads

    @rule(data=st.data(), thread_id=THREADS, name=NAMES, new=NAMES, kind=KINDS)
    def change_branch(self, data: Any, thread_id: str, name: str, new: str, kind: str) -> None:
        model = self.threads.get(thread_id, ThreadModel())
        point = self.some_point(data, thread_id, "")
        names = sorted(b for (n, b) in model.heads if n == "")
        name = data.draw(st.sampled_from([*names, name]))
        args = {"create": (new,), "rename": (name, new), "switch": (name,), "delete": (name,)}[kind]
        address = config(thread_id, "", point) if kind == "create" else config(thread_id)

        def change(saver: BaseCheckpointSaver[str]) -> str:
            try:
                getattr(saver, f"{kind}_branch")(address, *args)
            except (InvalidArgumentError, LookupError):
                return "refused"
            return "done"

        if self.everywhere(change) == "done":
            self.model_branch(model, kind, name, new, point)

    @staticmethod
    def model_branch(model: ThreadModel, kind: str, name: str, new: str, point: str | None) -> None:
        if kind == "create":
            assert point is not None
            model.heads["", new] = point
            return
        tip = model.heads["", name]
        if kind == "switch":
            left = model.heads.get(("", "main"))
            model.heads["", "main"] = tip
            if ("", name) in model.automatic:
                del model.heads["", name]
                model.automatic.discard(("", name))
            if left is not None and left != tip:
                model.leave("", left)
            return
        del model.heads["", name]
        model.automatic.discard(("", name))
        if kind == "rename":
            model.heads["", new] = tip

    @rule()
    def reopen(self) -> None:
        """The process ends and another one opens the files."""
        for name, file in (("sqlite", "x.db"), ("compressed", "y.db")):
            self.savers[name].close()  # type: ignore[attr-defined]
            self.savers[name] = SqliteSaver(self.folder / file, compress=name == "compressed")

    # Comparing

    @rule(data=st.data(), thread_id=THREADS, limit=st.integers(0, 4), ns=st.sampled_from(["", "lasting"]))
    def list_some(self, data: Any, thread_id: str, limit: int, ns: str) -> None:
        model = self.threads.get(thread_id, ThreadModel())
        points = sorted(model.points.values(), key=lambda p: -p.seq)
        before = self.some_point(data, thread_id, ns)
        run_id = data.draw(RUNS)
        filter = {} if run_id is None else {"run_id": run_id}
        wanted = [
            p.id
            for p in points
            if p.ns == ns
            and (before is None or p.seq < model.points[ns, before].seq)
            and (not filter or p.metadata.get("run_id") == run_id)
        ][:limit]
        options: Any = {"limit": limit, "filter": filter}
        if before is not None:
            options["before"] = config(thread_id, ns, before)
        found = self.everywhere(
            lambda s: [get_checkpoint_id(t.config) for t in s.list(config(thread_id, ns), **options)]
        )
        assert found == wanted

    @invariant()
    def agree(self) -> None:
        for thread_id in ("a", "b"):
            model = self.threads.get(thread_id, ThreadModel())
            wanted = [
                (p.ns, p.id, p.parent, sorted(p.values.items()), p.metadata, self.pending(p))
                for p in sorted(model.points.values(), key=lambda p: -p.seq)
            ]
            heads = sorted(
                (ns, name, tip, (ns, name) in model.automatic) for (ns, name), tip in model.heads.items()
            )
            for name, saver in self.savers.items():
                assert self.shown(saver, thread_id) == wanted, name
                found = sorted(
                    (ns, b.name, b.checkpoint_id, b.automatic)
                    for ns in ("", "lasting", "node:task")
                    for b in saver.branches(config(thread_id, ns))
                )
                assert found == heads, name
                for ns, branch, tip, _ in heads:
                    saved = saver.get_tuple(config(thread_id, ns, branch=branch))
                    assert saved is not None
                    assert saved.checkpoint["id"] == tip
                    assert sorted(saved.checkpoint["channel_values"].items()) == sorted(
                        model.points[ns, tip].values.items()
                    )

    @staticmethod
    def pending(point: Point) -> list[Any]:
        ordered = sorted((path, task, idx, c, v) for (task, idx), (c, v, path) in point.writes.items())
        return [(task, channel, value) for _, task, _, channel, value in ordered]

    @staticmethod
    def shown(saver: BaseCheckpointSaver[str], thread_id: str) -> list[Any]:
        return [
            (
                found.config["configurable"]["checkpoint_ns"],
                found.checkpoint["id"],
                get_checkpoint_id(found.parent_config) if found.parent_config else None,
                sorted(found.checkpoint["channel_values"].items()),
                found.metadata,
                found.pending_writes,
            )
            for found in saver.list(config(thread_id, None))
        ]


TestSavers = Savers.TestCase
TestSavers.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
