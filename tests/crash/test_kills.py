"""Processes killed with SIGKILL at random moments lose nothing they reported, and repeat nothing saved."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crash.children import ROUNDS, long_graph, processes, run_long
from crash.player import finished_tasks
from threadmark.checkpoint.sqlite import SqliteSaver

EXPECTED = [
    item for n in range(ROUNDS) for item in (f"plan {n}", f"{n}a", f"{n}b", f"{n}c", f"one {n}", f"two {n}")
]
KILLS = 20


class Victim:
    """A child that is killed at a random moment.

    Args:
        arguments: What `run_long` is called with, but for the pipe.
        chance: Decides when.
    """

    def __init__(self, path: Path, effects: Path, rest: tuple[Any, ...], chance: random.Random) -> None:
        self.inbox, outbox = processes.Pipe(duplex=False)
        self.process = processes.Process(target=run_long, args=(path, effects, outbox, *rest))
        self.process.start()
        outbox.close()
        self.chance = chance
        self.reports: list[Any] = []

    def kill(self) -> None:
        """Kill the child some time after some report; collect all that it had reported by then."""
        for _ in range(self.chance.randrange(8)):
            if not self.hear():
                break
        end = time.perf_counter() + self.chance.random() * 0.01
        while time.perf_counter() < end and not self.inbox.poll():
            pass
        self.process.kill()
        while self.hear():
            pass
        self.process.join()

    def hear(self) -> bool:
        """Hear one report, if there is another one."""
        try:
            self.reports.append(self.inbox.recv())
        except (EOFError, OSError):
            return False
        return True

    def reported(self) -> Counter[str]:
        """Return the items of the log that were reported."""
        updates = [update for report in self.reports if report != "end" for update in report.values()]
        return Counter(item for update in updates for item in (update or {}).get("log", ()))


@pytest.mark.parametrize(("mode", "durability"), [("sync", "sync"), ("sync", "async"), ("async", "sync")])
def test_nothing_reported_is_lost_and_nothing_saved_runs_again(
    mode: str, durability: str, tmp_path: Path
) -> None:
    path, effects = tmp_path / "threads.db", tmp_path / "effects"
    effects.touch()
    chance = random.Random(f"{mode} {durability}")
    kills = threads = 0
    while kills < KILLS:
        thread = f"thread {threads}"
        threads += 1
        reported: Counter[str] = Counter()
        for _ in range(100):
            with SqliteSaver(path) as saver:
                stored = finished_tasks(saver, thread)
            before = len(effects.read_text().split())
            victim = Victim(path, effects, (thread, mode, durability), chance)
            victim.kill()
            kills += 1
            again = stored & set(effects.read_text().split()[before:])
            assert not again, "a task whose writes were saved ran again"
            reported += victim.reported()
            with SqliteSaver(path) as saver:
                state = (
                    long_graph(print)
                    .compile(checkpointer=saver)
                    .get_state({"configurable": {"thread_id": thread}})
                )
            kept = Counter(state.values.get("log", ()))
            assert not Counter(set(reported)) - kept, "what was reported is there"
            assert max(kept.values(), default=1) == 1, "and once"
            if "end" in victim.reports or (state.created_at and not state.next):
                break
        assert state.values["log"] == EXPECTED
        assert state.values["round"] == ROUNDS
