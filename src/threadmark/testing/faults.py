"""Tools that make storage fail at a chosen moment.

`abandoned(database, at)` stops whatever is done with a database at a chosen effect, as the death of the
process would: inside a transaction, that transaction is rolled back; outside, nothing more happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from threadmark._db.effects import Operation, Transaction

__all__ = ["Stopped", "abandoned"]

T = TypeVar("T")


class Stopped(BaseException):
    """The chosen moment has come. Like the death of a process, no operation can handle it."""


@dataclass
class Countdown:
    """How many steps are left before the end."""

    left: int

    def step(self) -> None:
        """Take one step.

        Raises:
            Stopped: It was the chosen one.
        """
        if self.left == 0:
            raise Stopped
        self.left -= 1


@contextmanager
def abandoned(database: Any, at: int) -> Iterator[Countdown]:
    """Stop at an effect of what is done with a database inside the block.

    Args:
        database: What performs operations, such as a `SqliteDatabase`.
        at: Which step is the first that does not happen, from 0. Each effect is a step, and so is the
            end of a transaction.

    Yields:
        The countdown. What is left of it at the end tells whether the chosen step was reached.
    """
    countdown = Countdown(at)
    perform, aperform = database.perform, database.aperform
    database.perform = lambda operation: perform(_counted(operation, countdown))
    database.aperform = lambda operation: aperform(_counted(operation, countdown))
    try:
        yield countdown
    finally:
        del database.perform, database.aperform


def _counted(operation: Operation[T], countdown: Countdown, inside: bool = False) -> Operation[T]:
    """Do what an operation does, counting its effects and those of its transactions."""
    try:
        effect = next(operation)
        while True:
            countdown.step()
            if isinstance(effect, Transaction):
                effect = replace(effect, body=_counted(effect.body, countdown, inside=True))
            try:
                result = yield effect
            except Exception as error:  # noqa: BLE001 - the operation decides what becomes of it
                effect = operation.throw(error)
            else:
                effect = operation.send(result)
    except StopIteration as done:
        if inside:
            countdown.step()
        return done.value  # type: ignore[no-any-return]
    finally:
        operation.close()
