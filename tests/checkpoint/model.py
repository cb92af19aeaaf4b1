"""A saver in a few dicts: what the real ones must agree with."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Point:
    """A checkpoint."""

    id: str
    ns: str
    seq: int
    parent: str | None
    values: dict[str, Any]
    metadata: dict[str, Any]
    writes: dict[tuple[str, int], tuple[str, Any, str]] = field(default_factory=dict)


@dataclass
class ThreadModel:
    """A thread: its checkpoints by namespace and id, and its branches by namespace and name."""

    points: dict[tuple[str, str], Point] = field(default_factory=dict)
    heads: dict[tuple[str, str], str] = field(default_factory=dict)
    automatic: set[tuple[str, str]] = field(default_factory=set)
    last: int = 0

    def add(
        self, ns: str, branch: str, point_id: str, parent: str | None, values: Any, metadata: Any
    ) -> None:
        self.last += 1
        tip = self.heads.get((ns, branch))
        self.heads[ns, branch] = point_id
        if tip is not None and tip != parent:
            self.leave(ns, tip)
        self.points[ns, point_id] = Point(
            point_id, ns, self.last, parent, copy.deepcopy(values), copy.deepcopy(metadata)
        )

    def leave(self, ns: str, tip: str) -> None:
        named = {head for (n, _), head in self.heads.items() if n == ns}
        if tip not in named and not any(p.parent == tip for (n, _), p in self.points.items() if n == ns):
            name = f"fork-{self.points[ns, tip].seq}"
            while (ns, name) in self.heads:
                name += "+"
            self.heads[ns, name] = tip
            self.automatic.add((ns, name))

    def line(self, ns: str, tip: str | None) -> list[str]:
        found = []
        while tip is not None:
            found.append(tip)
            tip = self.points[ns, tip].parent
        return found

    def prune(self, keep_last: int, automatic: bool) -> None:
        named = {key[0] for key in self.heads if key not in self.automatic}
        kept = {
            (ns, name)
            for (ns, branch), tip in self.heads.items()
            if automatic or (ns, branch) not in self.automatic or ns not in named
            for name in self.line(ns, tip)[:keep_last]
        }
        self.keep(kept)

    def delete_runs(self, runs: set[str]) -> None:
        self.keep({key for key, point in self.points.items() if point.metadata.get("run_id") not in runs})

    def keep(self, kept: set[tuple[str, str]]) -> None:
        kept = {
            key for key in kept if ":" not in key[0] or ("", self.points[key].metadata["parents"][""]) in kept
        }
        nearest = {
            (ns, name): next((up for up in self.line(ns, name) if (ns, up) in kept), None)
            for ns, name in self.points
        }
        before = sorted(self.heads)
        for key, tip in list(self.heads.items()):
            end = nearest[key[0], tip]
            if end is None or (end != tip and key in self.automatic):
                del self.heads[key]
                self.automatic.discard(key)
            else:
                self.heads[key] = end
        self.points = {key: point for key, point in self.points.items() if key in kept}
        self.last = max((point.seq for point in self.points.values()), default=0)
        for ns in {ns for ns, _ in kept} - {ns for ns, _ in self.heads}:
            branches = [branch for n, branch in before if n == ns]
            newest = max((p for p in self.points.values() if p.ns == ns), key=lambda p: p.seq)
            self.heads[ns, "main" if "main" in branches else branches[0]] = newest.id
        for (ns, _), point in self.points.items():
            point.parent = nearest[ns, point.parent] if point.parent is not None else None
