"""What is measured, with which budget, and how it is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.measure import Side, in_turn, sqlite_floor

BUDGETS_OF_FLOOR = 1.6


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        work: What was done.
        unit: `us`, `ms`, `s`, `bytes` or `x`.
        peer: LangGraph's figure, in seconds, bytes or times.
        ours: Ours.
        floor: What the same costs without a library, when that can be measured.
        share: The budget as a part of the peer's figure.
        limit: The budget as a figure of its own.
        times_floor: The budget as a multiple of the floor.
    """

    work: str
    unit: str
    peer: float | None
    ours: float
    floor: float | None = None
    share: float | None = None
    limit: float | None = None
    times_floor: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether every budget is met; `None` without one."""
        checks = [
            self.ours <= bound
            for bound in (
                self.share * self.peer if self.share and self.peer is not None else None,
                self.limit,
                self.times_floor * self.floor if self.times_floor and self.floor else None,
            )
            if bound is not None
        ]
        return all(checks) if checks else None


@dataclass(frozen=True)
class Plan:
    """How much work is done.

    Attributes:
        steps: Supersteps of a run.
        turns: Turns of the chat.
        late: The late step of the long thread.
        rounds: How often the sides take turns in the short work.
        long_rounds: The same in the long work.
    """

    steps: int = 1000
    turns: int = 500
    late: int = 10_000
    rounds: int = 5
    long_rounds: int = 3


FULL = Plan()
QUICK = Plan(steps=40, turns=5, late=60, rounds=1, long_rounds=1)


def rows(ours: Side, peer: Side, plan: Plan, postgres: str | None = None) -> Iterator[Row]:
    """Measure and yield row by row."""
    yield step_row(ours, peer, plan, "Superstep, one small node, no saver", share=1 / 12, saver=None)
    yield step_row(ours, peer, plan, "The same, memory saver", share=1 / 10, saver="memory")
    for durability, share in (("async", 1 / 8), ("sync", 1 / 6)):
        yield step_row(
            ours,
            peer,
            plan,
            f"The same, SQLite, durability {durability}",
            share=share,
            saver="sqlite",
            durability=durability,
        )
    if postgres is not None:
        for durability in ("async", "sync"):
            yield step_row(
                ours,
                peer,
                plan,
                f"The same, Postgres, durability {durability}",
                share=1 / 4,
                saver="postgres",
                durability=durability,
                target=postgres,
            )
    yield growth_row(ours, peer, plan)
    yield from chat_rows(ours, peer, plan)
    yield from long_rows(ours, peer, plan)
    yield import_row(ours, peer, plan)


def both(ours: Side, peer: Side, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The two sides of a piece of work."""
    return {side.root: partial(run_in, side, name, options) for side in (ours, peer)}


def run_in(side: Side, name: str, options: dict[str, Any], folder: str) -> dict[str, float]:
    """Do some work in a folder."""
    return side.run(name, folder, options)


def step_row(ours: Side, peer: Side, plan: Plan, work: str, *, share: float, **options: Any) -> Row:
    """Measure a superstep, and its floor where there is one."""
    options["steps"] = plan.steps
    sides: dict[str, Callable[[str], dict[str, float]]] = both(ours, peer, "supersteps", options)
    if options["saver"] == "sqlite":
        sides["floor"] = lambda folder: sqlite_floor(ours, folder, options)
    elif options["saver"] is None:
        sides["floor"] = lambda folder: ours.run("floor", folder, {"steps": plan.steps})
    found = in_turn(sides, plan.rounds)
    return Row(
        work,
        "us",
        found[peer.root]["step"],
        found[ours.root]["step"],
        floor=found["floor"]["step"] if "floor" in found else None,
        share=share,
        times_floor=BUDGETS_OF_FLOOR if options["saver"] == "sqlite" else None,
    )


def growth_row(ours: Side, peer: Side, plan: Plan) -> Row:
    """Measure how a file grows."""
    sides = both(ours, peer, "growth", {"steps": plan.steps, "item": 100})
    found = in_turn(sides, 1)
    return Row(
        f"SQLite file after {plan.steps:,} steps of +100 bytes",
        "bytes",
        found[peer.root]["bytes"],
        found[ours.root]["bytes"],
        limit=1.8e6,
    )


def chat_rows(ours: Side, peer: Side, plan: Plan) -> Iterator[Row]:
    """Measure a long chat."""
    sides = both(ours, peer, "chat", {"turns": plan.turns, "chars": 275})
    found = in_turn(sides, plan.long_rounds)
    mine, theirs = found[ours.root], found[peer.root]
    kilobytes = mine["text"] / 1000
    name = f"Chat, {plan.turns} turns, {kilobytes:,.0f} kB of text, SQLite"
    yield Row(f"{name}: file", "bytes", theirs["bytes"], mine["bytes"], limit=3e6)
    yield Row(f"{name}: last turn", "ms", theirs["turn"], mine["turn"], share=1 / 20)
    yield Row(f"{name}: history listed", "s", theirs["history"], mine["history"], share=1 / 100)


def long_rows(ours: Side, peer: Side, plan: Plan) -> Iterator[Row]:
    """Measure whether a long thread gets slower."""
    early = plan.late // 10
    options = {"early": early, "late": plan.late, "window": max(early // 10, 3)}
    found = in_turn(both(ours, peer, "lengthening", options), 1)
    mine, theirs = found[ours.root], found[peer.root]
    work = f"Step {plan.late:,} of one thread against step {early:,}, SQLite"
    yield Row(work, "x", theirs["ratio"], mine["ratio"], limit=2)


def import_row(ours: Side, peer: Side, plan: Plan) -> Row:
    """Measure the import in a fresh process."""
    sides = {side.root: (lambda folder, side=side: side.import_seconds()) for side in (ours, peer)}
    found = in_turn(sides, plan.rounds)
    return Row(
        "`import threadmark.graph` in a fresh process",
        "ms",
        found[peer.root]["seconds"],
        found[ours.root]["seconds"],
        share=1 / 6,
    )
