"""A support agent that is killed, resumed, asked, answered and forked: `make demo`.

It needs nothing but threadmark: no account, no model, no network. Everything happens on one SQLite file,
`.demo/support.db`. Read it from the bottom: `main` tells the story.
"""

from __future__ import annotations

import json
import operator
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import END, START, StateGraph
from threadmark.types import Command, StateSnapshot, interrupt

FOLDER = Path(".demo")
FILE = FOLDER / "support.db"
RUNS = FOLDER / "runs.txt"
NOTES = FOLDER / "notes.jsonl"
THREAD: Any = {"configurable": {"thread_id": "ticket-1"}}
TICKET = "My kettle stopped working after three weeks. Order 4711."

# The graph


class Ticket(TypedDict):
    text: str
    order: str
    warranty: str
    suggestion: str
    reply: str
    log: Annotated[list[str], operator.add]


def ran(node: str) -> None:
    """Note outside the graph that a node ran: what a customer would notice if it happened twice."""
    with RUNS.open("a") as file:
        file.write(node + "\n")


def read(state: Ticket) -> dict[str, Any]:
    ran("read")
    return {"log": [f"read {len(state['text'].split())} words"]}


def look_up_order(state: Ticket) -> dict[str, Any]:
    ran("look_up_order")
    return {"order": "4711, kettle, 80 EUR", "log": ["found the order"]}


def check_warranty(state: Ticket) -> dict[str, Any]:
    ran("check_warranty")
    accident()
    return {"warranty": "valid", "log": ["checked the warranty"]}


def suggest(state: Ticket) -> dict[str, Any]:
    ran("suggest")
    valid = state["warranty"] == "valid"
    return {"suggestion": "refund 80 EUR" if valid else "10 % off a new kettle"}


def approve(state: Ticket) -> Command[str]:
    verdict = interrupt({"question": f"Shall I {state['suggestion']}?", "ticket": state["text"]})
    ran("approve")
    approved = verdict.strip().lower() in ("", "y", "yes")
    suggestion = state["suggestion"] if approved else "a phone call"
    return Command(goto="answer", update={"suggestion": suggestion, "log": [f"human: {verdict}"]})


def answer(state: Ticket) -> dict[str, Any]:
    ran("answer")
    return {"reply": f"We are sorry about your kettle. We offer you: {state['suggestion']}."}


def needs_approval(state: Ticket) -> str:
    return "approve" if state["suggestion"].startswith("refund") else "answer"


def support(saver: SqliteSaver) -> Any:
    """Two look-ups run side by side; a refund needs a human."""
    graph = StateGraph(Ticket)
    for node in (read, look_up_order, check_warranty, suggest, answer):
        graph.add_node(node)
    graph.add_node("approve", approve, destinations=("answer",))
    graph.add_edge(START, "read")
    graph.add_edge("read", "look_up_order").add_edge("read", "check_warranty")
    graph.add_edge("look_up_order", "suggest").add_edge("check_warranty", "suggest")
    graph.add_conditional_edges("suggest", needs_approval, ["approve", "answer"])
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver, name="support")


# The accident: a process that dies in the middle of a superstep


def no_accident() -> None:
    """Nothing happens."""


accident: Callable[[], None] = no_accident


def die_when_the_other_is_saved() -> None:
    """Run the graph, and die by SIGKILL once one of the two look-ups is saved, the other is not."""
    global accident
    saved = threading.Event()

    def die() -> None:
        saved.wait()
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

    accident = die

    def watch(update: Any) -> None:
        if "look_up_order" in update:
            saved.set()

    with SqliteSaver.from_conn_string(str(FILE)) as saver:
        run(support(saver), {"text": TICKET}, watch)


# Running, and what it costs


def run(app: Any, given: Any, watch: Callable[[Any], None] = lambda update: None) -> None:
    """Run the graph and note what each checkpoint took in bytes and time."""
    start = time.perf_counter()
    modes = ["updates", "checkpoints"]
    for mode, chunk in app.stream(given, THREAD, stream_mode=modes, durability="sync"):
        if mode == "updates":
            watch(chunk)
        else:
            note(chunk["config"], time.perf_counter() - start)
            start = time.perf_counter()


def note(config: Any, seconds: float) -> None:
    """Note how long a checkpoint took and how large the file is now. Only the first note counts."""
    checkpoint = id_of(config)
    if checkpoint not in [known for known, _, _ in notes()]:
        with NOTES.open("a") as file:
            file.write(json.dumps([checkpoint, stored_bytes(), seconds]) + "\n")


def notes() -> list[tuple[str, int, float]]:
    """Return all notes."""
    return [json.loads(line) for line in NOTES.read_text().splitlines()] if NOTES.exists() else []


def costs() -> dict[str, tuple[int, float]]:
    """Return what each checkpoint took: the bytes that were added since the one before, and seconds."""
    found, before = {}, 0
    for checkpoint, total, seconds in notes():
        found[checkpoint] = (total - before, seconds)
        before = total
    return found


