"""The effects that an operation can ask for.

An operation is a generator: it yields effects and is sent their results, and errors are thrown into
it. `Transaction` takes an operation and is one effect itself, so that what is atomic can be seen in
the text. Drivers live beside this module; this one does no I/O.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

__all__ = ["Effect", "Execute", "ExecuteMany", "Operation", "Row", "Rows", "Transaction"]

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]


@dataclass(slots=True)
class Execute:
    """Run one statement; the result is its rows (empty for statements that return none)."""

    sql: str
    params: Sequence[Any] = ()


@dataclass(slots=True)
class ExecuteMany:
    """Run one statement for each set of parameters; the result is an empty list."""

    sql: str
    params: Sequence[Sequence[Any]]


@dataclass(slots=True)
class Transaction:
    """Run an operation inside one transaction; the result is what the operation returns.

    An error that leaves the operation rolls back and is thrown into the outer one.
    """

    body: Generator[Effect, Any, Any]
    durable: bool = False
    """Survive a power cut, where the database lets the caller choose."""
    read_only: bool = False
    """See one state of the database throughout, and wait for no writer. Effects outside any
    transaction are reads too, each of which sees the state of its own moment."""


Effect: TypeAlias = Execute | ExecuteMany | Transaction
Operation: TypeAlias = Generator[Effect, Any, T]
