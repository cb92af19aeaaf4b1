"""The compact forms of versions and checkpoints lose nothing, and keep the order of versions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadmark.checkpoint._sql.pack import expand, packed, shorten, unpacked
from threadmark.checkpoint.encode import Surroundings
from threadmark.errors import InvalidArgumentError, StorageCorruptError

USUAL = st.builds(lambda n, f: f"{n:032}.{f}", st.integers(0, 10**25), st.floats(0, 1))
VERSIONS = st.one_of(
    USUAL,
    st.text(max_size=40),
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from(["0" * 32 + ".", "1.5", "a.b", "٣" * 32 + ".1", "0" * 33, "~i1", "b1.0.5"]),
)
NAMES = st.text(max_size=5)


@given(VERSIONS)
def test_a_version_comes_back_with_its_type(version: Any) -> None:
    found = expand(shorten(version))
    assert (found, type(found)) == (version, type(version))


@given(st.lists(VERSIONS, max_size=8))
def test_different_versions_have_different_short_forms(versions: list[Any]) -> None:
    distinct = {(type(v), v) for v in versions}
    assert len({shorten(v) for _, v in distinct}) == len(distinct)


@given(st.integers(0, 10**25), st.integers(0, 10**25))
def test_short_forms_sort_like_their_counters(one: int, other: int) -> None:
    if one != other:
        short = [shorten(f"{n:032}.0.5") for n in (one, other)]
        assert (short[0] < short[1]) is (one < other)


@pytest.mark.parametrize("version", [None, b"1", [1], ("a",)])
def test_what_is_no_version_is_refused(version: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        shorten(version)


@given(
    st.dictionaries(NAMES, VERSIONS, max_size=4),
    st.dictionaries(NAMES, st.dictionaries(NAMES, VERSIONS, max_size=3), max_size=3),
    st.one_of(st.none(), st.lists(NAMES)),
    st.dictionaries(NAMES, NAMES, max_size=2),
    st.dictionaries(st.sampled_from(["channel_values", "extra"]), st.just({"x": 1}), max_size=2),
)
def test_a_checkpoint_comes_back(versions: Any, seen: Any, updated: Any, parents: Any, more: Any) -> None:
    checkpoint: Any = {
        "v": 4,
        "ts": "now",
        "id": "c",
        "channel_versions": versions,
        "versions_seen": seen,
        "updated_channels": updated,
        **more,
    }
    around = Surroundings(parents, "run", list(versions)[:1])
    found = unpacked(packed(checkpoint, around), "c", "t")
    assert repr(sorted(found.checkpoint.items())) == repr(sorted(checkpoint.items()))
    assert found.around == around


@pytest.mark.parametrize(
    "stored", [None, 7, [], [1] * 8, {}, [{}, None, {}], [{}, None, 4, "", [], {"c": 3}, {}, None]]
)
def test_a_damaged_row_is_said_to_be_damaged(stored: Any) -> None:
    with pytest.raises(StorageCorruptError):
        unpacked(stored, "c", "t")
