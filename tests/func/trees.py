"""Random workflows: trees of tasks that call tasks, fail now and then, and ask questions.

A leaf does something once; a branch calls its parts one after the other or all at once. The helper `finish`
resumes a run until it is done, answering some of the pending questions each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from threadmark.func import task
from threadmark.types import Command, interrupt

HERE = {"configurable": {"thread_id": "here"}}


@dataclass(frozen=True)
class Leaf:
    """A task that does one thing.

    Attributes:
        failures: How often it fails before it works.
        asks: How many questions it asks first.
    """

    failures: int = 0
    asks: int = 0


@dataclass(frozen=True)
class Fork:
    """A task that calls others."""

    parts: tuple[Any, ...]
    together: bool


leaves = st.builds(Leaf, failures=st.sampled_from([0, 0, 0, 1, 2]), asks=st.sampled_from([0, 0, 1, 2]))
trees = st.recursive(
    leaves,
    lambda inner: st.builds(Fork, st.lists(inner, min_size=1, max_size=3).map(tuple), st.booleans()),
    max_leaves=7,
)


class Broken(Exception):
    """A leaf has failed."""


@dataclass
class World:
    """What the leaves have done: by their path in the tree."""

    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def work(self, leaf: Leaf, path: str) -> Any:
        """Do what a leaf does."""
        answers = [interrupt(f"{path}?{i}") for i in range(leaf.asks)]
        if self.failed[path] < leaf.failures:
            self.failed[path] += 1
            raise Broken(path)
        self.done[path] += 1
        return [path, *answers]


def expected(tree: Any, path: str = "r") -> Any:
    """Return what a tree comes to."""
    if isinstance(tree, Leaf):
        return [path, *(f"yes {path}?{i}" for i in range(tree.asks))]
    return [expected(part, f"{path}.{i}") for i, part in enumerate(tree.parts)]


def paths(tree: Any, path: str = "r") -> list[str]:
    """Return the paths of the leaves."""
    if isinstance(tree, Leaf):
        return [path]
    return [p for i, part in enumerate(tree.parts) for p in paths(part, f"{path}.{i}")]


def sync_walk(world: World) -> Callable[[Any, str], Any]:
    """Return the task that walks a tree, in threads."""

    @task
    def walk(tree: Any, path: str) -> Any:
        if isinstance(tree, Leaf):
            return world.work(tree, path)
        parts = [(part, f"{path}.{i}") for i, part in enumerate(tree.parts)]
        if tree.together:
            return [future.result() for future in [walk(*part) for part in parts]]
        return [walk(*part).result() for part in parts]

    return walk


def async_walk(world: World) -> Callable[[Any, str], Any]:
    """Return the task that walks a tree, on an event loop; its leaves are not async."""

    @task
    def leaf(tree: Leaf, path: str) -> Any:
        return world.work(tree, path)

    @task
    async def walk(tree: Any, path: str) -> Any:
        if isinstance(tree, Leaf):
            return await leaf(tree, path)
        parts = [(part, f"{path}.{i}") for i, part in enumerate(tree.parts)]
        if tree.together:
            return [await future for future in [walk(*part) for part in parts]]
        return [await walk(*part) for part in parts]

    return walk


def next_input(result: Any, choose: Callable[[list[Any]], list[Any]]) -> Any:
    """Return what to go on with: the answers to some of the questions of a result."""
    questions = result["__interrupt__"]
    assert len({question.id for question in questions}) == len(questions)
    return Command(resume={q.id: f"yes {q.value}" for q in choose(questions)})


def paused(result: Any) -> bool:
    """Tell whether a run has paused."""
    return isinstance(result, dict) and "__interrupt__" in result
