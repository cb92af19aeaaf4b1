"""A run that dies at any effect of its database goes on from what was saved, and repeats nothing saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crash.corpus import STORIES, Story, World
from crash.player import Player, finished_tasks, kept_open, picture
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.testing import Stopped, abandoned

TOLD = {"fan_out", "asking_twice_at_once", "with_subgraph", "failing"}
SOME = [story for story in STORIES if story.name in TOLD]
WAYS = [("sync", "sync"), ("sync", "exit"), ("async", "async")]


@pytest.mark.parametrize(("mode", "durability"), WAYS)
@pytest.mark.parametrize("story", SOME, ids=lambda story: story.name)
def test_a_run_abandoned_at_any_effect_is_resumed(
    story: Story, mode: str, durability: Any, tmp_path: Path
) -> None:
    path = tmp_path / "threads.db"
    world = World()
    built = world.compile(story.build(world))
    with Player(mode) as player, kept_open(path):
        with SqliteSaver(path) as saver:
            values, history, _ = player.play(story, saver, "undisturbed", durability=durability)
        for at in range(10_000):
            thread = f"stopped at {at}"
            config = {"configurable": {"thread_id": thread}}
            world.mended.clear()
            world.ran.clear()
            with SqliteSaver(path) as saver, abandoned(saver._database, at):
                graph = built.copy({"checkpointer": saver})
                try:
                    player.finish(story, graph, config, durability=durability)
                    stopped = False
                except Stopped:
                    stopped = True
            with SqliteSaver(path) as saver:
                stored = finished_tasks(saver, thread)
                before = len(world.ran)
                graph = built.copy({"checkpointer": saver})
                assert player.finish(story, graph, config, durability=durability) == values
                again = stored & {task for _, task in world.ran[before:]}
                assert not again, f"stopped at effect {at}: finished tasks ran again"
                if durability != "exit":
                    assert picture(player.history(graph, config)) == history, f"stopped at effect {at}"
            if not stopped:
                return
