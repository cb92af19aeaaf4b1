"""Measures the serializer beside LangGraph's: encoding, decoding, and the bytes that a value takes.

Both run in this process and take turns; the figures are medians of one value's time on the processor.
Without LangGraph here, its column stays empty. `python -m bench.serde` prints the table alone.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import logging
import random
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from bench.report import table
from bench.rows import Row
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

ROUNDS = 15
SAME = 1.1
"""Plain values take the same code in both; figures this close are the same."""
SECONDS_A_TURN = 0.02
WORTH_A_LINE = 2_000
TEXT = "It takes a village to keep a state machine honest, and one careless default to undo it. " * 3


class Case(NamedTuple):
    """A value to encode and decode.

    Attributes:
        work: What it is.
        value: The value.
        share: The part of the peer's time that it may take.
    """

    work: str
    value: Any
    share: float


@dataclasses.dataclass
class Order:
    """An instance of a class that a program defines."""

    number: int
    customer: str
    lines: list[dict[str, Any]]
    paid: bool = False


def cases() -> Iterator[Case]:
    """Yield the values, the small ones first."""
    import numpy as np
    from langchain_core.messages import AIMessage, HumanMessage

    dice = random.Random(1)
    chat = [
        (HumanMessage if turn % 2 else AIMessage)(content=TEXT + str(turn), id=str(uuid.UUID(int=turn)))
        for turn in range(1000)
    ]
    call = {"name": "search", "args": {"query": "state machines", "limit": 10}, "id": "call_1"}
    usage = {"input_tokens": 812, "output_tokens": 64, "total_tokens": 876}
    calls = [AIMessage("", id=str(n), tool_calls=[call], usage_metadata=usage) for n in range(1000)]
    order = Order(7, "Ann", [{"item": "tea", "count": 2}])
    state = {"step": 3, "name": "Hyderabad residency", "tags": ["a", "b"], "done": False}
    nested = {
        f"key {n}": {"id": n, "text": TEXT[:40], "path": [n, n + 1], "more": {"score": n / 4, "none": None}}
        for n in range(100)
    }
    deep: Any = {"leaf": TEXT[:20]}
    for n in range(60):
        deep = {"level": n, "inside": [deep]}
    scores = {f"key {n}": {"scores": [dice.random() for _ in range(5)], "at": 1.7e9 + n} for n in range(100)}
    yield Case("A short text", "pavaneeshwar", SAME)
    yield Case("A long text", TEXT * 100, SAME)
    yield Case("Bytes", bytes(range(256)) * 100, SAME)
    yield Case("A dict of one key", {"step": 1}, SAME)
    yield Case("A dict of three floats", {"x": 0.25, "y": dice.random(), "z": dice.random()}, SAME)
    yield Case("A small dict", state, SAME)
    yield Case("100 nested dicts", nested, SAME)
    yield Case("Lists and dicts 120 deep", deep, SAME)
    yield Case("A list of 1,000 texts", [f"{TEXT[:30]}{n}" for n in range(1000)], SAME)
    yield Case("A list of 1,000 Polish texts", [f"Zażółć gęślą jaźń {n}" for n in range(1000)], SAME)
    yield Case("A list of 10,000 integers", list(range(10_000)), SAME)
    yield Case("A list of 10,000 random floats", [dice.random() for _ in range(10_000)], SAME)
    yield Case("100 nested dicts of random floats", scores, SAME)
    yield Case("A dict of 1,000 integer keys", {n: str(n) for n in range(1000)}, SAME)
    yield Case("A chat of 1,000 messages", chat, 0.5)
    yield Case("1,000 messages with tool calls", calls, 0.5)
    yield Case("A dataclass", order, 0.5)
    yield Case("100 dataclasses", [dataclasses.replace(order, number=n) for n in range(100)], 0.5)
    yield Case("A NumPy array of 10,000 floats", np.random.default_rng(1).random(10_000), SAME)
    yield Case("A NumPy array of 10 integers", np.arange(10), SAME)


def rows(*, quick: bool = False) -> list[str]:
    """Measure, and return the lines of a table."""
    return table(measured(1 if quick else ROUNDS))


def measured(rounds: int) -> Iterable[Row]:
    """Yield a row for encoding, for decoding and for the size of each value."""
    ours, peer = JsonPlusSerializer().allow(Order), peer_serializer()
    sides = {"ours": ours} if peer is None else {"ours": ours, "peer": peer}
    for case in cases():
        stored = {name: side.dumps_typed(case.value) for name, side in sides.items()}
        encode = in_turn({n: bound(s.dumps_typed, case.value) for n, s in sides.items()}, rounds)
        decode = in_turn({n: bound(s.loads_typed, stored[n]) for n, s in sides.items()}, rounds)
        size = {name: float(len(data)) for name, (_, data) in stored.items()}
        yield Row(f"{case.work}: encode", "us", encode.get("peer"), encode["ours"], share=case.share)
        yield Row(f"{case.work}: decode", "us", decode.get("peer"), decode["ours"], share=case.share)
        if size["ours"] > WORTH_A_LINE:
            yield Row(f"{case.work}: size", "bytes", size.get("peer"), size["ours"])


def bound(function: Callable[[Any], Any], argument: Any) -> Callable[[], Any]:
    """Return a call with its argument."""
    return lambda: function(argument)


def in_turn(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Let the sides take turns, and return the median time of one call of each, in seconds."""
    # What else is in this process must not be looked through on one side's account.
    gc.collect()
    gc.freeze()
    counts = {name: max(1, int(SECONDS_A_TURN / seconds(call, 3))) for name, call in calls.items()}
    seen: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seen[name].append(seconds(call, counts[name]))
    gc.unfreeze()
    return {name: statistics.median(times) for name, times in seen.items()}


def seconds(call: Callable[[], Any], count: int) -> float:
    """Return how long one of several calls takes."""
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def peer_serializer() -> Any:
    """Return LangGraph's serializer, or `None` where it is not installed."""
    try:
        module = importlib.import_module("langgraph.checkpoint.serde.jsonplus")
    except ImportError:
        return None
    # It remarks on every type that it reads.
    logging.getLogger("langgraph").setLevel(logging.CRITICAL)
    return module.JsonPlusSerializer()


if __name__ == "__main__":
    print(*rows(quick="--quick" in sys.argv), sep="\n")
