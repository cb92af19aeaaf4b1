"""What Postgres can tell about a filter, to fetch fewer rows.

The condition that is made here holds for every item that the filter accepts; which items match is decided
in Python, by the filter itself. Where jsonb sees a value differently it is left out: integers and floats
beyond 2**53, and texts with NUL or lone surrogates.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from threadmark.store.paths import Path
from threadmark.store.query import AllOf, AnyOf, Filter, Test

__all__ = ["Narrowed", "narrowed"]


class Narrowed(NamedTuple):
    """A condition in SQL, with `?` for its parameters."""

    sql: str
    params: list[Any]

    def after(self, count: int) -> str:
        """Return the condition, its parameters numbered after so many others."""
        parts = self.sql.split("?")
        return "".join(p if n == 0 else f"${count + n}{p}" for n, p in enumerate(parts))


_ALL = Narrowed("true", [])
_NONE = Narrowed("false", [])
_PLAIN_TEXT = re.compile(r"[^\x00\ud800-\udfff]*")
_EXACT = 2**53
_MOST_PARAMS = 300
_COMPARED = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def narrowed(filter: Filter | None) -> Narrowed:
    """Return a condition on the columns of items that holds for every item that the filter accepts."""
    condition = _ALL if filter is None else _narrowed(filter)
    if condition == _ALL or len(condition.params) > _MOST_PARAMS:
        return _ALL
    return Narrowed(f"(i.doc IS NULL OR {condition.sql})", condition.params)


def _narrowed(filter: Filter) -> Narrowed:
    if isinstance(filter, AllOf):
        parts = [part for part in map(_narrowed, filter.parts) if part != _ALL]
        return _NONE if _NONE in parts else _joined(" AND ", parts, _ALL)
    if isinstance(filter, AnyOf):
        parts = [part for part in map(_narrowed, filter.parts) if part != _NONE]
        return _ALL if _ALL in parts else _joined(" OR ", parts, _NONE)
    if isinstance(filter, Test) and filter.path and all(map(_is_plain_name, filter.path)):
        return _test(filter.path, filter.operator, filter.operand)
    # What is negated must not be narrowed, or items would be missed.
    return _ALL


def _test(path: Path, operator: str, operand: Any) -> Narrowed:
    if operator == "$eq":
        return _equal(path, operand)
    if operator == "$in":
        parts = [_equal(path, one) for one in operand]
        return _ALL if _ALL in parts else _joined(" OR ", parts, _NONE)
    if operator == "$exists" and operand:
        return Narrowed("i.doc #> ?::text[] IS NOT NULL", [list(path)])
    if operator in _COMPARED and not isinstance(operand, str) and _is_exact(operand):
        steps = "".join(f".{json.dumps(step)}" for step in path)
        return Narrowed(
            "i.doc @@ ?::text::jsonpath", [f"${steps} {_COMPARED[operator]} {json.dumps(operand)}"]
        )
    return _ALL


def _equal(path: Path, operand: Any) -> Narrowed:
    if not _is_exact(operand):
        return _ALL
    for step in reversed(path):
        operand = {step: operand}
    return Narrowed("i.doc @> ?::text::jsonb", [json.dumps(operand)])


def _is_exact(operand: Any) -> bool:
    """Whether jsonb finds the same values equal to it."""
    if isinstance(operand, str):
        return _PLAIN_TEXT.fullmatch(operand) is not None
    if operand is None or isinstance(operand, bool):
        return True
    return isinstance(operand, (int, float)) and abs(operand) < _EXACT


def _is_plain_name(step: Any) -> bool:
    return isinstance(step, str) and _PLAIN_TEXT.fullmatch(step) is not None


def _joined(word: str, parts: list[Narrowed], of_none: Narrowed) -> Narrowed:
    if not parts:
        return of_none
    params = [param for part in parts for param in part.params]
    return Narrowed(f"({word.join(part.sql for part in parts)})", params)
