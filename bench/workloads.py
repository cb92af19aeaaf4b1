"""The work that is measured, written once and run by both libraries.

Each function takes a library by its root name and a folder for files, does the work and returns figures
in seconds and bytes. It runs in a worker process of its own (`bench.worker`), so nothing here may print.
"""

from __future__ import annotations

import importlib
import operator
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

Figures = dict[str, float]


class Library:
    """The names of one library that the workloads use."""

    def __init__(self, root: str) -> None:
        graph = importlib.import_module(f"{root}.graph")
        self.root = root
        self.StateGraph = graph.StateGraph
        self.START = graph.START
        self.END = graph.END

    def module(self, name: str) -> Any:
        """Import one of the library's modules."""
        return importlib.import_module(f"{self.root}.{name}")

    @contextmanager
    def saver(self, kind: str | None, target: str) -> Iterator[Any]:
        """Open a saver: none, `memory`, `sqlite` (target: a path) or `postgres` (a connection string)."""
        if kind is None:
            yield None
        elif kind == "memory":
            yield self.module("checkpoint.memory").InMemorySaver()
        elif kind == "sqlite":
            with self.module("checkpoint.sqlite").SqliteSaver.from_conn_string(target) as saver:
                yield saver
        else:
            module = self.module("checkpoint.postgres")
            with module.PostgresSaver.from_conn_string(target) as saver:
                saver.setup()
                yield saver


class Counter(TypedDict):
    n: int


class Log(TypedDict):
    items: Annotated[list[Any], operator.add]


def looping(lib: Library, schema: Any, node: Callable[[Any], Any], goes_on: Any, saver: Any) -> Any:
    """A graph of one node that runs again while `goes_on(state)`."""
    graph = lib.StateGraph(schema).add_node("node", node).add_edge(lib.START, "node")
    graph.add_conditional_edges(
        "node", lambda state: "node" if goes_on(state) else lib.END, ["node", lib.END]
    )
    return graph.compile(checkpointer=saver)


def config(thread: str, steps: int) -> dict[str, Any]:
    """The config of a run that may take so many steps."""
    return {"configurable": {"thread_id": thread}, "recursion_limit": steps + 10}


def increment(state: Counter) -> dict[str, int]:
    """The small node."""
    return {"n": state["n"] + 1}


def supersteps(
    root: str,
    folder: str,
    *,
    steps: int,
    saver: str | None = None,
    durability: str | None = None,
    target: str | None = None,
) -> Figures:
    """Run one small node again and again; seconds for each superstep."""
    lib = Library(root)
    options = {} if durability is None else {"durability": durability}
    name = f"{root}-steps-{durability}.db"
    with lib.saver(saver, target or str(Path(folder) / name)) as opened:
        app = looping(lib, Counter, increment, lambda state: state["n"] < steps, opened)
        app.invoke({"n": steps - 20}, config("warm-up", steps), **options)
        start = time.perf_counter()
        app.invoke({"n": 0}, config(f"run-{time.time_ns()}", steps), **options)
        return {"step": (time.perf_counter() - start) / steps}


def floor(root: str, folder: str, *, steps: int) -> Figures:
    """Call the same two functions in a loop; seconds for each round."""

    def goes_on(state: Counter) -> bool:
        return state["n"] < steps

    state: Counter = {"n": 0}
    start = time.perf_counter()
    while goes_on(state):
        state = {**state, **increment(state)}  # type: ignore[typeddict-item]
    return {"step": (time.perf_counter() - start) / steps}


def growth(root: str, folder: str, *, steps: int, item: int) -> Figures:
    """Append a text of `item` bytes in each step; the size of the SQLite file at the end."""
    lib = Library(root)
    path = Path(folder) / f"{root}-growth.db"
    text = "x" * item
    with lib.saver("sqlite", str(path)) as saver:
        app = looping(lib, Log, lambda state: {"items": [text]}, lambda s: len(s["items"]) < steps, saver)
        app.invoke({"items": []}, config("thread", steps))
    return {"bytes": taken(path)}


def chat(root: str, folder: str, *, turns: int, chars: int) -> Figures:
    """Chat in LangChain messages, one run per turn: file size, last turn, whole history listed."""
    from langchain_core.messages import AIMessage, HumanMessage

    lib = Library(root)
    path = Path(folder) / f"{root}-chat.db"

    def reply(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(said(len(state["messages"]), chars))]}

    graph = lib.StateGraph(lib.module("graph").MessagesState).add_node("reply", reply)
    graph.add_edge(lib.START, "reply")
    with lib.saver("sqlite", str(path)) as saver:
        app = graph.compile(checkpointer=saver)
        where = config("thread", 10)
        took = []
        for turn in range(turns):
            start = time.perf_counter()
            app.invoke({"messages": [HumanMessage(said(turn * 2, chars))]}, where)
            took.append(time.perf_counter() - start)
        start = time.perf_counter()
        listed = sum(1 for _ in app.get_state_history(where))
        history = time.perf_counter() - start
    assert listed >= 3 * turns
    return {
        "bytes": taken(path),
        "turn": statistics.median(took[-10:]),
        "history": history,
        "text": 2.0 * turns * chars,
    }


def said(number: int, chars: int) -> str:
    """A text of a given length that is not the same each time."""
    return f"{number} ".ljust(chars, "abcdefghij "[number % 11])[:chars]


def lengthening(root: str, folder: str, *, early: int, late: int, window: int) -> Figures:
    """Append a number in each step of a long thread; seconds of a step early and late."""
    lib = Library(root)
    marks: list[float] = []

    def node(state: Log) -> dict[str, Any]:
        marks.append(time.perf_counter())
        return {"items": [len(marks)]}

    with lib.saver("sqlite", str(Path(folder) / f"{root}-long.db")) as saver:
        app = looping(lib, Log, node, lambda s: len(s["items"]) < late + window, saver)
        app.invoke({"items": []}, config("thread", late + window))

    def around(step: int) -> float:
        pairs = zip(marks[step - window :], marks[step - window + 1 : step + window], strict=False)
        return statistics.median(b - a for a, b in pairs)

    return {"early": around(early), "late": around(late), "ratio": around(late) / around(early)}


def taken(path: Path) -> float:
    """The bytes that a database takes on disk, with the files beside it."""
    return float(sum(p.stat().st_size for p in path.parent.glob(path.name + "*")))


WORKLOADS: dict[str, Callable[..., Figures]] = {
    f.__name__: f for f in (supersteps, floor, growth, chat, lengthening)
}
