"""A run that is abandoned at any of its commands goes on from what was saved, and repeats nothing saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crash.corpus import STORIES, Story, World
from crash.player import Player, finished_tasks, kept_open, open_saver, picture
from threadmark.checkpoint.base import Commit, TaskCommit
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.pregel.run import Run
from threadmark.testing import Stopped

DURABILITIES = ("sync", "async", "exit")


class Death:
    """Ends all runs at a chosen command, as the death of the process would.

    Attributes:
        left: How many commands are left.
        saved: The tasks whose commits were carried out.
    """

    def __init__(self, at: int) -> None:
        self.left = at
        self.saved: set[str] = set()

    def watch(self, steps: Iterator[Any]) -> Iterator[Any]:
        """Pass on the commands of a run up to the end."""
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                command = steps.send(answer) if error is None else steps.throw(error)  # type: ignore[attr-defined]
            except StopIteration:
                return
            if self.left <= 0:
                raise Stopped
            self.left -= 1
            answer = error = None
            try:
                answer = yield command
            except BaseException as raised:
                error = raised
                continue
            if isinstance(command, Commit | TaskCommit):
                names = ("__error__", "__interrupt__", "__resume__")
                self.saved |= {w.task_id for w in command.writes if all(c not in names for c, _ in w.writes)}


@pytest.mark.parametrize("saver_kind", ["memory", "sqlite"])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_run_abandoned_at_any_command_is_resumed(
    story: Story,
    durability: Any,
    mode: str,
    saver_kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, path = InMemorySaver(), tmp_path / "threads.db"
    go = Run.go
    world = World()
    built = world.compile(story.build(world))
    with Player(mode) as player, kept_open(path):
        with open_saver(saver_kind, path, memory) as saver:
            values, history, _ = player.play(story, saver, "undisturbed", durability=durability)
        for at in range(1000):
            death = Death(at)
            thread = f"stopped at {at}"
            config = {"configurable": {"thread_id": thread}}
            world.mended.clear()
            world.ran.clear()
            with open_saver(saver_kind, path, memory) as saver:
                graph = built.copy({"checkpointer": saver})
                monkeypatch.setattr(Run, "go", lambda run, death=death: death.watch(go(run)))
                try:
                    player.finish(story, graph, config, durability=durability)
                    reached = False
                except Stopped:
                    reached = True
                monkeypatch.setattr(Run, "go", go)
            with open_saver(saver_kind, path, memory) as saver:
                stored = finished_tasks(saver, thread)
                if durability == "sync":
                    assert death.saved <= stored, "what was acknowledged is there"
                before = len(world.ran)
                graph = built.copy({"checkpointer": saver})
                assert player.finish(story, graph, config, durability=durability) == values
                again = stored & {task for _, task in world.ran[before:]}
                assert not again, f"stopped at command {at}: finished tasks ran again"
                if durability == "sync":
                    assert picture(player.history(graph, config)) == history, f"stopped at command {at}"
            if not reached:
                assert Counter(world.ran).most_common(1)[0][1] == 1
                return
    raise AssertionError("the run has no end")
