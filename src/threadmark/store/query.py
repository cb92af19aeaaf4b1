r"""The query language: filters over JSON-like values, the same on every backend.

A filter maps paths to conditions, all of which must hold. A condition is a value to be equal to, or a
dictionary of operators. `$and`, `$or` and `$not` combine filters as well as conditions. Filters are
parsed before anything is read; what is not understood is refused, never ignored.

Equality is by type: `True` is not `1`, but `1` is `1.0`. Order exists among numbers (exactly, whatever
their size) and among texts; anything else is neither greater nor less. A missing field equals nothing,
not even `None`, so `$ne` and `$nin` hold for it.

A database may use a filter to fetch fewer rows, but whether an item matches is decided here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from threadmark._checks import shown
from threadmark.errors import InvalidArgumentError, SerializationError
from threadmark.store.paths import MISSING, Path, find, parse_single_path
from threadmark.store.values import copy_value

__all__ = ["AllOf", "AnyOf", "Filter", "Not", "Test", "parse_filter"]

_DEEPEST = 32
_NUMBERS = (int, float)


@dataclass(frozen=True, slots=True)
class Test:
    """One operator applied to one field."""

    __test__ = False  # Not for pytest.

    path: Path
    operator: str
    operand: Any

    def __call__(self, value: Any) -> bool:
        return _OPERATORS[self.operator](find(value, self.path), self.operand)


@dataclass(frozen=True, slots=True)
class AllOf:
    """Holds when all parts do; without parts, always."""

    parts: tuple[Filter, ...]

    def __call__(self, value: Any) -> bool:
        return all(part(value) for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Holds when any part does; without parts, never."""

    parts: tuple[Filter, ...]

    def __call__(self, value: Any) -> bool:
        return any(part(value) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """Holds when its part does not."""

    part: Filter

    def __call__(self, value: Any) -> bool:
        return not self.part(value)


Filter: TypeAlias = Test | AllOf | AnyOf | Not


def parse_filter(filter: Mapping[str, Any] | None) -> Filter | None:
    """Return a filter that can be called with a value; `None` when there is nothing to check.

    Args:
        filter: As users write it.

    Raises:
        InvalidArgumentError: It holds an operator or operand that is not understood.
    """
    if filter is None or (isinstance(filter, Mapping) and not filter):
        return None
    return _filter(filter, 0)


def same(a: Any, b: Any) -> bool:
    """Whether two JSON-like values are equal, booleans and numbers being different."""
    kind = type(a)
    if kind is not type(b):
        return kind in _NUMBERS and type(b) in _NUMBERS and bool(a == b)
    if kind is dict:
        return a.keys() == b.keys() and all(same(inner, b[name]) for name, inner in a.items())
    if kind is list:
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


# What the operators mean


def _is_in(found: Any, operand: list[Any]) -> bool:
    return any(same(found, one) for one in operand)


def _contains(found: Any, operand: Any) -> bool:
    if type(found) is list:
        return _is_in(operand, found)
    if type(found) is dict and type(operand) is dict:
        return all(name in found and same(found[name], want) for name, want in operand.items())
    return type(found) is str and type(operand) is str and operand in found


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(found: Any, operand: Any) -> bool:
        alike = type(found) is type(operand) or (type(found) in _NUMBERS and type(operand) in _NUMBERS)
        return alike and compare(found, operand)

    return holds


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": same,
    "$ne": lambda found, operand: not same(found, operand),
    "$gt": _ordered(operator.gt),
    "$gte": _ordered(operator.ge),
    "$lt": _ordered(operator.lt),
    "$lte": _ordered(operator.le),
    "$in": _is_in,
    "$nin": lambda found, operand: not _is_in(found, operand),
    "$exists": lambda found, operand: (found is not MISSING) is operand,
    "$contains": _contains,
}
_COMBINERS = ("$and", "$or", "$not")
_KNOWN = ", ".join([*_OPERATORS, *_COMBINERS])


# From what users write to filters


def _filter(filter: Any, depth: int) -> Filter:
    if not isinstance(filter, Mapping):
        raise InvalidArgumentError(f"A filter is a dictionary of paths to conditions, not {shown(filter)}.")
    _check_depth(depth)
    parts = [_entry(name, condition, depth) for name, condition in filter.items()]
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _entry(name: Any, condition: Any, depth: int) -> Filter:
    if isinstance(name, str) and name.startswith("$"):
        if name not in _COMBINERS:
            raise _unknown(name, f"To name a field that begins with a dollar sign, write '\\{name}'.")
        return _combined(name, condition, lambda part: _filter(part, depth + 1))
    return _condition(parse_single_path(name), condition, depth)


def _condition(path: Path, condition: Any, depth: int) -> Filter:
    _check_depth(depth)
    if not _has_operators(condition):
        return Test(path, "$eq", _operand("equality", condition))
    parts = [_applied(path, name, operand, depth) for name, operand in condition.items()]
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _has_operators(condition: Any) -> bool:
    if not isinstance(condition, Mapping) or not condition:
        return False
    dollars = [isinstance(name, str) and name.startswith("$") for name in condition]
    if any(dollars) and not all(dollars):
        raise InvalidArgumentError(
            f"The condition {shown(condition)} mixes operators and fields. Write the fields as paths, or "
            f"compare with a whole dictionary by $eq."
        )
    return dollars[0]


def _applied(path: Path, name: str, operand: Any, depth: int) -> Filter:
    if name in _COMBINERS:
        return _combined(name, operand, lambda part: _condition(path, part, depth + 1))
    if name not in _OPERATORS:
        raise _unknown(name, "To compare with a dictionary, use $eq.")
    return Test(path, name, _operand(name, operand))


def _combined(name: str, operand: Any, parse: Callable[[Any], Filter]) -> Filter:
    if name == "$not":
        return Not(parse(operand))
    if not isinstance(operand, (list, tuple)):
        raise InvalidArgumentError(f"{name} takes a list, not {shown(operand)}.")
    parts = tuple(map(parse, operand))
    return AllOf(parts) if name == "$and" else AnyOf(parts)


def _operand(name: str, operand: Any) -> Any:
    if name in ("$in", "$nin"):
        if not isinstance(operand, (list, tuple, set, frozenset)):
            raise InvalidArgumentError(f"{name} takes a list, not {shown(operand)}.")
        operand = list(operand)
    elif name == "$exists" and type(operand) is not bool:
        raise InvalidArgumentError(f"$exists takes True or False, not {shown(operand)}.")
    elif name in ("$gt", "$gte", "$lt", "$lte") and type(operand) not in (str, *_NUMBERS):
        raise InvalidArgumentError(f"{name} takes a number or a text, not {shown(operand)}.")
    try:
        return copy_value(operand)
    except SerializationError as error:
        raise InvalidArgumentError(f"{name} cannot compare with {shown(operand)}: {error}") from error


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise InvalidArgumentError(f"A filter may be nested {_DEEPEST} deep. Write it flatter.")


def _unknown(name: str, advice: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"Unknown operator {shown(name)}. Known: {_KNOWN}. {advice}")
