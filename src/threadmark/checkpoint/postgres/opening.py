"""Loading the tip of a branch in one round trip.

One statement reads where the thread stands, the tip, its writes, the newest version of every channel and
the items of the lists among them. The ordinary operation is then given its answers from these rows. Where
it asks for something else, as it does in a thread with forks, it is started anew and asks the database.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

from threadmark._db.effects import Execute, Operation, Row, Rows
from threadmark._db.postgres_tables import Names
from threadmark.checkpoint._sql.read import Opened, Reading, load
from threadmark.checkpoint._sql.read import _load as load_here
from threadmark.checkpoint._sql.statements import Statements
from threadmark.checkpoint.address import Address
from threadmark.checkpoint.postgres.sql import CHECKPOINT, LOST

__all__ = ["open_tip"]

T = TypeVar("T")

_NEWEST = """
        SELECT v.channel, v.version, v.sliced, v.slices, v.tag, v.data FROM tm_values v
        WHERE v.thread = s.thread AND v.space = s.space {below}
        ORDER BY v.channel DESC, v.version DESC LIMIT 1
"""

# From one channel to the next with one look into the index each, however many versions there are.
_OPEN = f"""
WITH RECURSIVE s AS MATERIALIZED (
    SELECT t.thread, t.updated, t.status, t.expires,
        (SELECT max(c.seq) FROM tm_checkpoints c WHERE c.thread = t.thread) AS last, h.space, h.seq, h.id,
        {LOST} AS lost
    FROM tm_threads t
    LEFT JOIN tm_heads h ON h.thread = t.thread AND h.ns = $1::text AND h.branch = $2::text
    WHERE t.thread_id = $3::text
), c AS (
    SELECT c.* FROM s, LATERAL ({CHECKPOINT} WHERE c.thread = s.thread AND c.seq = s.seq) c
), n AS (
    SELECT f.* FROM s, LATERAL ({_NEWEST.format(below="")}) f
    UNION ALL
    SELECT f.* FROM s, n, LATERAL ({_NEWEST.format(below="AND v.channel < n.channel")}) f
)
SELECT 0 AS kind, s.thread AS a, s.updated AS b, s.expires AS c, s.last AS d, s.space AS e, s.seq AS f,
    s.status AS p, s.id AS q, s.lost::text AS r, NULL::text AS tag, NULL::bytea AS data,
    NULL::text AS more_tag, NULL::bytea AS more
FROM s
UNION ALL
SELECT 1, c.seq, c.space, c.created, NULL, NULL, NULL, c.ns, c.id, c.parent_id, c.body_tag, c.body,
    c.metadata_tag, c.metadata
FROM c
UNION ALL
SELECT 2, s.space, n.sliced::int, NULL, NULL, NULL, NULL, n.version, n.channel, NULL, n.tag, n.data,
    NULL, NULL
FROM s, n
UNION ALL
SELECT 3, l.space, l.start, l.count, NULL, NULL, NULL, l.channel, l.log, NULL, l.tag, l.data, NULL, l.sizes
FROM s, n, LATERAL jsonb_array_elements(n.slices::jsonb) j, LATERAL (
    SELECT l.* FROM tm_logs l
    WHERE l.thread = s.thread AND l.space = s.space AND l.channel = n.channel AND l.log = j ->> 0
        AND l.start < (j ->> 2)::bigint
        AND l.start >= (
            SELECT max(f.start) FROM tm_logs f
            WHERE f.thread = s.thread AND f.space = s.space AND f.channel = n.channel AND f.log = j ->> 0
                AND f.start <= (j ->> 1)::bigint
        )
) l
UNION ALL
SELECT 4, w.seq, w.idx, NULL, NULL, NULL, NULL, w.task_id, w.channel, w.path, w.tag, w.data, NULL, NULL
FROM s JOIN tm_writes w ON w.thread = s.thread AND w.seq = s.seq
"""


def open_tip(reading: Reading, address: Address, names: Names) -> Operation[Opened]:
    """Load the tip of a branch, as `load` does."""
    rows = yield Execute(_worded(names), (address.ns, address.branch, address.thread_id))
    try:
        return _answered(load_here(reading, address), _Answers(reading.sql, rows))
    except _Unknown:
        pass
    return (yield from load(reading, address))


@lru_cache(maxsize=128)
def _worded(names: Names) -> str:
    return names.worded(_OPEN)


class _Unknown(Exception):
    """What was asked for is not among the rows that were read."""


def _answered(operation: Operation[T], answers: _Answers) -> T:
    try:
        effect = next(operation)
        while True:
            if not isinstance(effect, Execute):
                raise _Unknown
            effect = operation.send(answers.to(effect))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        operation.close()


class _Answers:
    """The rows that were read, as answers to the statements that read them one kind at a time."""

    def __init__(self, sql: Statements, rows: Rows) -> None:
        self._sql = sql
        self._standing: Rows = []
        self._tip: Rows = []
        self._values: dict[str, Row] = {}
        self._chunks: list[Row] = []
        self._writes: Rows = []
        for kind, a, b, c, d, e, f, p, q, r, tag, data, more_tag, more in rows:
            if kind == 0:
                self._standing = [(a, b, p, c, d, e, f, q, None if r is None else int(r))]
            elif kind == 1:
                self._tip = [(a, b, p, q, r, c, tag, data, more_tag, more)]
            elif kind == 2:
                self._values[q] = (a, p, q, bool(b), tag, data)
            elif kind == 3:
                self._chunks.append((a, p, q, b, c, more, tag, data))
            else:
                self._writes.append((a, p, b, q, tag, data, r))

    def to(self, effect: Execute) -> Rows:
        """Return the rows of a statement."""
        sql = self._sql
        if effect.sql == sql.find_standing:
            return self._standing
        if effect.sql == sql.get_checkpoint:
            return self._tip
        if effect.sql == sql.get_values:
            return self._newest(json.loads(effect.params[0]))
        if effect.sql == sql.get_chunks:
            return self._among(json.loads(effect.params[0]))
        if effect.sql == sql.get_writes:
            return self._writes
        raise _Unknown

    def _newest(self, wanted: Sequence[Sequence[Any]]) -> Rows:
        found = []
        for _, version, channel in wanted:
            newest = self._values.get(channel)
            # A version above the newest one that is stored is of a channel that was cleared.
            if newest is None or newest[1] < version:
                continue
            if newest[1] != version:
                raise _Unknown
            found.append(newest)
        return found

    def _among(self, wanted: Sequence[Sequence[Any]]) -> Rows:
        found: dict[tuple[Any, ...], Row] = {}
        for _, channel, log, low, high in wanted:
            chunks = [row for row in self._chunks if row[1] == channel and row[2] == log]
            if not chunks or min(row[3] for row in chunks) > low:
                raise _Unknown
            if max(row[3] + row[4] for row in chunks) < high:
                raise _Unknown
            found.update({row[1:4]: row for row in chunks})
        return list(found.values())
