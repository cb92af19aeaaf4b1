"""Turns an operation into requests to a connection, without doing any I/O.

Statements that return nothing are held back and travel with the next one that does, or with the commit,
so that a transaction takes as many round trips as it has questions. What happens when a connection
breaks is decided here as well:

- Reads, and transactions that did not come to their commit, did nothing. They are tried again, from the
  start, if the operation can be started again (`Again`); what has not begun always can.
- A transaction whose commit was not answered is looked up by its number, and its result stands if it was
  committed.
- A `Once` is for operations that can tell by themselves; the error is thrown into them.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from threadmark._db.effects import Effect, Execute, ExecuteMany, Operation, Rows, Transaction
from threadmark._db.postgres_errors import ContendedError
from threadmark.errors import StorageUnavailableError

__all__ = [
    "BEGIN",
    "COMMIT",
    "HELD",
    "NEXT",
    "ROLLBACK",
    "Again",
    "Batch",
    "Fresh",
    "Once",
    "Pause",
    "Request",
    "Unheard",
    "session",
]

T = TypeVar("T")

NEXT = "\n;\n"
"""Parts the statements of an `Execute` that are run one after the other with the same parameters, each
seeing what the one before has waited for. All but the last are for transactions that write."""

HELD = "/* held */"
"""Ends a statement that locks the rows of `t` that it returns, in transactions that write."""

BEGIN = "BEGIN"
COMMIT = "COMMIT"
ROLLBACK = "ROLLBACK"
_BEGIN_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED"
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_rollbacks = itertools.count()
_MY_NUMBER = "SELECT pg_current_xact_id()::text"
_STATUS_OF = "SELECT pg_xact_status($1::text::xid8)"

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 1.0

Statement: TypeAlias = "tuple[str, Sequence[Any]]"


class Again(Generator[Effect, Any, T]):
    """An operation that can be started again.

    Args:
        start: Starts it.
    """

    def __init__(self, start: Callable[[], Operation[T]]) -> None:
        self.start = start
        self._running = start()

    def send(self, value: Any) -> Effect:
        """Go on."""
        return self._running.send(value)

    def throw(self, *error: Any) -> Effect:
        """Go on with an error."""
        return self._running.throw(*error)

    def close(self) -> None:
        """End it."""
        self._running.close()


class Once(Execute):
    """A statement outside any transaction that writes. It is never sent twice."""

    __slots__ = ()


class Unheard(Execute):
    """A statement inside a transaction whose rows nobody needs. It travels with the next one."""

    __slots__ = ()


@dataclass(slots=True)
class Batch:
    """Send statements in one round trip; the result is a list with the rows of each."""

    statements: list[Statement]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


class Fresh(Enum):
    """Give the connection up, and take another."""

    CONNECTION = "connection"


Request: TypeAlias = "Batch | Pause | Fresh"
Session: TypeAlias = Generator[Request, Any, T]


def session(operation: Operation[T], patience: float) -> Session[T]:
    """Run an operation.

    Args:
        operation: The operation, not started yet.
        patience: For how many seconds to try again after a connection was lost, or after others were in
            the way.
    """
    run = _Run(patience)
    pauses: _Pauses | None = None
    while True:
        try:
            return (yield from run.attempt(operation))
        except (StorageUnavailableError, ContendedError) as error:
            pauses = pauses or _Pauses(patience)
            if not isinstance(operation, Again) or not run.safe or pauses.over:
                raise
            if isinstance(error, StorageUnavailableError):
                yield from run.reconnect(error)
            else:
                yield pauses.next()
            operation = Again(operation.start)


class _Pauses:
    """Pauses between tries that get longer, each by chance, until patience is at its end."""

    def __init__(self, patience: float) -> None:
        self._end = time.monotonic() + patience
        self._longest = _FIRST_PAUSE

    @property
    def over(self) -> bool:
        return time.monotonic() > self._end

    def next(self) -> Pause:
        pause = Pause(self._longest * random.uniform(0.5, 1.0))
        self._longest = min(self._longest * 2, _LONGEST_PAUSE)
        return pause


class _Run:
    """One operation on its way.

    Attributes:
        safe: Whether the transaction that failed last has surely written nothing.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._begun = False
        self.safe = True

    def attempt(self, operation: Operation[T]) -> Session[T]:
        """Carry out an operation from its beginning."""
        self._begun = False
        try:
            effect = next(operation)
            while True:
                try:
                    result = yield from self._effect(effect)
                except Exception as error:  # noqa: BLE001 - the operation decides what becomes of it
                    effect = operation.throw(error)
                else:
                    effect = operation.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            operation.close()

    def reconnect(self, error: StorageUnavailableError) -> Session[None]:
        """Get another connection in place of one that was lost."""
        pauses = _Pauses(self._patience)
        while True:
            try:
                yield Fresh.CONNECTION
                return
            except StorageUnavailableError as again:
                if pauses.over:
                    raise again from error
            yield pauses.next()

    def _effect(self, effect: Effect) -> Session[Any]:
        if isinstance(effect, Transaction):
            return (yield from self._transaction(effect))
        if isinstance(effect, ExecuteMany):
            raise TypeError("Many statements belong into a transaction.")
        if isinstance(effect, Once):
            (rows,) = yield Batch([(effect.sql, effect.params)])
            return rows
        (rows,) = yield from self._sent([(_parts(effect.sql)[-1], effect.params)])
        return rows

    def _sent(self, statements: list[Statement]) -> Session[list[Rows]]:
        """Send what commits nothing. A connection that was dead before it began is replaced."""
        first, self._begun = not self._begun, True
        try:
            return (yield Batch(statements))  # type: ignore[no-any-return]
        except StorageUnavailableError as error:
            if not first:
                raise
            yield from self.reconnect(error)
        return (yield Batch(statements))  # type: ignore[no-any-return]

    def _transaction(self, effect: Transaction) -> Session[Any]:
        going = _Going(effect.read_only)
        self.safe = True
        try:
            result = yield from self._body(effect.body, going)
            if going.open or going.held:
                yield from self._committed(going)
        except StorageUnavailableError:
            raise
        except Exception:
            self.safe = True
            if going.open:
                # Of a pipeline that failed, psycopg takes statements for prepared that the server never saw.
                # It forgets all that were prepared when it sees a rollback, if the text is new to it.
                yield Batch([(f"{ROLLBACK} -- {next(_rollbacks)}", ())])
            raise
        finally:
            effect.body.close()
        return result

    def _body(self, body: Operation[T], going: _Going) -> Session[T]:
        try:
            effect = next(body)
            while True:
                rows: Rows = []
                if going.hold(effect):
                    rows = going.taken((yield from self._sent(going.let_go())))
                effect = body.send(rows)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _committed(self, going: _Going) -> Session[None]:
        # A transaction that asked nothing writes the same when it is done again.
        self.safe = going.read_only or not going.open
        self._begun = True
        try:
            yield Batch([*going.let_go(), (COMMIT, ())])
        except StorageUnavailableError as error:
            if going.number is None:
                raise
            yield from self.reconnect(error)
            if not (yield from self._was_committed(going.number)):
                raise

    def _was_committed(self, number: str) -> Session[bool]:
        """Look a transaction up. One that the server has not given up yet is waited for."""
        deadline = time.monotonic() + self._patience
        while True:
            ((row,),) = yield Batch([(_STATUS_OF, (number,))])
            if row[0] != "in progress" or time.monotonic() > deadline:
                break
            yield Pause(0.02)
        self.safe = row[0] == "aborted"
        return bool(row[0] == "committed")


