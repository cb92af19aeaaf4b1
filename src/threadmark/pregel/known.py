"""The classes that a run's values may be rebuilt as: those of its graph, and those that tasks return.

A task may be called from any node of any graph, so what tasks return is known to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from threadmark.pregel.call import hints_of
from threadmark.pregel.plan import Plan

__all__ = ["declare_types", "known_types"]

declared: dict[str, type] = {}
"""The classes that tasks return, by name. A class that is defined again takes the place of the first."""


def declare_types(code: Any) -> None:
    """Note the classes that the annotation of a task's result names."""
    from threadmark.checkpoint.serde.schema import collect_types

    for found in collect_types(hints_of(code).get("return")):
        declared[f"{found.__module__}:{found.__qualname__}"] = found


def known_types(plan: Plan) -> Iterable[type]:
    """Return the classes that runs of a graph may rebuild."""
    return plan.known_types | set(declared.copy().values()) if declared else plan.known_types
