"""The parts that stores are made of: names as bytes, paths, cursors, words, vectors, values."""

from __future__ import annotations

import itertools
import json
import sys
from base64 import urlsafe_b64encode
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadmark.errors import EmbeddingError, InvalidArgumentError, SerializationError
from threadmark.store.base import Item, SearchItem, get_text_at_path
from threadmark.store.cursors import Place, read_cursor, sort_position, write_cursor
from threadmark.store.keywords import WordScores, fused, query_words, words_of
from threadmark.store.namespaces import (
    decode_namespace,
    decode_text,
    encode_namespace,
    encode_text,
    span_of,
)
from threadmark.store.paths import MISSING, find, leaf_text, parse_path, parse_single_path
from threadmark.store.values import check_value, clone, copy_value, read_value, write_value
from threadmark.store.vectors import VectorIndex, checked_vectors

ANY_TEXT = st.text(st.characters())
SEGMENTS = st.one_of(ANY_TEXT, st.text("a\x00\x01\xff\ud800%", max_size=4)).filter(bool)
NAMESPACES = st.lists(SEGMENTS, max_size=4).map(tuple)


# Names


@given(NAMESPACES)
def test_a_namespace_comes_back_from_its_bytes(namespace: tuple[str, ...]) -> None:
    assert decode_namespace(encode_namespace(namespace)) == namespace


@given(NAMESPACES, NAMESPACES)
def test_bytes_sort_as_namespaces_do_and_differ_when_they_do(a: Any, b: Any) -> None:
    assert (encode_namespace(a) < encode_namespace(b)) == (a < b)
    assert (encode_namespace(a) == encode_namespace(b)) == (a == b)


@given(NAMESPACES, NAMESPACES)
def test_a_span_holds_what_begins_with_its_segments(prefix: Any, namespace: Any) -> None:
    for candidate in (namespace, prefix + namespace):
        low, high = span_of(prefix)
        inside = low <= encode_namespace(candidate) < high
        assert inside == (candidate[: len(prefix)] == prefix)


@given(ANY_TEXT)
def test_a_key_comes_back_from_its_bytes(key: str) -> None:
    assert decode_text(encode_text(key)) == key


# Paths

DOCUMENT = {
    "a": {"b": "x", "c": 1.5, "d": True, "e": None, "f": ""},
    "items": [{"t": "one"}, {"t": ["two", 3]}, {"u": "four"}],
    "x.y": {"$z": "odd"},
    "*": "star",
}


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("a.b", ["x"]),
        ("a.c", ["1.5"]),
        ("a.d", ["true"]),
        ("a.e", []),
        ("a.f", []),
        ("a.nothing", []),
        ("$.a.b", ["x"]),
        ("items[*].t", ["one", '["two", 3]']),
        ("items[1].t[0]", ["two"]),
        ("items[-1].u", ["four"]),
        ("items[7].u", []),
        ("items.t", []),
        ("a[0]", []),
        ("a.*", ["x", "1.5", "true"]),
        ("a.{b, c,nothing}", ["x", "1.5"]),
        ("items[*].{t,u}", ["one", '["two", 3]', "four"]),
        ("x\\.y.\\$z", ["odd"]),
        ("\\*", ["star"]),
        ("$", [json.dumps(DOCUMENT, ensure_ascii=False)]),
    ],
)
def test_paths_lead_to_texts(path: str, texts: list[str]) -> None:
    assert get_text_at_path(DOCUMENT, path) == texts


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a[",
        "a[x]",
        "a]",
        "{a",
        "a{b}",
        "$a",
        "[0]",
        "\\",
        "a" * 1001,
        1,
        None,
        ["a"],
    ],
)
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_path(path)


@pytest.mark.parametrize("path", ["$", "a[*]", "*", "a.{b}"])
def test_a_filter_needs_a_path_to_one_value(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="one value"):
        parse_single_path(path)


