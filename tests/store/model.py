"""What a store does, in a dictionary: the model that all stores are compared with.

It is written to be read, not to be fast, and shares no code with the stores.
"""

from __future__ import annotations

from typing import Any

MISSING = object()


class Model:
    """Items by address, in the order of their creation."""

    def __init__(self) -> None:
        self.items: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {}
        self.born = 0

    def put(self, now: float, namespace: Any, key: str, value: Any, ttl: float | None) -> None:
        self.forget(now)
        self.born += 1
        old = self.items.get((namespace, key), {"created": now, "born": self.born})
        self.items[namespace, key] = old | {"value": value, "updated": now, "ttl": ttl}
        self.refresh(now, (namespace, key))

    def refresh(self, now: float, address: Any) -> None:
        item = self.items[address]
        item["expires"] = None if item["ttl"] is None else now + item["ttl"] * 60

    def delete(self, namespace: Any, key: str) -> None:
        self.items.pop((namespace, key), None)

    def forget(self, now: float) -> None:
        gone = [a for a, item in self.items.items() if item["expires"] is not None and item["expires"] <= now]
        for address in gone:
            del self.items[address]

    def search(self, now: float, prefix: Any, filter: Any = None) -> list[tuple[Any, dict[str, Any]]]:
        self.forget(now)
        found = [
            (address, item)
            for address, item in self.items.items()
            if address[0][: len(prefix)] == prefix and accepts(filter or {}, item["value"])
        ]
        return sorted(found, key=lambda entry: entry[1]["born"])

    def namespaces(self, now: float) -> list[Any]:
        self.forget(now)
        return sorted({namespace for namespace, _ in self.items})


def accepts(filter: dict[str, Any], value: Any) -> bool:
    for name, condition in filter.items():
        if name == "$and":
            holds = all(accepts(part, value) for part in condition)
        elif name == "$or":
            holds = any(accepts(part, value) for part in condition)
        elif name == "$not":
            holds = not accepts(condition, value)
        else:
            holds = satisfies(at(value, name), condition)
        if not holds:
            return False
    return True


def at(value: Any, path: str) -> Any:
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def satisfies(found: Any, condition: Any) -> bool:
    if not (isinstance(condition, dict) and any(name.startswith("$") for name in condition)):
        return equal(found, condition)
    return all(applies(found, name, operand) for name, operand in condition.items())


def applies(found: Any, name: str, operand: Any) -> bool:
    match name:
        case "$eq":
            return equal(found, operand)
        case "$ne":
            return not equal(found, operand)
        case "$in":
            return any(equal(found, one) for one in operand)
        case "$nin":
            return not any(equal(found, one) for one in operand)
        case "$exists":
            return (found is not MISSING) == operand
        case "$contains":
            if isinstance(found, list):
                return any(equal(one, operand) for one in found)
            if isinstance(found, dict) and isinstance(operand, dict):
                return all(equal(found.get(k, MISSING), v) for k, v in operand.items())
            return isinstance(found, str) and isinstance(operand, str) and operand in found
        case "$not":
            return not satisfies(found, operand)
    if number(found) != number(operand) or not (number(found) or isinstance(found, str)):
        return False
    match name:
        case "$gt":
            return bool(found > operand)
        case "$gte":
            return bool(found >= operand)
        case "$lt":
            return bool(found < operand)
        case "$lte":
            return bool(found <= operand)
    raise AssertionError(name)


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(a: Any, b: Any) -> bool:
    """JSON equality, written as comparison of a canonical form."""
    return canonical(a) == canonical(b)


def canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return ("dict", sorted((name, canonical(inner)) for name, inner in value.items()).__repr__())
    if isinstance(value, list):
        return ("list", [canonical(inner) for inner in value])
    if number(value):
        return ("number", int(value) if value == int(value) else value)
    return (type(value).__name__, value)
