"""Hypothesis strategies for every kind of value that the serializer keeps, nested in each other."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import ipaddress
import pathlib
import re
import zoneinfo
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from . import sample_types as t

any_text = st.text(st.characters(exclude_categories=()), max_size=20)
integers = st.integers() | st.integers(-(2**70), 2**70) | st.sampled_from([2**63, 2**64, -(2**63) - 1])
floats = st.floats() | st.sampled_from([-0.0, float("inf"), float("-inf"), float("nan")])
zones = st.sampled_from(
    [
        None,
        dt.UTC,
        dt.timezone(dt.timedelta(hours=5, minutes=30, microseconds=1)),
        dt.timezone(dt.timedelta(0), "UTC"),
        zoneinfo.ZoneInfo("Europe/Paris"),
        zoneinfo.ZoneInfo("America/New_York"),
    ]
)
datetimes = st.builds(
    lambda when, zone, fold: when.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, st.integers(0, 1)
)
times = st.builds(
    lambda when, zone, fold: when.replace(tzinfo=zone, fold=fold), st.times(), zones, st.integers(0, 1)
)
paths = any_text.filter(lambda text: "\0" not in text).flatmap(
    lambda text: st.sampled_from(
        [pathlib.PurePosixPath(text), pathlib.PureWindowsPath(text), pathlib.PosixPath(text)]
    )
)
addresses = st.ip_addresses() | st.ip_addresses().map(lambda ip: ipaddress.ip_network(str(ip)))
members = st.sampled_from([*t.Color, *t.Level, *t.Word, *t.Outer.Inner, *t.Rights, t.Rights(3), t.Rights(0)])
scalars = (
    st.none()
    | st.booleans()
    | integers
    | floats
    | any_text
    | st.binary(max_size=20)
    | st.complex_numbers()
    | st.decimals()
    | st.fractions()
    | datetimes
    | times
    | st.dates()
    | st.timedeltas()
    | zones
    | st.uuids()
    | paths
    | addresses
    | members
    | st.builds(range, integers, integers, st.integers(1, 2**65))
    | st.builds(slice, integers, st.none(), st.none())
    | st.sampled_from([..., NotImplemented, int, list, type(None), t.Point, t.Color])
    | st.sampled_from([re.compile("a(b)?", re.I | re.X), re.compile(b"\x00+", re.S), re.compile("\ud800")])
    | st.sampled_from([ValueError("x", 1), KeyError("k"), t.MyError(4), OSError(2, "no", "file")])
    | st.builds(t.MyInt, integers)
    | st.builds(t.MyStr, any_text)
    | st.builds(t.MyFloat, floats)
    | st.builds(t.MyBytes, st.binary(max_size=5))
    | st.builds(t.MyDecimal, st.decimals())
    | st.builds(t.MyDatetime, st.integers(1, 9999), st.just(1), st.just(1), tzinfo=zones, fold=st.just(1))
    | st.builds(t.MyDate, st.integers(1, 9999), st.just(2), st.just(3))
    | st.builds(t.MyTime, st.integers(0, 23), tzinfo=zones)
    | st.builds(t.MyDelta, st.integers(-1000, 1000), st.integers(0, 86399))
)
"""Values that hold no others."""


def _is_key(value: Any) -> bool:
    """Tell whether a value can be found in a set by an equal one."""
    if isinstance(value, BaseException) or value != value:
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


keys = scalars.filter(lambda value: isinstance(value, decimal.Decimal) or _is_key(value)).filter(
    lambda value: not (isinstance(value, decimal.Decimal) and value.is_nan())
)
hashables = st.recursive(
    keys,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(inner, max_size=3)
        | st.builds(t.Frozen, inner, inner)
        | st.builds(t.Pair, inner, inner)
        | st.lists(inner, max_size=3).map(t.MyTuple)
    ),
    max_leaves=5,
)
"""Values that can be members of sets and keys of dicts."""


def _derived(start: int, content: Any) -> t.Derived:
    value = t.Derived(start)
    value.extra = content
    return value


def _model(a: Any, secret: Any, given: bool) -> t.Model:
    value = t.Model(a=a) if given else t.Model()
    value._secret = secret
    return value


def _noted(text: str, note: Any) -> t.MyStr:
    value = t.MyStr(text)
    value.note = note
    return value


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    dicts = st.dictionaries(any_text, inner, max_size=4) | st.dictionaries(hashables, inner, max_size=3)
    return (
        lists
        | dicts
        | lists.map(tuple)
        | st.sets(hashables, max_size=4)
        | st.frozensets(hashables, max_size=4)
        | st.binary(max_size=5).map(bytearray)
        | dicts.map(collections.OrderedDict)
        | st.dictionaries(hashables, st.integers(), max_size=3).map(collections.Counter)
        | st.builds(collections.defaultdict, st.sampled_from([None, list, int, t.Point]), dicts)
        | st.builds(collections.deque, lists, st.none() | st.integers(0, 5))
        | lists.map(t.MyList)
        | dicts.map(t.MyDict)
        | lists.map(t.MyTuple)
        | st.sets(hashables, max_size=3).map(t.MySet)
        | st.frozensets(hashables, max_size=3).map(t.MyFrozenSet)
        | dicts.map(t.MyOrdered)
        | st.builds(t.MyDefault, st.sampled_from([None, dict]), dicts)
        | st.builds(t.MyDeque, lists, st.none() | st.integers(0, 5))
        | st.dictionaries(hashables, st.integers(), max_size=3).map(t.MyCounter)
        | st.builds(t.Point, inner, inner)
        | st.builds(t.Frozen, inner, inner)
        | st.builds(t.Slotted, inner, inner)
        | st.builds(_derived, st.integers(), inner)
        | st.builds(t.Outer.Nested, inner)
        | st.builds(t.Pair, inner, inner)
        | st.builds(t.Attrs, inner, inner)
        | st.builds(t.FrozenAttrs, inner)
        | st.builds(t.Plain, inner)
        | st.builds(t.PlainSlots, inner)
        | st.builds(_model, inner, inner, st.booleans())
        | st.builds(lambda a, extra: t.OpenModel(a=a, extra=extra), inner, inner)
        | st.builds(t.FrozenModel)
        | st.builds(_noted, any_text, inner)
        | st.builds(ValueError, inner)
        | st.builds(t.MyError, inner)
    )


anything = st.recursive(scalars, _containers, max_leaves=12)
"""Any value that is kept, with values inside values."""

dtypes = (
    npst.scalar_dtypes()
    | npst.unicode_string_dtypes(max_len=4)
    | npst.byte_string_dtypes(max_len=4)
    | npst.datetime64_dtypes()
    | npst.timedelta64_dtypes()
    | npst.array_dtypes(max_size=3)
    | st.sampled_from([np.dtype("longdouble"), np.dtype("clongdouble")])
)
arrays = npst.arrays(dtypes, npst.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=3))
