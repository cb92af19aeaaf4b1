"""NumPy arrays and scalars of every dtype come back, or are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.errors import SerializationError

from . import sample_types as t
from .values import arrays

serde = JsonPlusSerializer().with_types(t.ALL)


def assert_same(loaded: Any, array: Any) -> None:
    assert type(loaded) is type(array)
    assert loaded.dtype == array.dtype
    assert loaded.dtype.str == array.dtype.str
    assert loaded.shape == array.shape
    assert repr(loaded.tolist()) == repr(array.tolist())
    if array.dtype.kind in "biufcSUMm" and array.dtype.char not in "gG":
        assert loaded.tobytes() == array.tobytes()


@settings(max_examples=300, deadline=None)
@given(array=arrays)
def test_an_array_comes_back_with_dtype_and_shape(array: Any) -> None:
    loaded = serde.loads_typed(serde.dumps_typed({"k": [array]}))["k"][0]
    assert_same(loaded, array)
    assert loaded.flags.writeable
    if array.size:
        scalar = array.flat[0]
        if isinstance(scalar, np.generic):
            assert_same(serde.loads_typed(serde.dumps_typed([scalar]))[0], scalar)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(10)[::2], np.arange(6).reshape(2, 3).T,
        np.arange(4, dtype=">i4"), np.array(["a\0b", ""]), np.array([b"x\0", b""]), np.zeros((0, 5)),
        np.array("2020-01-01", "M8[25s]"), np.array([np.timedelta64("NaT")]), np.array([True, False]),
        np.array([(1, (2.0, "x"))], [("a", "i4"), ("b", [("c", "f8"), ("d", "U2")])]),
        np.zeros(2, np.dtype({"names": ["a"], "formats": ["i2"], "offsets": [3], "itemsize": 9})),
        np.zeros(2, np.dtype([("a", "i1"), ("b", "i8")], align=True)), np.zeros(2, [("a", "i4", (2, 2))]),
        np.array([1, "a", None, (1, 2), t.Point(1)], dtype=object),
        np.array([[1, {}], [[], {1}]], dtype=object),
        np.array([(1, "x")], [("n", "i4"), ("o", object)]), np.array(None),
        np.array(["long text", ""], np.dtypes.StringDType()),
        np.array(["a", None], np.dtypes.StringDType(na_object=None)),
        np.zeros(2, np.dtype((np.record, [("a", "i4")]))),
    ],
    ids=lambda array: str(array.dtype),
)  # fmt: skip
def test_unusual_arrays_come_back(array: Any) -> None:
    loaded = serde.loads_typed(serde.dumps_typed(array))
    assert_same(loaded, array)
    assert loaded.flags.f_contiguous == (
        array.flags.f_contiguous or (loaded.flags.c_contiguous and array.ndim < 2)
    )


@pytest.mark.parametrize(
    "scalar",
    [
        np.int64(3), np.float64(0.1), np.float16(1), np.longdouble("1.1"), np.bool_(True), np.str_("a\0"),
        np.bytes_(b"a\0"), np.datetime64("2020-01-01T00:00", "ns"), np.timedelta64(3, "D"), np.complex64(1j),
        np.void(b"abc"), np.zeros(1, [("a", "i4"), ("b", "U3")])[0],
    ],
    ids=lambda scalar: type(scalar).__name__,
)  # fmt: skip
def test_scalars_keep_their_type(scalar: Any) -> None:
    loaded = serde.loads_typed(serde.dumps_typed({"k": scalar}))["k"]
    assert type(loaded) is type(scalar)
    assert loaded == scalar
    assert loaded.dtype == scalar.dtype


@pytest.mark.parametrize(
    "value",
    [
        np.ma.masked_array([1], [True]), np.zeros(1).view(np.matrix), np.rec.array([(1,)], names="a"),
        np.zeros(2, np.dtype("i4", metadata={"a": 1})), np.array([len], dtype=object),
        np.zeros(2, np.dtype([])), np.random.default_rng(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_cannot_come_back_is_refused(value: Any) -> None:
    with pytest.raises(SerializationError):
        serde.dumps_typed({"k": value})


def stored(header: Any, raw: bytes = b"", code: int = wire.ARRAY) -> tuple[str, bytes]:
    content = serde.dumps_typed(header)[1] + raw
    return "msgpack", b"\xc8" + len(content).to_bytes(2, "big") + bytes((code,)) + content


@pytest.mark.parametrize(
    ("header", "raw"),
    [
        (["<f8", [2**60, 2**60], "C"], b"x" * 8),
        (["<f8", [10**9], "C"], b"x" * 8), (["<f8", [-1], "C"], b""),
        (["|O", [1], "C"], b"x" * 8), (["<U1", [1], "C"], b"\xff" * 4), (["<f8", [1], "X"], b"x" * 8),
        (["i4,O", [1], "C"], b"x" * 12), (["|V0", [10**9], "C"], b""), (["<U1000000000", [1], "C"], b""),
        ([{"of": "|O", "shape": [1]}, [1], "C"], b"x" * 8), (["<f8", ["a"], "C"], b"x" * 8),
        (["|O", [3], "C", [1]], b""), ([{"coerce": True}, [10**12], "C", []], b""),
        ([{"size": 2**31, "aligned": False, "fields": [["o", "|O", 0]]}, [1], "C", [[1]]], b""),
        (["<f8", [True], "C"], b"x" * 8), ([None, [1], "C"], b""), ([], b""), ("text", b""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("code", [wire.ARRAY, wire.SCALAR])
def test_forged_arrays_are_refused_before_memory_is_taken(header: Any, raw: bytes, code: int) -> None:
    with pytest.raises(SerializationError):
        serde.loads_typed(stored(header, raw, code))


def test_unused_bytes_of_a_record_are_not_stored() -> None:
    dtype = np.dtype([("a", "i1"), ("b", "i8")], align=True)
    dirty = np.frombuffer(b"\xee" * 32, dtype)
    clean = np.zeros(2, dtype)
    clean[...] = dirty
    assert serde.dumps_typed(dirty) == serde.dumps_typed(clean)
    assert b"\x00" * 7 in serde.dumps_typed(dirty)[1]


def test_forged_truth_values_are_true_or_false() -> None:
    loaded = serde.loads_typed(stored(["|b1", [3], "C"], b"\x00\x01\x7f"))
    assert loaded.view("u1").tolist() == [0, 1, 1]
