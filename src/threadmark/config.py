"""What a run is told from outside (`RunnableConfig`), and how code inside a node finds it again.

The config of the running task travels in a context variable, so that `get_config`, `get_store` and
`get_stream_writer` work anywhere below a node, in threads and coroutines alike. This module knows no
graph and no saver.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

__all__ = ["RunnableConfig"]


class RunnableConfig(TypedDict, total=False):
    """Options of one run. Any plain dict with these keys will do.

    Keys:
        configurable: Addresses (`thread_id`, `checkpoint_ns`, `checkpoint_id`, `branch`) and whatever
            the user's nodes want to find there.
        metadata: Saved with every checkpoint of the run.
        tags: Passed on to nodes and callbacks.
        callbacks: LangChain callbacks, passed on to nodes that are LangChain runnables.
        recursion_limit: The largest number of supersteps.
        max_concurrency: The largest number of tasks at once.
        run_name: A name for the run.
        run_id: An id for the run; saved in the metadata.
    """

    configurable: dict[str, Any]
    metadata: dict[str, Any]
    tags: list[str]
    callbacks: Any
    recursion_limit: int
    max_concurrency: int | None
    run_name: str
    run_id: Any
