"""Plays a story on a saver, sync or async, to its end, and looks at what is stored."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any, Self

from crash.corpus import Story, World
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.constants import ERROR, INTERRUPT, RESUME
from threadmark.types import Command

__all__ = ["Player", "finished_tasks", "kept_open", "open_saver", "picture"]


def open_saver(kind: str, path: Any, memory: InMemorySaver) -> AbstractContextManager[Any]:
    """Return a saver: the one in memory, or a new one on the file."""
    return SqliteSaver(path) if kind == "sqlite" else nullcontext(memory)


@contextmanager
def kept_open(path: Any) -> Iterator[None]:
    """Keep a file open, so that closing savers are not the last ones and have nothing to tidy up."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT 1 FROM sqlite_master")
        yield


class Player:
    """Calls the sync or the async methods of a graph.

    Args:
        mode: `"sync"` or `"async"`.
    """

    def __init__(self, mode: str) -> None:
        self.runner = asyncio.Runner() if mode == "async" else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.runner is not None:
            self.runner.close()

    def call(self, graph: Any, method: str, *args: Any, **options: Any) -> Any:
        """Call `graph.method`, or its async twin."""
        if self.runner is None:
            return getattr(graph, method)(*args, **options)
        return self.runner.run(getattr(graph, "a" + method)(*args, **options))

    def history(self, graph: Any, config: Any) -> list[Any]:
        """Return the history of a thread."""
        if self.runner is None:
            return list(graph.get_state_history(config))

        async def collect() -> list[Any]:
            return [state async for state in graph.aget_state_history(config)]

        return self.runner.run(collect())

    def finish(self, story: Story, graph: Any, config: Any, **options: Any) -> Any:
        """Bring a thread to its end: start it, go on, answer, whatever its state asks for."""
        for _ in range(50):
            state = self.call(graph, "get_state", config)
            if state.created_at is not None and not state.next:
                return state.values
            self.one_run(story, graph, config, state, **options)
        raise AssertionError(f"{story.name} does not come to an end")

    def one_run(self, story: Story, graph: Any, config: Any, state: Any, **options: Any) -> None:
        """Make the run that the state of a thread asks for."""
        given: Any = None
        if state.created_at is None:
            given = story.input
        elif state.interrupts:
            given = Command(resume={i.id: story.answer(i.value) for i in state.interrupts})
        try:
            self.call(graph, "invoke", given, config, **options)
        except ValueError as error:  # the story's own trouble, which is over the next time
            if str(error) != "broken":
                raise

    def play(self, story: Story, saver: Any, thread: str, **options: Any) -> tuple[Any, list[Any], World]:
        """Play a story undisturbed; return its end, its history, and what ran."""
        world = World()
        graph = world.compile(story.build(world), checkpointer=saver)
        config = {"configurable": {"thread_id": thread}}
        values = self.finish(story, graph, config, **options)
        return values, picture(self.history(graph, config)), world


def picture(history: list[Any]) -> list[Any]:
    """Return what must be equal in two histories of the same story: all but ids and times."""
    return [
        (s.values, s.next, s.metadata, [(t.name, t.path, t.result) for t in s.tasks])
        for s in (without_parents(state) for state in history)
    ]


def without_parents(state: Any) -> Any:
    """Return a snapshot without the ids in its metadata."""
    return state._replace(metadata={k: v for k, v in state.metadata.items() if k != "parents"})


def finished_tasks(saver: Any, thread: str) -> set[str]:
    """Return the ids of the tasks whose results are stored, in all namespaces."""
    unfinished = {ERROR, INTERRUPT, RESUME}
    return {
        task_id
        for saved in saver.list({"configurable": {"thread_id": thread}})
        for task_id, channel, _ in saved.pending_writes or ()
        if channel not in unfinished
    }
