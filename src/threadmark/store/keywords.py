"""Search by words: how texts become words, and how items are scored by them.

Words are cut the same way everywhere: case and accents do not count, everything that is no letter or
digit separates, and in scripts that are written without spaces each character is a word. An item
matches when it holds any word of the query. The score is BM25: rare words count more, repeated words
a little more, long texts less. This module knows no store.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["WordScores", "fused", "query_words", "words_of"]

_RRF = 60
"""The constant of reciprocal rank fusion: how little the difference between high ranks counts."""

_K1, _B = 1.2, 0.75
_MOST_QUERY_WORDS = 64
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Japanese, Chinese
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")
_MARK = re.compile(r"[\u0300-\u036f]")


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order and with repetitions."""
    if not text.isascii():
        # Case goes first: folding turns a mark (the Greek iota below a vowel) into a letter. Recomposed
        # after the accents are gone, so that Korean syllables stay whole.
        bare = _MARK.sub("", unicodedata.normalize("NFKD", text.casefold()))
        text = unicodedata.normalize("NFC", bare)
    return _WORD.findall(text.casefold())


def query_words(query: str) -> list[str]:
    """Return the distinct words of a query; of a long one, the first."""
    return list(dict.fromkeys(words_of(query)))[:_MOST_QUERY_WORDS]


class WordScores:
    """Scores items by the words of a query, as they are added.

    Args:
        words: The words of the query.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._items = 0
        self._length = 0
        self._holding: Counter[str] = Counter()
        self._found: list[tuple[int, int, dict[str, int]]] = []

    def add(self, item: int, counts: Mapping[str, int]) -> bool:
        """Add an item to the collection in which a word is rare or not.

        Args:
            item: Its number.
            counts: How often it holds which word.

        Returns:
            Whether it holds any word of the query.
        """
        length = sum(counts.values())
        self._items += 1
        self._length += length
        hits = {word: counts[word] for word in self._words if word in counts}
        if hits:
            self._holding.update(hits.keys())
            self._found.append((item, length, hits))
        return bool(hits)

    def ranked(self) -> list[tuple[int, float]]:
        """Return the items that hold any word of the query with their scores, best first."""
        mean = self._length / max(1, self._items)
        weights = {word: _weight(self._items, count) for word, count in self._holding.items()}
        scores = [
            (item, sum(weights[word] * _gain(count, length, mean) for word, count in hits.items()))
            for item, length, hits in self._found
        ]
        return sorted(scores, key=lambda entry: (-entry[1], entry[0]))


def fused(rankings: Iterable[Iterable[int]]) -> dict[int, float]:
    """Combine rankings of items by reciprocal rank.

    Args:
        rankings: The items of each ranking, best first.

    Returns:
        Each item's score.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + 1 / (_RRF + rank)
    return scores


def _weight(items: int, holding: int) -> float:
    return math.log(1 + (items - holding + 0.5) / (holding + 0.5))


def _gain(count: int, length: int, mean: float) -> float:
    return count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / mean))
