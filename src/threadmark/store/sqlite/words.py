"""Keyword search on SQLite: by FTS5 where items are indexed, by reading them where they are not.

Words are cut by `threadmark.store.keywords` before they reach FTS5, so that texts become the same words
everywhere. Beside the words, each row of the FTS5 table names the namespaces that its item is below,
so that a search in one namespace does not read what others hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any

from threadmark._db.effects import Execute, Operation
from threadmark.store.backend import Hit, Record, View
from threadmark.store.indexing import WHOLE_VALUE, record_words
from threadmark.store.keywords import WordScores
from threadmark.store.namespaces import Span, encode_namespace
from threadmark.store.sqlite import statements as sql
from threadmark.store.sqlite.prefilter import narrowed
from threadmark.store.sqlite.rows import read_record

__all__ = ["Indexed", "Scanned", "space_names"]


def space_names(namespace: tuple[str, ...]) -> str:
    """Return the names of a namespace and of all above it, as FTS5 keeps them."""
    ends = range(1, len(namespace) + 1)
    return " ".join(_space_name(encode_namespace(namespace[:end])) for end in ends)


class Indexed:
    """The records that hold any of some words, found by FTS5, as a source of hits."""

    def __init__(self, view: View, words: Sequence[str]) -> None:
        condition = narrowed(view.filter)
        self._words = words
        self._sql = sql.MATCHING.format(narrowed=condition.sql)
        self._params = (_match(view.span, words), *view.span, view.now, *condition.params)
        self._offset = 0

    def more(self, count: int) -> Operation[list[Hit]]:
        if not self._words:
            return []
        rows = yield Execute(self._sql, (*self._params, count, self._offset))
        self._offset += len(rows)
        return [_hit(read_record(row[:-1]), -row[-1]) for row in rows]


class Scanned:
    """The records that hold any of some words, found by reading them, as a source of hits.

    Args:
        scan: Returns some records, and where to resume.
        words: The words.
    """

    def __init__(
        self, scan: Callable[[Any], Operation[tuple[list[Record], Any]]], words: Sequence[str]
    ) -> None:
        self._scan = scan
        self._words = words
        self._hits: Iterator[Hit] | None = None

    def more(self, count: int) -> Operation[list[Hit]]:
        if self._hits is None:
            self._hits = iter((yield from self._all()))
        return list(islice(self._hits, count))

    def _all(self) -> Operation[list[Hit]]:
        scores = WordScores(self._words)
        matching: dict[int, Record] = {}
        resume: Any = None
        while True:
            records, resume = yield from self._scan(resume)
            for record in records:
                if record.fields != () and scores.add(record.seq, Counter(record_words(record, WHOLE_VALUE))):
                    matching[record.seq] = record
            if resume is None:
                return [_hit(matching[seq], score) for seq, score in scores.ranked()]


def _hit(record: Record, score: float) -> Hit:
    return Hit(record, score, (-score, record.seq))


def _match(span: Span, words: Sequence[str]) -> str:
    # The words hold letters and digits only, so there is nothing in them to escape.
    quoted = " OR ".join(f'"{word}"' for word in words)
    wanted = f"words : ({quoted})"
    return f'spaces : "{_space_name(span.low)}" AND {wanted}' if span.low else wanted


def _space_name(name: bytes) -> str:
    return blake2b(name, digest_size=8).hexdigest()