class _Going:
    """A transaction that is going on: what of it was sent, and what is held back.

    Attributes:
        read_only: Whether it only reads.
        open: Whether the server knows of it.
        number: What the server calls it, if it writes.
        held: The statements that were not sent yet.
    """

    def __init__(self, read_only: bool) -> None:
        self.read_only = read_only
        self.open = False
        self.number: str | None = None
        self.held: list[Statement] = []

    def hold(self, effect: Effect) -> bool:
        """Take the next effect, and tell whether the statements must be sent for its rows."""
        if isinstance(effect, ExecuteMany):
            self.held += _many(effect)
            return False
        if not isinstance(effect, Execute):
            raise TypeError(f"A transaction cannot hold the effect {effect!r}.")
        parts = _parts(effect.sql)[-1:] if self.read_only else _locking_parts(effect.sql)
        self.held += [(part, effect.params) for part in parts]
        return not isinstance(effect, Unheard) and _returns_rows(parts[-1])

    def let_go(self) -> list[Statement]:
        """Return the statements to send now."""
        held, self.held = self.held, []
        if self.open:
            return held
        self.open = True
        if self.read_only:
            return [(_BEGIN_READING, ()), *held]
        return [(_BEGIN_WRITING, ()), (_MY_NUMBER, ()), *held]

    def taken(self, results: list[Rows]) -> Rows:
        """Take the results of what was sent, and return the rows of the last statement."""
        if self.number is None and not self.read_only:
            self.number = results[1][0][0]
        return results[-1]


@lru_cache(maxsize=1024)
def _parts(sql: str) -> tuple[str, ...]:
    return tuple(sql.split(NEXT))


@lru_cache(maxsize=1024)
def _locking_parts(sql: str) -> tuple[str, ...]:
    return _parts(sql.replace(HELD, "FOR UPDATE OF t"))


@lru_cache(maxsize=1024)
def _returns_rows(sql: str) -> bool:
    return sql.lstrip().startswith(("SELECT", "WITH")) or "RETURNING" in sql


_MOST_TOGETHER = 32
"""Rows of one statement."""
_ONE_ROW = re.compile(
    r"^(\s*INSERT INTO .*\bVALUES )\((\$1(?:, \$\d+)*)\)(\s*(?:ON CONFLICT DO NOTHING\s*)?)$", re.S
)


def _many(effect: ExecuteMany) -> list[Statement]:
    """Return the statements for many sets of parameters: rows that are only inserted go together."""
    rows = effect.params
    if len(rows) == 1 or _ONE_ROW.match(effect.sql) is None:
        return [(effect.sql, row) for row in rows]
    parts = [rows[at : at + _MOST_TOGETHER] for at in range(0, len(rows), _MOST_TOGETHER)]
    return [(_of_rows(effect.sql, len(part)), [value for row in part for value in row]) for part in parts]


@lru_cache(maxsize=512)
def _of_rows(sql: str, count: int) -> str:
    """Return a statement that inserts one row as one that inserts several."""
    match = _ONE_ROW.match(sql)
    assert match is not None
    before, marks, after = match.groups()
    width = marks.count("$")
    rows = (", ".join(f"${row * width + column}" for column in range(1, width + 1)) for row in range(count))
    return f"{before}{', '.join(f'({row})' for row in rows)}{after}"