def test_keyword_search_looks_at_texts_and_numbers_and_at_no_names() -> None:
    assert leaf_text(DOCUMENT, ()).split() == ["x", "1.5", "true", "one", "two", "3", "four", "odd", "star"]


def test_a_path_that_leads_nowhere_finds_missing() -> None:
    assert find({"a": None}, ("a",)) is None
    assert find({"a": None}, ("a", "b")) is MISSING


# Cursors

SORTABLE = st.one_of(
    st.just(MISSING),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    ANY_TEXT,
    st.just([1]),
    st.just({}),
)


@given(SORTABLE, st.integers(0, 2**63 - 1))
def test_a_place_comes_back_from_its_cursor(value: Any, seq: int) -> None:
    place = Place("sort:up:a", sort_position(value, seq))
    assert read_cursor(write_cursor(place), "sort:up:a") == place.position


@given(st.lists(SORTABLE, max_size=6))
def test_any_values_can_be_sorted_together(values: list[Any]) -> None:
    positions = [sort_position(value, seq) for seq, value in enumerate(values)]
    assert [position[-1] for position in sorted(positions)][::-1] == [
        position[-1] for position in sorted(positions, reverse=True)
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=2),
)


@given(
    st.one_of(st.text(), st.binary(), JSON, st.lists(JSON, max_size=4)), st.sampled_from(["sort:a", "list"])
)
def test_any_cursor_is_refused_or_can_be_compared(forged: Any, order: str) -> None:
    data = [order, *forged] if isinstance(forged, list) else forged
    for cursor in (forged, urlsafe_b64encode(json.dumps(data, default=repr).encode()).decode()):
        try:
            position = read_cursor(cursor, order)
        except InvalidArgumentError:
            continue
        own = [sort_position(value, 5) for value in (MISSING, None, True, 1, "a", [])]
        for other in own if order == "sort:up:a" else [(5,)]:
            assert (position < other) in (True, False)


# Items


def test_an_item_can_be_made_from_what_it_prints() -> None:
    store_item = Item(value={"a": 1}, key="k", namespace=["n"], created_at=NOW, updated_at=NOW)  # type: ignore[arg-type]
    again = Item(**json.loads(json.dumps(store_item.dict())))
    assert again == store_item
    assert hash(again) == hash(store_item)
    assert repr(again) == (
        "Item(value={'a': 1}, key='k', namespace=['n'], created_at='2024-10-02T17:22:31.590602+00:00', "
        "updated_at='2024-10-02T17:22:31.590602+00:00')"
    )


def test_a_search_item_shows_its_score_if_it_has_one() -> None:
    ranked = SearchItem(("n",), "k", {}, NOW, NOW, 0.5)
    plain = SearchItem(("n",), "k", {}, NOW, NOW)
    assert list(ranked.dict()) == ["value", "key", "namespace", "created_at", "updated_at", "score"]
    assert "score" not in plain.dict()
    assert plain.cursor is None


NOW: Any = "2024-10-02T17:22:31.590602+00:00"


# Words


@given(ANY_TEXT)
def test_words_are_what_fts5_takes_for_words(text: str) -> None:
    for word in words_of(text):
        assert word
        assert all(not char.isascii() or char.isalnum() for char in word)
        assert words_of(word) == [word]


@given(ANY_TEXT)
def test_case_makes_no_words_different(text: str) -> None:
    assert words_of(text.casefold()) == words_of(text)


def test_no_character_changes_its_words_with_its_case() -> None:
    characters = map(chr, range(sys.maxunicode + 1))
    assert not [char for char in characters if words_of(f"a{char}b".casefold()) != words_of(f"a{char}b")]


def test_long_queries_are_cut() -> None:
    words = query_words(" ".join(f"w{number % 100}" for number in range(500)))
    assert words == [f"w{number}" for number in range(64)]


