"""Measures the stores beside LangGraph's: put, get, filtered search, semantic search.

Both libraries run in this process and take turns, each round on a new store; the figures are medians of
medians. Without LangGraph here, or where its store cannot do the work, its column stays empty.
"""

from __future__ import annotations

import importlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.report import table
from bench.rows import Row

KINDS = {
    "memory": "Store in memory",
    "sqlite": "SQLite store",
    # LangGraph's store always waits for the disk, so its figures are the same here.
    "sqlite, sync": "SQLite store, durability sync",
}
NAMESPACE = ("users", "ann", "memories")
DIMS = 384


@dataclass(frozen=True)
class Plan:
    """How much work is done.

    Attributes:
        items: How many items are put, and then read and searched.
        near: How many vectors both libraries search.
        far: How many vectors ours searches alone.
        calls: How often a search is timed.
        rounds: How often the sides take turns.
    """

    items: int = 10_000
    near: int = 10_000
    far: int = 100_000
    calls: int = 15
    rounds: int = 3


FULL = Plan()
QUICK = Plan(items=100, near=100, far=1_000, calls=3, rounds=1)


def rows(*, quick: bool = False) -> list[str]:
    """Measure, and return the lines of a table."""
    return table(measured(QUICK if quick else FULL))


def measured(plan: Plan) -> Iterator[Row]:
    """Measure and yield row by row."""
    for kind, title in KINDS.items():
        figures: dict[str, list[dict[str, float]]] = {"langgraph": [], "threadmark": []}
        for _ in range(plan.rounds):
            for root, seen in figures.items():
                # Waiting for the disk takes long, and its figure is that of a put.
                few = replace(plan, items=plan.items // 10) if kind == "sqlite, sync" else plan
                found = items_figures(root, kind, few)
                if found is not None:
                    seen.append(found)
        for work in figures["threadmark"][0]:
            peer, ours = (middle(figures[root], work) for root in figures)
            assert ours is not None
            if kind != "sqlite, sync" or work == "put":
                yield Row(f"{title}: {work}", "us" if work in ("put", "get") else "ms", peer, ours)
    yield from semantic_rows(plan)


def semantic_rows(plan: Plan) -> Iterator[Row]:
    """Measure ten nearest of many vectors, after the first query."""
    sides = [("langgraph", "memory"), ("threadmark", "memory"), ("threadmark", "sqlite")]
    figures: dict[tuple[str, str], list[float]] = {side: [] for side in sides}
    for _ in range(plan.rounds):
        for (root, kind), seen in figures.items():
            found = nearest(root, kind, plan.near, plan)
            if found is not None:
                seen.append(found)
    middles = {side: statistics.median(seen) if seen else None for side, seen in figures.items()}
    for kind, title in (("memory", "Store in memory"), ("sqlite", "SQLite store")):
        ours = middles["threadmark", kind]
        assert ours is not None
        work = f"{title}: ten nearest of {plan.near:,} vectors of {DIMS}"
        yield Row(work, "ms", middles.get(("langgraph", kind)), ours)
        far = nearest("threadmark", kind, plan.far, plan)
        assert far is not None
        yield Row(f"The same of {plan.far:,} vectors", "ms", None, far, limit=0.060)


def items_figures(root: str, kind: str, plan: Plan) -> dict[str, float] | None:
    """Put, get and search items, and return the median of each; `None` where the library is missing."""
    with opened(root, kind, None) as store:
        if store is None:
            return None
        for number in range(100):
            store.put(("users", str(number)), "k", {"text": "somebody else's", "n": number})
        half = plan.items // 2

        def put(n: int) -> Any:
            value = {"text": f"a fact about tea, number {n}", "n": n, "kind": ("note", "task")[n % 2]}
            return store.put(NAMESPACE, f"k{n}", {**value, "tags": ["a", "b"]})

        def ten(**search: Any) -> Callable[[int], Any]:
            return lambda n: store.search(NAMESPACE, limit=10, **search)

        calls = range(plan.calls)
        return {
            "put": timed(put, range(plan.items)),
            "get": timed(lambda n: store.get(NAMESPACE, f"k{n}"), range(plan.items)),
            f"first ten of {plan.items:,}": timed(ten(), calls),
            "ten of the half that a filter accepts": timed(ten(filter={"kind": "note"}), calls),
            "the few that a filter accepts": timed(ten(filter={"n": {"$gt": plan.items - 5}}), calls),
            "ten from the middle": timed(ten(offset=half), calls),
        }


def nearest(root: str, kind: str, count: int, plan: Plan) -> float | None:
    """Return what a semantic search takes, after the first."""
    import numpy as np

    random = np.random.default_rng(0)

    def embed(texts: list[str]) -> Any:
        return random.standard_normal((len(texts), DIMS)).astype(np.float32).tolist()

    index = {"embed": embed, "dims": DIMS, "fields": ["text"]}
    with opened(root, kind, index) as store:
        if store is None:
            return None
        op = importlib.import_module(f"{root}.store.base").PutOp
        for first in range(0, count, 1_000):
            numbers = range(first, min(first + 1_000, count))
            store.batch([op((*NAMESPACE, str(n % 100)), f"k{n}", {"text": f"fact {n}"}) for n in numbers])
        store.search(NAMESPACE, query="tea")
        return timed(lambda n: store.search(NAMESPACE, query=f"tea {n}", limit=10), range(plan.calls))


@contextmanager
def opened(root: str, kind: str, index: Any) -> Iterator[Any]:
    """Open an empty store of a library; `None` where the library is missing."""
    try:
        module: Any = importlib.import_module(f"{root}.store.{kind.partition(',')[0]}")
    except ImportError:
        yield None
        return
    if kind == "memory":
        yield module.InMemoryStore(index=index)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store.db")
        sync = {"durability": "sync"} if root == "threadmark" and kind.endswith("sync") else {}
        with module.SqliteStore.from_conn_string(path, index=index, **sync) as store:
            store.setup()
            yield store


def timed(call: Callable[[int], Any], numbers: Iterable[int]) -> float:
    """Return the median time of a call, in seconds."""
    seen = []
    for number in numbers:
        start = time.perf_counter()
        call(number)
        seen.append(time.perf_counter() - start)
    return statistics.median(seen)


def middle(figures: list[dict[str, float]], work: str) -> float | None:
    """Return the median of a figure over the rounds."""
    return statistics.median(found[work] for found in figures) if figures else None


if __name__ == "__main__":
    print(*rows(), sep="\n")
