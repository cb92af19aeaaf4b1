"""A run is a state machine: the same events give the same run, in whatever order tasks finish."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crash.corpus import STORIES, Story, World
from pregel.hand import Driven, drive_by_hand
from threadmark.pregel.rules import Task
from threadmark.pregel.spec import Spec
from threadmark.types import Command

# Sub-graphs are runs of their own, with drivers of their own.
FLAT = [story for story in STORIES if "subgraph" not in story.name and story.name != "commanding_parent"]


def at_once(tasks: list[Task]) -> list[Task]:
    """All tasks finish together, in their order."""
    return tasks


def permuted(seed: int) -> Any:
    """Return a choice of some tasks in some order."""
    chance = random.Random(seed)

    def choose(tasks: list[Task]) -> list[Task]:
        return chance.sample(tasks, chance.randint(1, len(tasks)))

    return choose


def played(story: Story, choose: Any, durability: Any) -> list[Driven]:
    """Play a story to its end; return all of its runs."""
    world = World()
    graph = world.compile(story.build(world))
    runs: list[Driven] = []
    given: Any = story.input
    for _ in range(20):
        spec = Spec(given, durability=durability, modes=("values",))
        driven = drive_by_hand(graph, spec, choose, runs[-1].saved if runs else None)
        runs.append(driven)
        if driven.run.outcome.interrupts:
            given = Command(resume={i.id: story.answer(i.value) for i in driven.run.outcome.interrupts})
        elif driven.error is not None:
            given = None
        else:
            return runs
    raise AssertionError(f"{story.name} does not come to an end")


def traced(runs: list[Driven]) -> list[Any]:
    """Return all that must not depend on order: what was saved, what it came to."""
    return [
        (driven.commits, driven.run.outcome.output, driven.run.outcome.interrupts, repr(driven.error))
        for driven in runs
    ]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("story", FLAT, ids=lambda story: story.name)
def test_the_same_events_give_the_same_run(story: Story, durability: Any) -> None:
    assert traced(played(story, at_once, durability)) == traced(played(story, at_once, durability))


@pytest.mark.parametrize("story", FLAT, ids=lambda story: story.name)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(), durability=st.sampled_from(["sync", "async", "exit"]))
def test_the_order_in_which_tasks_finish_does_not_matter(story: Story, seed: int, durability: Any) -> None:
    runs = played(story, permuted(seed), durability)
    assert traced(runs) == traced(played(story, at_once, durability))


@pytest.mark.parametrize("story", FLAT, ids=lambda story: story.name)
def test_when_it_is_saved_does_not_change_what_a_run_comes_to(story: Story) -> None:
    outputs = [
        played(story, at_once, durability)[-1].run.outcome.output for durability in ("sync", "async", "exit")
    ]
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_run_shows_a_step_only_after_it_was_saved() -> None:
    world = World()
    graph = world.compile(STORIES[0].build(world))
    spec = Spec({"log": [], "count": 0}, modes=("values", "updates"))
    spec.thread_id, spec.saves, spec.output_keys = "t", True, graph.plan.output_keys
    driven = drive_by_hand(graph, spec, at_once)
    shown = [chunk.data["log"] for chunk in driven.shown if chunk.mode == "values"]
    assert shown == [[], ["a"], ["a", "b"], ["a", "b", "c"]]
    assert len(driven.commits) == 5
    assert [m["step"] for _, m, _ in driven.commits] == [-1, 0, 1, 2, 3]
