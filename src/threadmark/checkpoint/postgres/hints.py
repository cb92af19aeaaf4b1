"""Says beside a list's slices, which may be encrypted, which rows they are: what to read along with them.

A hint saves a round trip and decides nothing: what is not there after all is read by what the slices say.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypeVar

from threadmark._db.effects import Execute, ExecuteMany, Operation, Transaction
from threadmark.checkpoint._sql.lists import Slices, read_slices
from threadmark.checkpoint._sql.statements import Statements

__all__ = ["hint", "hinted"]

T = TypeVar("T")


def hint(slices: Slices) -> str:
    """Return slices as they stand beside a value: `[[log, from, to], ...]`."""
    return json.dumps(slices, separators=(",", ":"))


def hinted(operation: Operation[T], sql: Statements) -> Operation[T]:
    """Do what an operation does, with hints added to the values that it stores."""
    answer: Any = None
    error: BaseException | None = None
    try:
        while True:
            effect = operation.send(answer) if error is None else operation.throw(error)
            if isinstance(effect, Transaction):
                effect = replace(effect, body=hinted(effect.body, sql))
            elif isinstance(effect, ExecuteMany) and effect.sql == sql.create_value:
                effect = replace(effect, params=[(*row, _hint_of(row)) for row in effect.params])
            elif isinstance(effect, Execute) and effect.sql == sql.create_value:
                effect = replace(effect, params=(*effect.params, _hint_of(effect.params)))
            try:
                answer, error = (yield effect), None
            except Exception as failed:  # noqa: BLE001 - the operation decides what becomes of it
                answer, error = None, failed
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        operation.close()


def _hint_of(row: Any) -> str | None:
    sliced, tag, data = row[4:7]
    # Encrypted slices have another tag, and cannot be read here.
    return hint(read_slices(data)) if sliced and tag == "msgpack" else None
