"""What child processes do in the tests with real processes, and how they are started.

Children are forked from a server that has imported the library, so that each starts in no time.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import operator
import os
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import ThreadConflictError
from threadmark.graph import END, START, StateGraph
from threadmark.runtime import get_runtime
from threadmark.types import Send

__all__ = ["ROUNDS", "Gated", "long_graph", "processes", "queue_graph"]

processes: Any = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["threadmark.graph", "threadmark.checkpoint.sqlite", "langchain_core.messages"]
)

ROUNDS = 6


class Long(TypedDict):
    round: int
    item: str
    log: Annotated[list[str], operator.add]


class Inner(TypedDict):
    round: int
    log: Annotated[list[str], operator.add]


def long_graph(note: Any) -> StateGraph[Long]:
    """Return a graph of many supersteps: in each round a plan, three tasks side by side, and a sub-graph."""

    def plan(state: Long) -> dict[str, Any]:
        note("plan")
        return {"log": [f"plan {state['round']}"]}

    def split(state: Long) -> list[Send]:
        return [Send("work", {"item": f"{state['round']}{part}"}) for part in "abc"]

    def work(state: Long) -> dict[str, Any]:
        note("work")
        return {"log": [state["item"]]}

    def one(state: Inner) -> dict[str, Any]:
        note("one")
        return {"log": [f"one {state['round']}"]}

    def two(state: Inner) -> dict[str, Any]:
        note("two")
        return {"log": [f"two {state['round']}"]}

    inner = StateGraph(Inner).add_node(one).add_node(two)
    sub = inner.add_edge(START, "one").add_edge("one", "two").add_edge("two", END).compile()

    def gather(state: Long) -> dict[str, Any]:
        found = sub.invoke({"round": state["round"], "log": []})
        note("gather")
        return {"log": found["log"], "round": state["round"] + 1}

    graph = StateGraph(Long).add_node(plan).add_node(work).add_node(gather)
    graph.add_edge(START, "plan").add_conditional_edges("plan", split, ["work"]).add_edge("work", "gather")
    return graph.add_conditional_edges(
        "gather", lambda s: "plan" if s["round"] < ROUNDS else END, ["plan", END]
    )


def run_long(path: Path, effects: Path, reports: Any, thread: str, mode: str, durability: Any) -> None:
    """Run the long graph on a file, or go on with it; report what it streams."""
    log = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(name: str) -> None:
        info = get_runtime().execution_info
        assert info is not None
        os.write(log, f"{info.task_id}\n".encode())

    config: Any = {"configurable": {"thread_id": thread}}
    with SqliteSaver(path) as saver:
        graph = long_graph(note).compile(checkpointer=saver)
        begun = graph.get_state(config).created_at is not None
        given: Any = None if begun else {"round": 0, "item": "", "log": []}
        if mode == "sync":
            for update in graph.stream(given, config, durability=durability):
                reports.send(update)
        else:
            asyncio.run(stream_async(graph, given, config, durability, reports))
    reports.send("end")


async def stream_async(graph: Any, given: Any, config: Any, durability: str, reports: Any) -> None:
    """Report what an async run streams."""
    async for update in graph.astream(given, config, durability=durability):
        reports.send(update)


class Queue(TypedDict):
    log: Annotated[list[str], operator.add]


def queue_graph() -> StateGraph[Queue]:
    """Return a graph of two steps that keeps messages."""
    graph = StateGraph(Queue).add_node("take", lambda state: {}).add_node("seen", lambda state: {})
    return graph.add_edge(START, "take").add_edge("take", "seen").add_edge("seen", END)


class Gated(SqliteSaver):
    """A saver whose first `load` waits until all others have loaded too."""

    gate: Any = None

    def load(self, config: Any) -> Any:
        loaded = super().load(config)
        if self.gate is not None:
            gate, self.gate = self.gate, None
            gate.wait()
            type(self).gate = None
        return loaded


def send_until_taken(path: Path, message: str, gate: Any, losses: Any) -> None:
    """Send a message to the shared thread again and again until it was taken."""
    Gated.gate = gate
    config: Any = {"configurable": {"thread_id": "shared"}}
    with Gated(path) as saver:
        graph = queue_graph().compile(checkpointer=saver)
        while True:
            try:
                graph.invoke({"log": [message]}, config)
            except ThreadConflictError:
                losses.put(message)
            else:
                return


def send_in_turn(path: Path, message: str, gate: Any) -> None:
    """Send a message to the shared thread, and wait for its turn."""
    with SqliteSaver(path) as saver:
        graph = queue_graph().compile(checkpointer=saver, on_conflict="wait")
        gate.wait()
        graph.invoke({"log": [message]}, {"configurable": {"thread_id": "shared"}})


def send_alone(path: Path, thread: str, gate: Any) -> None:
    """Send ten messages to a thread of one's own."""
    with SqliteSaver(path) as saver:
        graph = queue_graph().compile(checkpointer=saver)
        gate.wait()
        for number in range(10):
            graph.invoke({"log": [f"{thread} {number}"]}, {"configurable": {"thread_id": thread}})
