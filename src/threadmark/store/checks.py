"""Checks of what comes from outside, the same for every store and every operation.

`check_op` turns an operation as users write it into one that a backend can carry out as it stands:
arguments checked, values copied, filters and paths parsed. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from threadmark._checks import shown
from threadmark.errors import InvalidArgumentError, InvalidNamespaceError
from threadmark.store.namespaces import Span, encode_namespace, encode_text, span_of
from threadmark.store.ops import (
    CountOp,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Mode,
    Op,
    PutOp,
    SearchOp,
)
from threadmark.store.paths import Path, parse_path, parse_single_path
from threadmark.store.query import Filter, parse_filter
from threadmark.store.values import check_value

__all__ = [
    "MAX_KEY_BYTES",
    "MAX_NAMESPACE_BYTES",
    "Count",
    "Fields",
    "Get",
    "ListNamespaces",
    "Put",
    "Request",
    "Search",
    "check_op",
    "check_ttl",
]

MAX_NAMESPACE_BYTES = 1_024
"""The longest namespace, in UTF-8, with one byte more for each segment."""
MAX_KEY_BYTES = 1_024
"""The longest key in UTF-8."""

_MINUTE = 60_000_000
_LONGEST_TTL = 1e9
_LARGEST_LIMIT = 2**31 - 1
_SORTABLE_FACTS = ("$key", "$created_at", "$updated_at")

Fields: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class Get:
    """A checked `GetOp`."""

    namespace: tuple[str, ...]
    key: str
    refresh: bool | None


@dataclass(slots=True)
class Put:
    """A checked `PutOp`. `fields` are the paths to index; `None`: as configured. `ttl` is in µs."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any] | None
    fields: Fields | None
    ttl: int | None
    if_version: int | None
    if_absent: bool
    returning: bool


@dataclass(slots=True)
class Search:
    """A checked `SearchOp`. `sort` is a path, or the name of a fact about the item."""

    span: Span
    prefix: tuple[str, ...]
    filter: Filter | None
    limit: int
    offset: int
    query: str | None
    mode: Mode | None
    sort: Path | str | None
    order: str
    descending: bool
    after: str | None
    refresh: bool | None


@dataclass(slots=True)
class Count:
    """A checked `CountOp`."""

    span: Span
    filter: Filter | None


@dataclass(slots=True)
class ListNamespaces:
    """A checked `ListNamespacesOp`."""

    prefixes: tuple[tuple[str, ...], ...]
    suffixes: tuple[tuple[str, ...], ...]
    max_depth: int | None
    limit: int
    offset: int


Request: TypeAlias = Get | Put | Search | Count | ListNamespaces


def check_op(op: Op) -> Request:
    """Return an operation in the form in which a backend carries it out.

    Raises:
        InvalidArgumentError: An argument is refused.
        SerializationError: The value is not JSON-like.
    """
    if isinstance(op, GetOp):
        namespace = _namespace(op.namespace)
        return Get(namespace, _key(op.key), _flag("refresh_ttl", op.refresh_ttl))
    if isinstance(op, PutOp):
        return _put(op)
    if isinstance(op, SearchOp):
        return _search(op)
    if isinstance(op, CountOp):
        return Count(span_of(_namespace(op.namespace_prefix, empty=True)), parse_filter(op.filter))
    if isinstance(op, ListNamespacesOp):
        return _list_namespaces(op)
    raise InvalidArgumentError(
        f"{shown(op)} is not an operation. Use GetOp, PutOp, SearchOp, CountOp or ListNamespacesOp."
    )


def check_ttl(ttl: float | None) -> int | None:
    """Return a time to live in microseconds.

    Raises:
        InvalidArgumentError: It is not a positive number of minutes.
    """
    if ttl is None:
        return None
    number = type(ttl) in (int, float)
    if not number or not 0 < ttl <= _LONGEST_TTL:
        raise InvalidArgumentError(
            f"ttl is a number of minutes above 0 and up to {_LONGEST_TTL:,.0f}, or None, not {shown(ttl)}."
        )
    return max(1, round(ttl * _MINUTE))


def _put(op: PutOp) -> Put:
    if op.if_version is not None and (type(op.if_version) is not int or op.if_absent):
        raise InvalidArgumentError(
            "if_version is the version of an item that was read, and cannot be combined with if_absent."
        )
    if op.value is None and op.if_absent:
        raise InvalidArgumentError("An item that must be absent cannot be deleted; leave out if_absent.")
    return Put(
        namespace=_namespace(op.namespace),
        key=_key(op.key),
        value=None if op.value is None else check_value(op.value),
        fields=_fields(op.index),
        ttl=check_ttl(op.ttl),
        if_version=op.if_version,
        if_absent=bool(_flag("if_absent", op.if_absent)),
        returning=op.returning,
    )


