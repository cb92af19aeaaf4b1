"""The names that are part of the API and of saved data. Nothing here depends on anything.

The double-underscore names appear in stored checkpoints and writes, so they are part of the format.
"""

from __future__ import annotations

__all__ = ["END", "START", "TAG_HIDDEN", "TAG_NOSTREAM"]

START = "__start__"
"""The virtual node that every graph begins with."""

END = "__end__"
"""The virtual node that ends a path through the graph."""

TAG_NOSTREAM = "nostream"
"""A tag that keeps a model's tokens out of `stream_mode="messages"`."""

TAG_HIDDEN = "langsmith:hidden"
"""A tag that keeps a node out of traces."""

INPUT = "__input__"
ERROR = "__error__"
INTERRUPT = "__interrupt__"
RESUME = "__resume__"
TASKS = "__pregel_tasks"
PUSH = "__pregel_push"
PULL = "__pregel_pull"
PREVIOUS = "__previous__"
RETURN = "__return__"
NO_WRITES = "__no_writes__"
COPY = "__copy__"
ROOT = "__root__"
"""The one channel of a graph whose state is not split into keys."""

NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"
NS_SEP = "|"
NS_END = ":"

RESERVED = frozenset(
    {INPUT, ERROR, INTERRUPT, RESUME, TASKS, PUSH, PULL, PREVIOUS, RETURN, NO_WRITES, START, END}
)
