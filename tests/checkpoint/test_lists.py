"""How lists are cut into slices: right for any change, and short for the usual ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ormsgpack
from hypothesis import given
from hypothesis import strategies as st

from threadmark.checkpoint.lists import (
    MOST_SLICES,
    ListMemo,
    Piece,
    array,
    cut,
    diff,
    extend,
    joined,
    merges,
    recipe_from,
)

ITEMS = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=12)
RUNS = st.lists(st.one_of(st.integers(-2, 9), st.tuples(st.integers(-2, 9), st.integers(-2, 9))), max_size=5)


def made(old: list[bytes], pieces: list[Piece]) -> list[bytes]:
    return [item for piece in pieces for item in (old[slice(*piece)] if isinstance(piece, tuple) else piece)]


@given(ITEMS, ITEMS)
def test_a_difference_makes_the_new_list_from_the_old_one(old: list[bytes], new: list[bytes]) -> None:
    assert made(old, diff(old, new)) == new


def test_what_did_not_change_is_found() -> None:
    unique = [bytes([n]) for n in range(30)]
    assert diff(unique[:20], unique[5:]) == [(5, 20), unique[20:]]
    assert diff(unique, [*unique[:10], b"x", *unique[11:]]) == [(0, 10), [b"x"], (11, 30)]
    assert diff(unique, [*unique[3:7], *unique[15:]]) == [(3, 7), (15, 30)]


@given(RUNS, st.integers(0, 9))
def test_what_the_engine_says_is_taken_only_if_it_adds_up(kept: Any, old: int) -> None:
    for new in range(12):
        runs = recipe_from(kept, old, new)
        if runs is not None:
            assert sum(stop if start < 0 else stop - start for start, stop in runs) == new
            assert all(start < 0 or 0 <= start < stop <= old for start, stop in runs)
            assert all(start == -1 or start >= 0 for start, _ in runs)


@given(ITEMS, st.lists(st.tuples(ITEMS, st.booleans()), max_size=5))
def test_a_memo_knows_the_items_however_late_it_is_asked(first: list[bytes], changes: Any) -> None:
    memo = ListMemo("0", len(first), list(first))
    items = first
    for n, (new, ask) in enumerate(changes):
        memo.advance(str(n), diff(items, new), len(new))
        items = new
        if ask:
            assert memo.items() == items
    assert memo.items() == items
    assert memo.length == len(items)


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 5), st.integers(1, 4)), max_size=6), st.data()
)
def test_cutting_slices_is_cutting_the_list(spec: Any, data: st.DataObject) -> None:
    slices = [(log, low, low + size) for log, low, size in spec]
    whole = [(log, i) for log, low, high in slices for i in range(low, high)]
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    found: list[Any] = []
    extend(found, cut(slices, start, stop))
    assert [(log, i) for log, low, high in found for i in range(low, high)] == whole[start:stop]
    assert all((a[0], a[2]) != (b[0], b[1]) for a, b in pairwise(found))


@given(st.lists(st.integers(1, 1000), max_size=60))
def test_merging_leaves_few_slices_and_their_order(lengths: list[int]) -> None:
    groups = merges(lengths)
    assert [i for first, end in groups for i in range(first, end)] == list(range(len(lengths)))
    assert len(groups) <= MOST_SLICES
    if len(lengths) <= MOST_SLICES:
        assert len(groups) == len(lengths)


def test_merging_costs_little_for_each_change_that_makes_it_necessary() -> None:
    sizes, written = [10_000], 0
    for _ in range(2_000):
        sizes.append(1)
        groups = merges(sizes)
        written += sum(sum(sizes[a:b]) for a, b in groups if b - a > 1)
        sizes = [sum(sizes[a:b]) for a, b in groups]
    assert written < 2_000 * 20


@given(st.lists(st.one_of(st.integers(), st.text(), st.none()), max_size=20))
def test_joined_items_are_the_list(items: list[Any]) -> None:
    items = [item for item in items if not isinstance(item, int) or -(2**63) <= item < 2**63]
    assert joined([ormsgpack.packb(item) for item in items]) == ormsgpack.packb(items)


def test_array_headers_of_every_size() -> None:
    for count in (0, 15, 16, 65_535, 65_536):
        assert ormsgpack.unpackb(array(count) + b"\xc0" * count) == [None] * count
