"""A value comes back as it went in, or is refused when it is written."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.errors import SerializationError

from . import sample_types as t
from .same import same
from .values import anything, scalars

MANY = settings(max_examples=500, deadline=None)


@MANY
@given(value=anything)
def test_whatever_is_kept_comes_back_equal_and_of_the_same_type(
    serde: JsonPlusSerializer, value: Any
) -> None:
    assert same(serde.loads_typed(serde.dumps_typed(value)), value)


@MANY
@given(value=scalars)
def test_a_single_value_comes_back_by_itself_and_inside_every_plain_container(
    serde: JsonPlusSerializer, value: Any
) -> None:
    nested = {"a": [value, {"b": value}], "c": (value,)}
    assert same(serde.loads_typed(serde.dumps_typed(value)), value)
    assert same(serde.loads_typed(serde.dumps_typed(nested)), nested)


@MANY
@given(value=anything)
def test_what_was_read_is_written_as_the_same_bytes(serde: JsonPlusSerializer, value: Any) -> None:
    stored = serde.dumps_typed(value)
    assert serde.dumps_typed(serde.loads_typed(stored)) == stored


@MANY
@given(items=st.lists(anything, max_size=5))
def test_items_of_a_list_make_up_the_list(serde: JsonPlusSerializer, items: list[Any]) -> None:
    encoded = serde.dumps_items(items)
    assert encoded is not None
    assert ("msgpack", wire.array(encoded)) == serde.dumps_typed(items)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("-inf"), -0.0, 2**70, -(2**64), "", b"", [], {}, (), set(), frozenset(),
        "\0", "a\ud800b", {"\udfff": "\ud800"}, {(1, (2,)): {3}}, {1: {2: 3}}, {None: 1, True: 2, 1.5: 3},
        {2**80: 1}, {b"k": 1}, {t.Color.RED: 1, t.MyStr("k"): 2, t.MyInt(5): 3}, {"1": 1, 1: 2},
        [bytearray(b"a"), b"a"], {"k": [bytearray()]}, {"b": 0.1, "ą": [bytearray(b"x" * 150)]},
    ],
    ids=repr,
)  # fmt: skip
def test_values_that_formats_like_to_bend_stay_straight(serde: JsonPlusSerializer, value: Any) -> None:
    assert same(serde.loads_typed(serde.dumps_typed(value)), value)


dense = st.floats() | st.integers(0, 2**40) | st.text("aąłż", max_size=9) | st.binary(max_size=5)
crowd = st.recursive(
    dense,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=60,
)


@MANY
@given(before=st.lists(crowd), after=st.lists(crowd), buffer=st.binary(max_size=300), deep=st.integers(0, 12))
def test_a_buffer_is_told_from_bytes_wherever_it_stands(
    serde: JsonPlusSerializer, before: list[Any], after: list[Any], buffer: bytes, deep: int
) -> None:
    for found in (bytearray(buffer), memoryview(buffer), buffer):
        value: Any = [*before, found, *after]
        for level in range(deep):
            value = {"k": value, "n": level / 7} if level % 2 else [value, level]
        if type(found) is memoryview:
            with pytest.raises(SerializationError):
                serde.dumps_typed(value)
        else:
            assert same(serde.loads_typed(serde.dumps_typed(value)), value)


@pytest.mark.parametrize("size", [0, 1, 250, 253, 254, 255, 256, 257, 2**16 - 3, 2**16 - 1, 2**16, 2**16 + 1])
@pytest.mark.parametrize("around", [lambda x: [x], lambda x: {"k": x}, lambda x: [0.5] * 20 + [x]])
def test_a_buffer_is_told_from_bytes_at_every_size(serde: JsonPlusSerializer, size: int, around: Any) -> None:
    for value in (around(bytearray(size)), around(bytes(size)), around([bytearray(size)] * 9)):
        assert same(serde.loads_typed(serde.dumps_typed(value)), value)


@pytest.mark.parametrize("make", [str, lambda n: b"x" * n, lambda n: "ą" * (n // 2)])
def test_a_hundred_megabytes_fit(serde: JsonPlusSerializer, make: Any) -> None:
    value = make(100_000_000) if make is not str else "x" * 100_000_000
    assert serde.loads_typed(serde.dumps_typed([value]))[0] == value


def test_plain_values_are_plain_message_pack(serde: JsonPlusSerializer) -> None:
    assert serde.dumps_typed({}) == ("msgpack", b"\x80")
    assert serde.dumps_typed("pavaneeshwar") == ("msgpack", b"\xacpavaneeshwar")
    assert serde.dumps_typed({1: [None, True]}) == ("msgpack", b"\x81\x01\x92\xc0\xc3")
    assert serde.dumps_typed(None) == ("null", b"")
    assert serde.dumps_typed(b"raw") == ("bytes", b"raw")
    assert serde.dumps_typed(bytearray(b"raw")) == ("bytearray", b"raw")


def test_one_object_may_stand_in_several_places(serde: JsonPlusSerializer) -> None:
    shared = t.Point([1], {"k": (1,)})
    value = [shared, {"again": shared}, (shared, shared.x)]
    assert same(serde.loads_typed(serde.dumps_typed(value)), value)


def test_nesting_goes_as_deep_as_it_says(serde: JsonPlusSerializer) -> None:
    plain: Any = 1
    for _ in range(wire.MAX_PLAIN_DEPTH):
        plain = [plain]
    assert serde.loads_typed(serde.dumps_typed(plain)) == plain
    linked: Any = None
    for number in range(wire.MAX_OBJECT_DEPTH):
        linked = t.Point(number, linked)
    assert serde.loads_typed(serde.dumps_typed(linked)) == linked


def test_what_a_class_overrides_does_not_run() -> None:
    serde = JsonPlusSerializer().allow(t.Shouting)
    value = dict.__new__(t.Shouting)
    dict.update(value, a=1, b=2)
    loaded = serde.loads_typed(serde.dumps_typed(value))
    assert type(loaded) is t.Shouting
    assert dict(dict.items(loaded)) == {"a": 1, "b": 2}


def test_a_hash_that_attrs_keeps_is_not_stored() -> None:
    @attrs.frozen(cache_hash=True)
    class Hashed:
        a: str

    serde = JsonPlusSerializer().allow(Hashed)
    value = Hashed("x")
    tag, data = serde.dumps_typed(value)
    assert hash(value) == hash(serde.loads_typed((tag, data)))
    assert serde.dumps_typed(value) == (tag, data), "having been hashed changes nothing"


def test_a_rebuilt_dataclass_is_not_initialized_again(serde: JsonPlusSerializer) -> None:
    value = t.Derived(3)
    value.total, value.label = 100, "changed"
    assert value.expensive == 1000
    loaded = serde.loads_typed(serde.dumps_typed(value))
    assert (loaded.total, loaded.label, loaded.extra) == (100, "changed", [3])
    assert "expensive" not in vars(loaded), "what can be computed again is not stored"


def test_a_thread_may_use_the_serializer_while_another_fails_in_it(serde: JsonPlusSerializer) -> None:
    def work(number: int) -> bool:
        if number % 2:
            with pytest.raises(SerializationError):
                serde.dumps_typed([t.Point(number), sys])
            return True
        value = [t.Point(number, {"n": (number,)})]
        return bool(serde.loads_typed(serde.dumps_typed(value)) == value)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(2000)))


def test_what_needs_care_costs_no_more_the_deeper_it_is(serde: JsonPlusSerializer) -> None:
    """Each of these is noticed after what is inside was encoded. Doing that again would double with depth."""
    value: Any = None
    for number in range(wire.MAX_OBJECT_DEPTH):
        care = [{number: 1}, "\ud800", bytearray(b"x" * 300), {2**70: 0}][number % 4]
        value = t.Point(value, care)
    assert same(serde.loads_typed(serde.dumps_typed(value)), value)
