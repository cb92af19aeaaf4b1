"""What SQLite can tell about a filter, to fetch fewer rows.

The condition that is made here holds for every item that the filter accepts, and for most that it
refuses it does not. It need not be exact, and could not be: SQLite reads large integers and many
digits of a fraction only roughly, and knows no lone surrogates. Where it could miss an item, it is
left out. Which items match is decided in Python, by the filter itself.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from threadmark.store.paths import Path
from threadmark.store.query import AllOf, AnyOf, Filter, Test

__all__ = ["Narrowed", "narrowed"]


class Narrowed(NamedTuple):
    """A condition in SQL, with its parameters."""

    sql: str
    params: list[Any]


_ALL = Narrowed("1", [])
_NONE = Narrowed("0", [])

# Texts that are the same inside JSON, in SQLite's paths and in Python.
_PLAIN_NAME = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]+')
_PLAIN_TEXT = re.compile(r"[^\x00\ud800-\udfff]*")

_FOUND = "json_extract(value, ?)"
_ROUGHLY = 1e-9
_MOST_PARAMS = 300  # SQLite refuses expressions that are nested too deep.


def narrowed(filter: Filter | None) -> Narrowed:
    """Return a condition on the column `value` that holds for every item that the filter accepts."""
    condition = _ALL if filter is None else _narrowed(filter)
    return condition if len(condition.params) <= _MOST_PARAMS else _ALL


def _narrowed(filter: Filter) -> Narrowed:
    if isinstance(filter, AllOf):
        parts = [part for part in map(_narrowed, filter.parts) if part != _ALL]
        return _NONE if _NONE in parts else _joined(" AND ", parts, _ALL)
    if isinstance(filter, AnyOf):
        parts = [part for part in map(_narrowed, filter.parts) if part != _NONE]
        return _ALL if _ALL in parts else _joined(" OR ", parts, _NONE)
    if isinstance(filter, Test):
        path = _json_path(filter.path)
        return _ALL if path is None else _test(path, filter.operator, filter.operand)
    # What is negated must not be narrowed, or items would be missed.
    return _ALL


def _test(path: str, operator: str, operand: Any) -> Narrowed:
    if operator == "$eq":
        return _equal(path, operand)
    if operator == "$in":
        parts = [_equal(path, one) for one in operand]
        return _ALL if _ALL in parts else _joined(" OR ", parts, _NONE)
    if operator == "$exists":
        return Narrowed(f"json_type(value, ?) IS {'NOT NULL' if operand else 'NULL'}", [path])
    if operator in ("$gt", "$gte"):
        bounds = _bounds(operand)
        return _ALL if bounds is None else Narrowed(f"{_FOUND} >= ?", [path, bounds[0]])
    if operator in ("$lt", "$lte"):
        bounds = _bounds(operand)
        return _ALL if bounds is None else Narrowed(f"{_FOUND} <= ?", [path, bounds[1]])
    return _ALL


def _equal(path: str, operand: Any) -> Narrowed:
    if operand is None:
        return Narrowed("json_type(value, ?) = 'null'", [path])
    if isinstance(operand, bool):
        return Narrowed(f"{_FOUND} = ?", [path, int(operand)])
    bounds = _bounds(operand)
    if bounds is None:
        return _ALL
    if isinstance(operand, str):
        return Narrowed(f"{_FOUND} = ?", [path, operand])
    return Narrowed(f"{_FOUND} BETWEEN ? AND ?", [path, *bounds])


def _bounds(operand: Any) -> tuple[Any, Any] | None:
    """Return between what SQLite takes a value for that equals `operand`; `None` when unknown."""
    if isinstance(operand, str):
        return (operand, operand) if _PLAIN_TEXT.fullmatch(operand) else None
    if not isinstance(operand, (int, float)):
        return None
    try:
        about = float(operand)
    except OverflowError:
        return None
    margin = abs(about) * _ROUGHLY + 1e-300
    return about - margin, about + margin


def _json_path(path: Path) -> str | None:
    steps = ["$"]
    for step in path:
        if isinstance(step, int):
            steps.append(f"[{step}]" if step >= 0 else f"[#{step}]")
        elif isinstance(step, str) and _PLAIN_NAME.fullmatch(step):
            steps.append(f'."{step}"')
        else:
            return None
    return "".join(steps)


def _joined(word: str, parts: list[Narrowed], of_none: Narrowed) -> Narrowed:
    if not parts:
        return of_none
    params = [param for part in parts for param in part.params]
    return Narrowed(f"({word.join(part.sql for part in parts)})", params)
