"""What cannot be kept is refused when it is written, with the path to the part that is to blame."""

from __future__ import annotations

import collections
import io
import sys
import threading
from typing import Any

import pydantic
import pytest
from langchain_core.messages import AIMessage

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Codec
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.known import KnownTypes
from threadmark.errors import SerializationError, StoredError, UnknownTypeError

from . import sample_types as t


def fn() -> None:
    """Stand for anything that is code."""


def refused(serde: JsonPlusSerializer, value: Any) -> SerializationError:
    with pytest.raises(SerializationError) as caught:
        serde.dumps_typed(value)
    return caught.value


@pytest.mark.parametrize(
    "value",
    [
        fn, len, sys, threading.Lock(), io.StringIO(), open, (x for x in ()), fn.__code__, {}.keys(),
        memoryview(b"x"), object.__init__, type(sys)("m"), slice(fn), collections.defaultdict(fn),
        collections.ChainMap(), io.BytesIO, super(t.Point, t.Point(1)), object(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_no_data_is_refused_wherever_it_stands(serde: JsonPlusSerializer, value: Any) -> None:
    for nested in (value, [value], {"k": value}, t.Point(value), (value,), t.Model(a=value)):
        refused(serde, nested)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([1, {"a": [fn]}], "[1]['a'][0]"),
        ([0, 0, 0, {"tool_calls": [{"args": {"fn": fn}}]}], "[3]['tool_calls'][0]['args']['fn']"),
        ({1: {(2, 3): fn}}, "[1][(2, 3)]"),
        ([t.Point(1, t.Slotted(fn))], "[0].y.a"),
        (t.Pair(1, t.Attrs(1, fn)), "[1]._b"),
        (t.Model(a=[t.OpenModel(a=1, more=fn)]), ".a[0].more"),
        (collections.defaultdict(fn, {"a": 1}), ".default_factory"),
        (collections.deque([1, fn]), "[1]"),
        (t.MyDict(k=fn), "['k']"),
        ([ValueError("x", fn)], "[0].args[1]"),
        ({"k" * 50: fn}, "['" + "k" * 36 + "...]"),
        ({"ok": "\ud800", "n": 2**80, "bad": [fn]}, "['bad'][0]"),
        ([bytearray(b"x"), fn], "[1]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_error_says_where(serde: JsonPlusSerializer, value: Any, path: str) -> None:
    error = refused(serde, value)
    assert error.path == path
    assert f"(at value{path})" in str(error)


def test_a_private_attribute_of_a_model_is_found(serde: JsonPlusSerializer) -> None:
    value = t.Model()
    value._secret = {"lock": threading.Lock()}
    assert refused(serde, [value]).path == "[0]._secret['lock']"


def test_a_message_is_walked_like_a_program_would(serde: JsonPlusSerializer) -> None:
    message = AIMessage("", tool_calls=[{"name": "f", "args": {"fn": fn}, "id": "1"}])
    assert refused(serde, [0, message]).path == "[1].tool_calls[0]['args']['fn']"


def test_items_are_refused_with_their_place_in_the_list(serde: JsonPlusSerializer) -> None:
    with pytest.raises(SerializationError) as caught:
        serde.dumps_items([1, {"a": fn}])
    assert caught.value.path == "[1]['a']"


def test_a_saver_adds_channel_and_node(serde: JsonPlusSerializer) -> None:
    error = refused(serde, [fn]).at(channel="messages", node="agent")
    assert (error.channel, error.node, error.path) == ("messages", "agent", "[0]")
    assert str(error).endswith("(channel 'messages', written by node 'agent', at messages[0])")


def test_a_type_that_could_not_be_read_back_is_refused_with_the_line_to_write() -> None:
    error = refused(JsonPlusSerializer(), {"p": [t.Point(1)]})
    assert isinstance(error, UnknownTypeError)
    assert error.type_name == f"{t.__name__}:Point"
    assert f"serde.allow('{t.__name__}:Point')" in str(error)
    assert error.path == "['p'][0]"


def test_two_classes_of_one_name_are_not_mistaken_for_each_other() -> None:
    def make() -> type:
        class Local:
            pass

        return Local

    one, two = make(), make()
    serde = JsonPlusSerializer().allow(one)
    assert type(serde.loads_typed(serde.dumps_typed(one()))) is one
    refused(serde, two())


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


@pytest.mark.parametrize(
    "make", [lambda v: [v], lambda v: {"k": v}, lambda v: {0: v}, lambda v: t.Point(v), lambda v: (v,)]
)
def test_too_deep_and_endless_values_are_refused(serde: JsonPlusSerializer, make: Any) -> None:
    value: Any = 1
    for _ in range(5000):
        value = make(value)
    assert "nest" in refused(serde, value).message
    endless: Any = [1]
    endless.append(make(endless))
    assert "contains itself" in refused(serde, endless).message
    while not isinstance(value, int):
        # Python's own way to free it would be as deep.
        value = next(iter(vars(value).values() if isinstance(value, t.Point) else _parts(value)))


def test_lists_between_objects_do_not_add_up_without_bound(serde: JsonPlusSerializer) -> None:
    value: Any = None
    for _ in range(wire.MAX_OBJECT_DEPTH - 1):
        for _ in range(200):
            value = [value]
        value = t.Point(value)
    assert "nest" in refused(serde, value).message


def test_an_exception_that_is_written_in_c_is_refused_inside_a_value() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        t.FrozenModel(a="x")
    serde = JsonPlusSerializer().allow(pydantic.ValidationError)
    assert "cannot be kept" in str(refused(serde, [caught.value]))
    assert "FrozenModel" in serde.loads_typed(serde.dumps_typed(caught.value)).text


def test_a_class_with_its_own_idea_of_its_state_is_refused() -> None:
    class Own:
        def __getstate__(self) -> Any:
            return 1

    error = refused(JsonPlusSerializer().allow(Own), Own())
    assert "cannot be kept" in str(error)


def test_a_model_that_lacks_a_field_or_has_one_too_many_is_refused(serde: JsonPlusSerializer) -> None:
    lacking = t.Model()
    del lacking.__dict__["a"]
    assert "no value" in str(refused(serde, lacking))
    extended = t.Model()
    extended.__dict__["other"] = 1
    assert "not a field" in str(refused(serde, extended))


def test_many_keys_of_one_hash_are_refused_both_ways(serde: JsonPlusSerializer) -> None:
    same_hash = [n * (2**61 - 1) for n in range(2**16, 2**16 + 20_000)]
    assert "hash" in str(refused(serde, set(same_hash[:200])))
    encoded = serde.dumps_items(same_hash)
    assert encoded is not None
    content = wire.array(encoded)
    hostile = b"\xc9" + len(content).to_bytes(4, "big") + bytes((wire.SET,)) + content
    with pytest.raises(SerializationError, match="hash"):
        serde.loads_typed(("msgpack", hostile))


def test_a_failure_is_recorded_even_if_it_cannot_be_kept() -> None:
    serde = JsonPlusSerializer()
    for error in (t.MyError(7), ValueError("x", fn)):
        stored = serde.dumps_typed(error)
        record = serde.loads_typed(stored)
        assert isinstance(record, StoredError)
        assert (record.type_name.endswith(type(error).__name__), record.text) == (True, str(error))
        assert serde.dumps_typed(record) == stored
    assert refused(serde, [t.MyError(7)]), "inside a value it is a value like any other"


def test_an_interrupt_from_the_keyboard_is_not_swallowed() -> None:
    def interrupted(value: Any, level: Any) -> Any:
        raise KeyboardInterrupt

    codec = Codec(KnownTypes(), {set: interrupted}, {16: interrupted}, lambda cls, known: interrupted, {})
    with pytest.raises(KeyboardInterrupt):
        codec.top.pack([{1}])
    with pytest.raises(KeyboardInterrupt):
        codec.top.unpack(b"\x91\xd4\x10\x00")
