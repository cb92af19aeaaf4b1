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

__all__ = ["RRF", "fused", "query_words", "scored", "words_of"]

RRF = 60
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
        # Recomposed after the accents are gone, so that Korean syllables stay whole.
        bare = _MARK.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFC", bare)
    return _WORD.findall(text.casefold())


def query_words(query: str) -> list[str]:
    """Return the distinct words of a query; of a long one, the first."""
    return list(dict.fromkeys(words_of(query)))[:_MOST_QUERY_WORDS]


def scored(words: Sequence[str], texts: Iterable[tuple[int, Mapping[str, int]]]) -> list[tuple[int, float]]:
    """Return the items that hold any of the words, with their scores, best first.

    Args:
        words: The words of the query.
        texts: Each item's number, and how often it holds which word. All of them are the collection
            in which a word is rare or not.
    """
    lengths: list[int] = []
    holding: Counter[str] = Counter()
    found: list[tuple[int, int, dict[str, int]]] = []
    for item, counts in texts:
        length = sum(counts.values())
        lengths.append(length)
        hits = {word: counts[word] for word in words if word in counts}
        if hits:
            holding.update(hits.keys())
            found.append((item, length, hits))
    mean = sum(lengths) / len(lengths) if lengths else 0.0
    weights = {word: _weight(len(lengths), count) for word, count in holding.items()}
    scores = [
        (item, sum(weights[word] * _gain(count, length, mean) for word, count in hits.items()))
        for item, length, hits in found
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
            scores[item] = scores.get(item, 0.0) + 1 / (RRF + rank)
    return scores


def _weight(items: int, holding: int) -> float:
    return math.log(1 + (items - holding + 0.5) / (holding + 0.5))


def _gain(count: int, length: int, mean: float) -> float:
    return count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / mean))
