"""What LangGraph's serializer wrote can be read, under the same known-types rule."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import ipaddress
import json
import pathlib
import re
import uuid
import zoneinfo
from typing import Any

import numpy as np
import pydantic
import pydantic.v1
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer as PeerSerializer
from langgraph.store.base import Item as PeerItem
from langgraph.types import Command as PeerCommand
from langgraph.types import Interrupt as PeerInterrupt
from langgraph.types import Send as PeerSend

from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.peer import DeltaSnapshot
from threadmark.errors import SerializationError, UnknownTypeError
from threadmark.store.items import Item
from threadmark.types import Command, Interrupt, Send

from . import sample_types as t

peer = PeerSerializer()


class Inner(pydantic.BaseModel):
    when: dt.datetime
    numbers: tuple[int, ...] = (1,)


class Nested(pydantic.BaseModel):
    inner: Inner
    members: set[int] = {1}


class Old(pydantic.v1.BaseModel):
    a: int = 1


@pytest.fixture(scope="module")
def reader(serde: JsonPlusSerializer) -> JsonPlusSerializer:
    return serde.with_types([Nested, Inner, Old, pydantic.SecretStr])


NOW = dt.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)

KEPT: list[Any] = [
    None, True, 1, -1.5, "text", b"bytes", [1, {"a": None}], {1: 2, None: 3}, {"a": {"b": b"c"}},
    {1, 2}, frozenset(("a",)), {(1, 2), (3, 4)}, collections.deque([1, 2]), uuid.UUID(int=5), NOW,
    NOW.replace(tzinfo=None), NOW.date(), NOW.timetz(), dt.timedelta(1, 2, 3), dt.UTC,
    dt.timezone(dt.timedelta(hours=1), "X"), zoneinfo.ZoneInfo("Europe/Paris"), decimal.Decimal("1.50"),
    pathlib.PosixPath("/a/b"), re.compile("a+", re.I),
    ipaddress.ip_address("1.2.3.4"), ipaddress.ip_network("::/64"), ipaddress.ip_interface("1.2.3.4/8"),
    t.Color.RED, t.Level.HIGH, t.Outer.Inner.A, t.Outer.Nested(1), t.Point(1, [t.Point(2)]), t.Pair(1, 2),
    Nested(inner=Inner(when=NOW)), Old(a=4), pydantic.SecretStr("x"), HumanMessage("hi", id="1"),
    AIMessage("", tool_calls=[{"name": "f", "args": {"a": [1]}, "id": "c"}]),
    ToolMessage("t", tool_call_id="c", artifact={"k": [1]}), Document("page", metadata={"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize("value", KEPT, ids=lambda value: f"{type(value).__name__}")
def test_the_peers_values_are_read(reader: JsonPlusSerializer, value: Any) -> None:
    loaded = reader.loads_typed(peer.dumps_typed(value))
    assert type(loaded) is type(value)
    assert loaded == value
    nested = reader.loads_typed(peer.dumps_typed({"k": [value]}))
    assert nested == {"k": [value]}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (PeerSend("node", {"a": 1}), Send("node", {"a": 1})),
        (
            PeerCommand(update={"a": [1]}, goto="x", resume="r"),
            Command(update={"a": [1]}, goto="x", resume="r"),
        ),
        (PeerInterrupt("question", id="i"), Interrupt("question", id="i")),
        (
            PeerItem(value={"v": 1}, key="k", namespace=("a", "b"), created_at=NOW, updated_at=NOW),
            Item(value={"v": 1}, key="k", namespace=("a", "b"), created_at=NOW, updated_at=NOW),
        ),
    ],
    ids=["Send", "Command", "Interrupt", "Item"],
)
def test_the_peers_own_types_become_ours(reader: JsonPlusSerializer, theirs: Any, ours: Any) -> None:
    assert reader.loads_typed(peer.dumps_typed([theirs])) == [ours]


@pytest.mark.parametrize(
    "array",
    [np.arange(6).reshape(2, 3), np.asfortranarray(np.ones((2, 2))), np.array(5), np.array(["ą", "b"])],
)
def test_the_peers_arrays_are_read(reader: JsonPlusSerializer, array: Any) -> None:
    loaded = reader.loads_typed(peer.dumps_typed(array))
    assert loaded.dtype == array.dtype
    assert loaded.flags.f_contiguous == array.flags.f_contiguous
    np.testing.assert_array_equal(loaded, array)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(-9, 9), inner),
)


@settings(max_examples=200, deadline=None)
@given(value=json_like)
def test_plain_values_mean_the_same_to_both(value: Any) -> None:
    ours, stored = JsonPlusSerializer(), peer.dumps_typed(value)
    assert ours.dumps_typed(value) == stored
    assert ours.loads_typed(stored) == value


@pytest.mark.parametrize(
    "value",
    [t.Point(1), t.Color.RED, t.Pair(1), Nested(inner=Inner(when=NOW)), Old(), pydantic.SecretStr("x")],
)
def test_the_peers_data_names_unknown_types_too(value: Any) -> None:
    stored = peer.dumps_typed([value])
    with pytest.raises(UnknownTypeError) as caught:
        JsonPlusSerializer().loads_typed(stored)
    assert caught.value.type_name == f"{type(value).__module__}:{type(value).__name__}"
    assert type(value).__name__ in repr(JsonPlusSerializer(opaque=True).loads_typed(stored))


def extension(code: int, *parts: Any) -> tuple[str, bytes]:
    content = peer.dumps_typed(list(parts))[1]
    return "msgpack", b"\xc8" + len(content).to_bytes(2, "big") + bytes((code,)) + content


@pytest.mark.parametrize(
    "stored",
    [
        extension(0, "builtins", "eval", "1"),
        extension(0, "os", "system", "true"),
        extension(1, "subprocess", "Popen", [["true"]]),
        extension(1, "pathlib", "open", ["/etc/passwd"]),
        extension(2, "subprocess", "run", {"args": "true"}),
        extension(3, "datetime", "datetime", "2020-01-01", "strptime"),
        extension(3, "os", "environ", "HOME", "get"),
        extension(5, "os", "system", {"command": "true"}, "model_validate_json"),
        extension(0, t.__name__, "Point", 1),
        extension(1, t.__name__, "Plain", [1]),
        extension(5, t.__name__, "MyDict", {"a": 1}),
        extension(2, t.__name__, "Point", [1, 2]),
        extension(6, "O", [1], "C", b"12345678"),
    ],
    ids=lambda stored: stored[1][4:40].decode("latin-1"),
)
def test_the_peers_extensions_call_nothing_by_name(reader: JsonPlusSerializer, stored: Any) -> None:
    if stored[1][3] == 3 and b"strptime" in stored[1]:
        # The method is not looked at: the value is what the type alone says.
        assert reader.loads_typed(stored) == dt.datetime(2020, 1, 1)
        return
    with pytest.raises(SerializationError):
        reader.loads_typed(stored)


def test_the_old_json_form_is_plain_data(reader: JsonPlusSerializer) -> None:
    constructor = {"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["true"], "kwargs": {}}
    assert reader.loads_typed(("json", json.dumps({"a": [constructor]}).encode())) == {"a": [constructor]}
    for damaged in (b"{", b"[" * 100_000, b"\xff", b"9" * 10_000):
        with pytest.raises(SerializationError):
            reader.loads_typed(("json", damaged))


def test_a_delta_snapshot_is_told_from_a_value(reader: JsonPlusSerializer) -> None:
    assert reader.loads_typed(("msgpack", b"\xd6\x07\x92\x01\xa1a")) == DeltaSnapshot([1, "a"])


def test_two_classes_with_one_bare_name_are_not_guessed_between() -> None:
    class Other:
        Nested = type("Nested", (), {"__module__": t.__name__, "__qualname__": "Other.Nested"})

    serde = JsonPlusSerializer().with_types([t.Outer.Nested, Other.Nested])
    with pytest.raises(SerializationError, match="several classes named Nested"):
        serde.loads_typed(peer.dumps_typed([t.Outer.Nested(1)]))