def _search(op: SearchOp) -> Search:
    prefix = _namespace(op.namespace_prefix, empty=True)
    query = _query(op)
    offset = _number("offset", op.offset)
    descending = bool(_flag("descending", op.descending))
    if op.after is not None and offset:
        raise InvalidArgumentError("Pass after= or offset=, not both.")
    return Search(
        span=span_of(prefix),
        prefix=prefix,
        filter=parse_filter(op.filter),
        limit=_number("limit", op.limit),
        offset=offset,
        query=query,
        mode=op.mode,
        sort=_sort(op.sort),
        order=_order(op.sort, descending),
        descending=descending,
        after=op.after,
        refresh=_flag("refresh_ttl", op.refresh_ttl),
    )


def _query(op: SearchOp) -> str | None:
    if op.mode not in (None, "semantic", "keyword", "hybrid"):
        raise InvalidArgumentError(
            f"mode is 'semantic', 'keyword' or 'hybrid', not {shown(op.mode)}. Leave it out for the default."
        )
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidArgumentError(f"query is a text, not {shown(op.query)}.")
    # An empty query asks for nothing in particular, which is what no query does.
    query = op.query or None
    if query is None and op.mode is not None:
        raise InvalidArgumentError(f"mode={shown(op.mode)} ranks by a query; pass query= as well.")
    if query is not None and (op.sort is not None or op.descending):
        raise InvalidArgumentError("A query ranks by score; leave out sort and descending, or the query.")
    return query


def _order(sort: str | None, descending: bool) -> str:
    direction = "down" if descending else "up"
    return f"list:{direction}" if sort is None else f"sort:{direction}:{sort}"


def _sort(sort: Any) -> Path | str | None:
    if sort is None or sort in _SORTABLE_FACTS:
        return sort  # type: ignore[no-any-return]
    return parse_single_path(sort)


def _list_namespaces(op: ListNamespacesOp) -> ListNamespaces:
    paths: dict[str, list[tuple[str, ...]]] = {"prefix": [], "suffix": []}
    for condition in op.match_conditions or ():
        if not isinstance(condition, MatchCondition) or condition.match_type not in tuple(paths):
            raise InvalidArgumentError(
                f"{shown(condition)} is not MatchCondition('prefix' or 'suffix', path)."
            )
        paths[condition.match_type].append(_namespace(condition.path, empty=True))
    if op.max_depth is not None and _number("max_depth", op.max_depth) == 0:
        raise InvalidArgumentError("max_depth is at least 1; leave it out to list whole namespaces.")
    return ListNamespaces(
        prefixes=tuple(paths["prefix"]),
        suffixes=tuple(paths["suffix"]),
        max_depth=op.max_depth,
        limit=_number("limit", op.limit),
        offset=_number("offset", op.offset),
    )


def _namespace(namespace: Sequence[str], *, empty: bool = False) -> tuple[str, ...]:
    if not isinstance(namespace, (tuple, list)):
        raise InvalidNamespaceError(
            f"A namespace is a tuple of texts, not {shown(namespace)}; for one segment write ('name',)."
        )
    if not namespace and not empty:
        raise InvalidNamespaceError("A namespace has at least one segment.")
    for segment in namespace:
        if not isinstance(segment, str) or not segment:
            raise InvalidNamespaceError(
                f"A segment of a namespace is a text that is not empty, not {shown(segment)} "
                f"(in {shown(namespace)})."
            )
    return _short_enough(tuple(map(_plain, namespace)))


@lru_cache(maxsize=1024)
def _short_enough(namespace: tuple[str, ...]) -> tuple[str, ...]:
    size = len(encode_namespace(namespace))
    if size > MAX_NAMESPACE_BYTES:
        raise InvalidNamespaceError(
            f"A namespace may take {MAX_NAMESPACE_BYTES} bytes, this one takes {size}. Shorten it, for "
            f"example by hashing its longest segment."
        )
    return namespace


def _plain(text: str) -> str:
    """Return a text of a subclass, such as a `StrEnum` member, as plain text."""
    return text if type(text) is str else str.__str__(text)


def _key(key: str) -> str:
    if not isinstance(key, str):
        raise InvalidArgumentError(f"A key is a text, not {shown(key)}; write str(key).")
    size = len(encode_text(key))
    if size > MAX_KEY_BYTES:
        raise InvalidArgumentError(
            f"A key may take {MAX_KEY_BYTES} bytes, this one takes {size}. Shorten it, for example by "
            f"hashing."
        )
    return _plain(key)


def _fields(index: Literal[False] | list[str] | None) -> Fields | None:
    if index is None:
        return None
    if index is False:
        return ()
    if not isinstance(index, (list, tuple)):
        raise InvalidArgumentError(f"index is a list of paths, False or None, not {shown(index)}.")
    for path in index:
        parse_path(path)
    return tuple(index)


def _number(name: str, value: int) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST_LIMIT:
        raise InvalidArgumentError(
            f"{name} is a whole number from 0 to {_LARGEST_LIMIT}, not {shown(value)}."
        )
    return value


def _flag(name: str, value: bool | None) -> bool | None:
    if value is not None and type(value) is not bool:
        raise InvalidArgumentError(f"{name} is True or False, not {shown(value)}.")
    return value
