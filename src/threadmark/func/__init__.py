"""Workflows that are plain functions: `entrypoint` makes a graph of one, `task` makes its steps durable.

This package knows how entry points and tasks are declared; what happens when they run is the engine's
affair.
"""

from threadmark.func.entry import entrypoint
from threadmark.func.tasks import TaskFunction, task
from threadmark.pregel.future import TaskFuture

__all__ = ["TaskFunction", "TaskFuture", "entrypoint", "task"]
