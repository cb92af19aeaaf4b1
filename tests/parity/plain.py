"""What can be seen of a run as plain data, so that the runs of two libraries can be compared.

Names of classes take the place of classes; what may differ by agreement (`docs/differences.md`) is left
out here and nowhere else. Identifiers stay as they are until `numbered` replaces them.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping
from typing import Any

FAMILIES = (
    "GraphRecursionError",
    "InvalidUpdateError",
    "EmptyInputError",
    "NodeTimeoutError",
    "ParentCommand",
)
"""Errors that both libraries have under one name. All others count as the built-in class above them."""

HIDDEN = ("checkpoint_map",)
SCALARS = (str, int, float, bool, bytes, type(None))


def plain(value: Any) -> Any:
    """Return a value as plain data."""
    if type(value) in SCALARS:
        return value
    if isinstance(value, BaseException):
        return failure(value)
    if isinstance(value, enum.Enum):
        return (type(value).__name__, value.name)
    name = type(value).__name__
    shaped = SHAPES.get(name)
    if shaped is not None:
        return shaped(value)
    if isinstance(value, Mapping):
        return mapping(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return (name, sorted(map(plain, value), key=repr))
    return (name, fields_of(value))


def mapping(value: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a dict as plain data, without what differs by agreement."""
    found = {
        key: plain(item)
        for key, item in value.items()
        if not (isinstance(key, str) and key.startswith("__pregel")) and key not in HIDDEN
    }
    if "source" in found and "step" in found:  # a checkpoint's metadata
        found.pop("writes", None)
        if not found.get("parents"):
            found.pop("parents", None)
    if found.keys() == {"value", "id", "response_schema"}:  # an interrupt in a debug event
        del found["response_schema"]
    if "next" in found and "tasks" in found:  # a checkpoint in a debug event
        found["next"] = sorted(found["next"])
        found["tasks"] = sorted(found["tasks"], key=by_name)
        # The order of these keys says nothing, and neither does an empty result.
        found["tasks"] = [{k: v for k, v in t.items() if v is not None} for t in found["tasks"]]
    return found


def by_name(task: Any) -> str:
    """A sort key for tasks that does not depend on ids."""
    return masked(repr((task["name"], task.get("path"), task.get("result"), task)))


def failure(error: BaseException) -> tuple[Any, ...]:
    """Return an error's family; the text only where the program itself raised it."""
    for cls in type(error).__mro__:
        if cls.__name__ in FAMILIES or cls.__module__ == "builtins":
            break
    own = not type(error).__module__.startswith(("langgraph", "threadmark"))
    raised = own and cls is type(error) and str(error).startswith("program:")
    return ("error", cls.__name__, *([str(error)] if raised else []))


def fields_of(value: Any) -> Any:
    """Return what an object holds."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if hasattr(value, "model_dump"):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    return re.sub(r"0x[0-9a-f]+", "0x", repr(value))


def interrupt(value: Any) -> tuple[Any, ...]:
    return ("Interrupt", plain(value.value), value.id)


def overwrite(value: Any) -> tuple[Any, ...]:
    return ("Overwrite", plain(value.value))


def send(value: Any) -> tuple[Any, ...]:
    return ("Send", value.node, plain(value.arg))


def message(value: Any) -> tuple[Any, ...]:
    calls = [(c["name"], c["args"], c["id"]) for c in getattr(value, "tool_calls", None) or ()]
    return (type(value).__name__, plain(value.content), value.id, *([calls] if calls else []))


def snapshot(value: Any) -> dict[str, Any]:
    return {
        "values": plain(value.values),
        "next": sorted(value.next),
        "config": plain(value.config),
        "metadata": plain(value.metadata),
        "created": value.created_at is not None,
        "parent": plain(value.parent_config),
        "tasks": sorted(map(task, value.tasks), key=by_name),
        "interrupts": sorted(map(plain, value.interrupts), key=repr),
    }


def task(value: Any) -> dict[str, Any]:
    return {
        "id": value.id,
        "name": value.name,
        "path": plain(value.path),
        "error": error_text(value.error),
        "interrupts": plain(value.interrupts),
        "result": plain(value.result),
        "state": plain(value.state),
    }


def error_text(error: Any) -> str | None:
    """Return a task's error as text, whether it is kept as an exception or as its repr."""
    return None if error is None else error if isinstance(error, str) else repr(error)


SHAPES = {
    "Interrupt": interrupt,
    "Overwrite": overwrite,
    "Send": send,
    "StateSnapshot": snapshot,
    "PregelTask": task,
    **{
        f"{kind}Message{chunk}": message
        for kind in ("Human", "AI", "System", "Tool", "Remove")
        for chunk in ("", "Chunk")
    },
}

IDENTIFIER = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)")


def masked(text: str) -> str:
    """Return text with every identifier made the same."""
    return TIME.sub("<time>", IDENTIFIER.sub("<id>", text))


def numbered(value: Any, seen: dict[str, str]) -> Any:
    """Return plain data with each identifier replaced by when it was seen first."""
    if isinstance(value, str):
        return TIME.sub(
            "<time>",
            IDENTIFIER.sub(lambda m: seen.setdefault(m.group(), f"<{len(seen) + 1}>"), value),
        )
    if isinstance(value, dict):
        return {numbered(k, seen): numbered(v, seen) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(numbered(item, seen) for item in value)
    return value