def test_rare_words_count_more_and_long_texts_less() -> None:
    scores = WordScores(["rare", "common"])
    for number in range(8):
        scores.add(number, {"common": 1, "filler": 3})
    scores.add(8, {"rare": 1, "filler": 3})
    scores.add(9, {"common": 1, "filler": 9})
    ranked = scores.ranked()
    assert ranked[0][0] == 8
    assert [item for item, _ in ranked[1:]] == [0, 1, 2, 3, 4, 5, 6, 7, 9]


def test_fusion_puts_first_what_both_rankings_hold() -> None:
    scores = fused([[1, 2, 3], [4, 3, 5]])
    assert sorted(scores, key=lambda item: -scores[item]) == [3, 1, 4, 2, 5]


# Vectors


@settings(max_examples=60, deadline=None)
@given(
    st.data(),
    st.sampled_from(["cosine", "inner_product", "l2"]),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([("a",), ("a", "b"), ("c",)]), st.integers(0, 3))),
)
def test_the_index_ranks_as_a_loop_does(data: Any, distance: str, changes: Any) -> None:
    index = VectorIndex(4, distance)
    kept: dict[int, Any] = {}
    whole = st.lists(st.integers(-9, 9), min_size=4, max_size=4)
    for item, namespace, count in changes:
        vectors = np.array(data.draw(st.lists(whole, min_size=count, max_size=count)), np.float32)
        index.put(item, encode_namespace(namespace), vectors.reshape(count, 4) if count else None)
        kept.pop(item, None)
        if count:
            kept[item] = (namespace, vectors)
    query = np.array(data.draw(whole), np.float32)
    prefix = data.draw(st.sampled_from([(), ("a",), ("a", "b"), ("b",)]))
    found = list(index.ranked(query, span_of(prefix)))
    expected = {
        item: max(similarity(distance, vector, query) for vector in vectors)
        for item, (namespace, vectors) in kept.items()
        if namespace[: len(prefix)] == prefix
    }
    assert {item for item, _ in found} == set(expected)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert {item: pytest.approx(score, abs=1e-4) for item, score in found} == expected
    assert len(index) == len(kept)


def similarity(distance: str, a: Any, b: Any) -> float:
    if distance == "l2":
        return -float(np.linalg.norm(a - b))
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b)) if distance == "cosine" else 1.0
    return float(a @ b) / (lengths or 1.0)


def test_equal_scores_come_by_number_however_many_there_are() -> None:
    index = VectorIndex(2)
    for item in reversed(range(500)):
        index.put(item, b"a\0", np.ones((1, 2), np.float32))
    ranked = index.ranked(np.ones(2, np.float32), span_of(()))
    assert [item for item, _ in itertools.islice(ranked, 500)] == list(range(500))


def test_rows_are_used_again() -> None:
    index = VectorIndex(2)
    for item in range(20_000):
        index.put(item % 7, b"a\0", np.full((2, 2), item, np.float32))
    assert len(index._owners) == 4_096


@pytest.mark.parametrize(
    "vectors",
    [[[1, 2]], [[1, 2, 3], [1, 2, 3]], [[1, 2, float("inf")]], None, ["abc"], [[[1, 2, 3]]], 3, [["a"] * 3]],
)
def test_vectors_are_checked(vectors: Any) -> None:
    with pytest.raises(EmbeddingError):
        checked_vectors(vectors, 1, 3)


# Values

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
)


@given(PLAIN)
def test_a_value_comes_back_from_its_bytes_and_from_its_copies(value: Any) -> None:
    for again in (read_value(write_value(value)), copy_value(value), clone(value)):
        assert repr(again) == repr(value)


@given(st.dictionaries(ANY_TEXT, PLAIN, max_size=3), st.sampled_from([(), {1}, 1j, object, b""]))
def test_a_refused_value_is_named_with_its_place(value: dict[str, Any], bad: Any) -> None:
    value["here"] = [0, {"in": bad}]
    with pytest.raises(SerializationError, match=r"\['here'\]\[1\]\['in'\]"):
        check_value(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["self"] = value
    with pytest.raises(SerializationError, match="deep"):
        check_value(value)