def stored_bytes() -> int:
    """Return how many bytes of content the file holds."""
    if not FILE.exists():
        return 0
    total = 0
    connection = sqlite3.connect(f"file:{FILE}?mode=ro", uri=True)
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'tm!_%' ESCAPE '!'"
    ).fetchall()
    for (table,) in tables:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        lengths = " + ".join(f"ifnull(length(cast({name} AS BLOB)), 0)" for name in columns)
        total += connection.execute(f"SELECT ifnull(sum({lengths}), 0) FROM {table}").fetchone()[0]
    connection.close()
    return total


# Telling the story


def say(title: str, *lines: str) -> None:
    """Print a paragraph."""
    print(f"\n{title}")
    for line in lines:
        print(f"   {line}")


def ask(question: str) -> str:
    """Ask the human at the terminal; where there is none, the answer is yes."""
    if not sys.stdin.isatty():
        print(f"   {question} [yes] yes")
        return "yes"
    try:
        return input(f"   {question} [yes] ") or "yes"
    except EOFError:
        return "yes"


def counted() -> str:
    """Tell how often each node ran."""
    runs = RUNS.read_text().split()
    return ", ".join(f"{node} {runs.count(node)}x" for node in dict.fromkeys(runs))


def tree(snapshots: list[StateSnapshot]) -> Iterator[str]:
    """Yield the history as a tree, a line per checkpoint, oldest first."""
    known = costs()
    children: dict[str, list[StateSnapshot]] = {}
    for snapshot in reversed(snapshots):
        children.setdefault(id_of(snapshot.parent_config), []).append(snapshot)

    def below(parent: str, bars: str) -> Iterator[str]:
        found = children.get(parent, [])
        for at, snapshot in enumerate(found):
            last = at + 1 == len(found)
            alone = len(found) == 1
            mark = bars if alone else bars + ("`-- " if last else "|-- ")
            yield row(mark, snapshot, known)
            deeper = bars if alone else bars + ("    " if last else "|   ")
            yield from below(id_of(snapshot.config), deeper)

    yield f"{'checkpoint':<22}{'bytes':>7}{'ms':>8}   wrote"
    yield from below("", "")


def row(mark: str, snapshot: StateSnapshot, known: dict[str, tuple[int, float]]) -> str:
    """Return the line of one checkpoint."""
    metadata: Any = snapshot.metadata
    size, seconds = known[id_of(snapshot.config)]
    name = f"{mark}{metadata['step']} {metadata['source']}"
    return f"{name:<22}{size:>7}{seconds * 1000:>8.1f}   {wrote(metadata.get('writes'))}"


def wrote(writes: Any) -> str:
    """Return what a step wrote, on one line."""
    text = ", ".join(f"{key}: {value}" for key, value in (writes or {}).items()) or "(nothing)"
    return text if len(text) <= 90 else text[:87] + "..."


def id_of(config: Any) -> str:
    """Return the id of the checkpoint that a config names; empty for the parent of the first."""
    return config["configurable"]["checkpoint_id"] if config else ""


def main() -> None:
    """Tell the story."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()

    say("1. A support agent works on a ticket, in a process of its own.", TICKET)
    child = subprocess.run([sys.executable, __file__, "--die"], check=False)
    say(
        f"2. The process was killed in the middle of a superstep (exit code {child.returncode}).",
        "look_up_order was done and saved; check_warranty was running beside it.",
        f"Ran so far: {counted()}.",
    )
    with SqliteSaver.from_conn_string(str(FILE)) as saver:
        app = support(saver)
        waiting = app.get_state(THREAD)
        say(
            "3. Another process opens the file. Nothing that was saved is lost.",
            f"The thread waits for {', '.join(waiting.next)}; order: {waiting.values['order']}.",
        )
        run(app, None)
        paused = app.get_state(THREAD)
        say(
            "4. Resumed. What was finished did not run again; what was not, did.",
            f"Ran so far: {counted()}.",
        )
        say("5. A refund needs a human. The thread is paused, on disk, for as long as it takes.")
        run(app, Command(resume=ask(paused.interrupts[0].value["question"])))
        first = app.get_state(THREAD)
        say("6. Answered.", first.values["reply"])

        before = next(s for s in app.get_state_history(THREAD) if s.next == ("suggest",))
        start = time.perf_counter()
        fork = app.update_state(before.config, {"warranty": "expired"}, as_node="check_warranty")
        note(fork, time.perf_counter() - start)
        run(app, None)
        say(
            "7. What if the warranty had expired? A fork from the checkpoint before the suggestion:",
            app.get_state(THREAD).values["reply"],
            f"The first ending is still there: {app.get_state(first.config).values['reply']}",
        )
        say("8. The thread's history, with what each step wrote and cost:", "")
        for line in tree(list(app.get_state_history(THREAD))):
            print(f"   {line}")
    say(
        "Try next:",
        f"Answer 'no' this time:                  {sys.executable} {sys.argv[0]}",
        f"Look at the file, it is plain SQLite:   sqlite3 {FILE} .tables",
        "Change the graph:                       examples/demo.py",
        "Write your own in twenty lines:         README.md",
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--die"]:
        die_when_the_other_is_saved()
    else:
        main()
