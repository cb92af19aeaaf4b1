r"""Paths to the fields of a value: `a.b`, `items[0].text`, `items[*].text`, `$`.

A path is names joined by dots, each followed by any number of `[n]` (an item of a list, from the end
when negative) or `[*]` (every item). `*` in place of a name means every value of a dictionary,
`{a,b}` the values of those names, and `$` alone the whole value. A backslash takes the special meaning
from the next character: `a\.b` is one name. This module knows values and paths, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from threadmark._checks import shown
from threadmark.errors import InvalidArgumentError

__all__ = [
    "EVERY",
    "MISSING",
    "Every",
    "Path",
    "find",
    "get_text_at_path",
    "leaf_text",
    "parse_path",
    "parse_single_path",
    "texts_at",
]


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = 0


MISSING: Final = Missing.MISSING
"""What a path finds where there is nothing. `None` is a value."""


class Every(Enum):
    """The type of `EVERY`."""

    LIST = 0
    """Every item of a list."""
    DICT = 1
    """Every value of a dictionary."""


EVERY: Final = Every.LIST

Step: TypeAlias = str | int | tuple[str, ...] | Every
Path: TypeAlias = tuple[Step, ...]

_LONGEST = 1_000
_SEGMENT = re.compile(
    r"""(?: (?P<every>\*) | \{(?P<names>[^{}]*)\} | (?P<name>(?:\\.|[^\\.\[\]{}*])+) )
        (?P<items>(?:\[(?:\*|-?\d{1,9})\])*)
        (?P<end>\.|$)""",
    re.VERBOSE | re.DOTALL,
)
_ITEM = re.compile(r"\[(\*|-?\d+)\]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_path(text: str) -> Path:
    """Return the steps of a path; the whole value has none.

    Raises:
        InvalidArgumentError: The text is not a path.
    """
    if not isinstance(text, str) or not text or len(text) > _LONGEST:
        raise _refused(text)
    return _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Path:
    if text == "$":
        return ()
    if text.startswith("$") and not text.startswith("$."):
        raise _refused(text)
    steps: list[Step] = []
    at = 2 if text.startswith("$.") else 0
    while True:
        segment = _SEGMENT.match(text, at)
        if segment is None:
            raise _refused(text)
        steps += _steps(segment)
        if not segment["end"]:
            return tuple(steps)
        at = segment.end()


def parse_single_path(text: str) -> Path:
    """Return the steps of a path that leads to one value: without `*` and `{a,b}`.

    Raises:
        InvalidArgumentError: The text is not such a path.
    """
    path = parse_path(text)
    if not path or not all(isinstance(step, (str, int)) for step in path):
        raise InvalidArgumentError(
            f"The path {shown(text)} does not lead to one value. Name one field, and use $contains to look "
            f"inside a list."
        )
    return path


def find(value: Any, path: Path) -> Any:
    """Return what a single path leads to, or `MISSING`."""
    for step in path:
        if type(step) is str:
            if type(value) is not dict or step not in value:
                return MISSING
        elif type(value) is not list or not -len(value) <= step < len(value):  # type: ignore[operator]
            return MISSING
        value = value[step]
    return value


def texts_at(value: Any, path: Path) -> list[str]:
    """Return the texts that a path leads to, each to be embedded on its own.

    Texts are taken as they are, numbers and booleans as JSON writes them, lists and dictionaries as
    JSON. `None` and blank texts are left out.
    """
    texts = (_text(found) for found in _all_at(value, path))
    return [text for text in texts if text.strip()]


def leaf_text(value: Any, path: Path) -> str:
    """Return all texts and numbers below what a path leads to: what keyword search looks at."""
    return "\n".join(text for found in _all_at(value, path) for text in _leaves(found))


def get_text_at_path(obj: Any, path: str) -> list[str]:
    """Return the texts of a value that an index with the field `path` would embed.

    Args:
        obj: A value.
        path: A path, as in the `fields` of an index.

    Raises:
        InvalidArgumentError: The path is none.
    """
    return texts_at(obj, parse_path(path))


def _steps(segment: re.Match[str]) -> Iterator[Step]:
    if segment["every"]:
        yield Every.DICT
    elif segment["names"] is not None:
        yield tuple(name.strip() for name in segment["names"].split(","))
    else:
        yield _ESCAPED.sub(r"\1", segment["name"])
    for item in _ITEM.findall(segment["items"]):
        yield EVERY if item == "*" else int(item)


def _all_at(value: Any, path: Path) -> Iterator[Any]:
    if not path:
        yield value
        return
    step, rest = path[0], path[1:]
    for found in _step_into(value, step):
        yield from _all_at(found, rest)


def _step_into(value: Any, step: Step) -> list[Any]:
    if step is Every.LIST:
        return value if isinstance(value, list) else []
    if step is Every.DICT:
        return list(value.values()) if isinstance(value, dict) else []
    if isinstance(step, tuple):
        return [value[name] for name in step if name in value] if isinstance(value, dict) else []
    found = find(value, (step,))
    return [] if found is MISSING else [found]


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield _text(value)


def _refused(text: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{shown(text)} is not a path. Write names joined by dots, as 'a.b', 'items[0].text', "
        f"'items[*].text' or '$' for the whole value; put a backslash before a dot "
        f"or dollar sign in a name."
    )
