"""A thread whose every superstep starts from storage, in a new process as it were, ends as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crash.corpus import STORIES, Story, World
from crash.player import Player, open_saver, picture
from parity.programs import Case, cases
from parity.trace import Trace, trace
from threadmark.checkpoint.memory import InMemorySaver


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_superstep_can_start_from_storage(story: Story, mode: str, kind: str, tmp_path: Path) -> None:
    memory, path = InMemorySaver(), tmp_path / "threads.db"
    config: Any = {"configurable": {"thread_id": "rebuilt"}}
    with Player(mode) as player:
        with open_saver(kind, path, memory) as saver:
            values, history, _ = player.play(story, saver, "at once")
        world = World(options={"interrupt_after": "*"})
        for _ in range(40):
            with open_saver(kind, path, memory) as saver:
                graph = world.compile(story.build(world), checkpointer=saver)
                state = player.call(graph, "get_state", config)
                if state.created_at is not None and not state.next:
                    break
                player.one_run(story, graph, config, state)
        assert state.values == values
        assert len({task for _, task in world.ran}) == len(world.ran), "no task ran twice"
        with open_saver(kind, path, memory) as saver:
            graph = world.compile(story.build(world), checkpointer=saver)
            assert picture(player.history(graph, config)) == history


class Rebuilding(Trace):
    """A trace in which `invoke` makes one run for each superstep."""

    async def call(self, graph: Any, method: str, *args: Any, **options: Any) -> Any:
        call = super().call
        plain = not options.keys() & {"interrupt_before", "interrupt_after", "stream_mode", "durability"}
        paused = getattr(graph, "interrupt_before", ()) or getattr(graph, "interrupt_after", ())
        if method != "invoke" or not plain or paused or not hasattr(graph.checkpointer, "get_tuple"):
            return await call(graph, method, *args, **options)
        config = args[1] if len(args) > 1 else options.get("config")
        if "checkpoint_id" in (config or {}).get("configurable", {}):
            return await call(graph, method, *args, **options)
        result = await call(graph, method, *args, **options, interrupt_after="*")
        for _ in range(60):
            if isinstance(result, Exception) or asks(result):
                return result
            state = await call(graph, "get_state", config)
            if isinstance(state, Exception) or not state.next:
                return result
            result = await call(graph, method, None, config, **options, interrupt_after="*")
        raise AssertionError("the program does not come to an end")


def asks(result: Any) -> bool:
    """Tell whether a run paused at a question."""
    return bool(getattr(result, "interrupts", ())) or (isinstance(result, dict) and "__interrupt__" in result)


# Each run has an allowance of supersteps of its own, which is what these programs look at.
COUNTING = {"control.the_recursion_limit_stops_a_loop", "control.nodes_can_see_how_many_steps_remain"}
PROGRAMS = [case for case in cases() if case.name not in COUNTING]


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_users_programs_show_the_same_when_rebuilt_at_every_superstep(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode, saver = case.modes[0], case.savers[-1]
    at_once, rebuilt = tmp_path / "at once", tmp_path / "rebuilt"
    at_once.mkdir()
    rebuilt.mkdir()
    expected = trace("threadmark", case.run, mode, saver, at_once)
    monkeypatch.setattr("parity.trace.Trace", Rebuilding)
    assert trace("threadmark", case.run, mode, saver, rebuilt) == expected
