"""docs/format.md describes every byte: a reader written from it alone reads what the serializer writes."""

from __future__ import annotations

import collections
import hmac
import pathlib
import re
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.base import Row
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer, Keys
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.errors import StoredError

from . import sample_types as t
from .reader import READERS, Class, Instance, Raw, message_pack, read
from .same import same
from .values import anything, scalars

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "format.md"
NAME = t.__name__

serde = JsonPlusSerializer().with_types(t.ALL)

of_the_library = scalars.filter(
    lambda value: type(value).__module__ != NAME and not isinstance(value, (type, BaseException))
)
standard = st.recursive(
    of_the_library,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.integers() | st.tuples(st.text()), inner)
        | st.dictionaries(st.text(), inner).map(collections.OrderedDict)
        | st.lists(inner).map(lambda items: collections.deque(items, 9))
        | st.frozensets(st.integers() | st.text())
        | st.sets(st.tuples(st.integers()))
        | st.binary().map(bytearray)
    ),
    max_leaves=10,
)


@settings(max_examples=400, deadline=None)
@given(value=standard)
def test_values_of_the_standard_library_are_read_as_they_were(value: Any) -> None:
    assert same(read(*serde.dumps_typed(value)), value)


@settings(max_examples=300, deadline=None)
@given(value=anything)
def test_everything_that_is_written_is_as_described(value: Any) -> None:
    tag, data = serde.dumps_typed([value])
    _, rest = message_pack(data)
    assert (tag, rest) == ("msgpack", b"")


def parts(value: Any) -> Any:
    found = read(*serde.dumps_typed([value]))[0]
    assert isinstance(found, Instance)
    return [found.name.removeprefix(f"{NAME}:"), *found.parts]


def test_instances_of_classes_are_as_described() -> None:
    assert parts(t.Color.RED) == ["Color", "RED"]
    assert parts(t.Rights(3)) == ["Rights", None, 3]
    assert parts(t.Outer.Inner.A) == ["Outer.Inner", "A"]
    assert parts(t.Point(1, (2,))) == ["Point", {"x": 1, "y": (2,)}]
    assert parts(t.Derived(1)) == ["Derived", {"start": 1, "total": 2, "label": "none"}, {"extra": [1]}]
    assert parts(t.Attrs(1)) == ["Attrs", {"a": 1, "_b": 2}]
    assert parts(t.Plain(1)) == ["Plain", {"a": 1}]
    assert parts(t.Pair(1)) == ["Pair", {"left": 1, "right": None}]
    assert parts(t.MyInt(3)) == ["MyInt", 3]
    assert parts(t.MyDict(a=1)) == ["MyDict", {"a": 1}]
    assert parts(t.MyError(1)) == ["MyError", ["code 1"], {"code": 1}]
    assert parts(StoredError("a:B", "text")) == ["a:B", None, "text"]
    assert parts(t.FrozenModel(a=2)) == ["FrozenModel", {"a": 2}, 1]
    assert parts(t.Model(b=1)) == ["Model", {"a": None, "b": 1}, 2, None, {"_secret": 0}]
    assert parts(t.OpenModel(z=1)) == ["OpenModel", {"a": None}, ["z"], {"z": 1}]
    assert parts(collections.defaultdict(list, a=1))[1:] == [Class("builtins:list"), {"a": 1}]
    assert read(*serde.dumps_typed([t.Point])) == [Class(f"{NAME}:Point")]


def test_arrays_are_as_described() -> None:
    def header(value: Any) -> Raw:
        found = read(*serde.dumps_typed([value]))[0]
        assert isinstance(found, Raw)
        return found

    assert header(np.arange(2, dtype="<i2")) == (50, ["<i2", [2], "C"], b"\0\0\1\0")
    assert header(np.asfortranarray([[1, 2], [3, 4]], "|u1")) == (50, ["|u1", [2, 2], "F"], b"\1\3\2\4")
    assert header(np.array([1, "a"], object)) == (50, ["|O", [2], "C", [1, "a"]], b"")
    assert header(np.float32(1)) == (51, ["<f4", [], "C"], b"\0\0\x80?")
    assert header(np.str_("a\0")) == (51, ["a\0"], b"")
    fields = [["a", "|i1", 0], ["b", {"of": "<i2", "shape": [2]}, 1]]
    structured = np.zeros(1, [("a", "i1"), ("b", "<i2", 2)])
    assert header(structured).header[0] == {"size": 5, "aligned": False, "fields": fields}


def test_messages_are_as_described() -> None:
    call = {"name": "f", "args": {}, "id": "1", "type": "tool_call"}
    message = AIMessage("text", id="i", tool_calls=[call], response_metadata={"model": "m"})
    found = read(*serde.dumps_typed([message, HumanMessage("q"), ToolMessage("t", tool_call_id="1")]))
    fields = {"content": "text", "id": "i", "response_metadata": {"model": "m"}, "tool_calls": [call]}
    assert found[0].name == "langchain_core.messages.ai:AIMessage"
    assert found[0].parts == [fields, message.model_fields_set]
    assert found[1].parts == [{"content": "q", "id": None}, {"content"}]
    assert found[2].parts[0]["tool_call_id"] == "1"


def test_every_code_is_described_and_read() -> None:
    codes = {
        value
        for name, value in vars(wire).items()
        if name.isupper() and type(value) is int and not name.startswith(("MAX_", "CHECKED_", "FIRST_"))
    } - {wire.PACK_OPTIONS, wire.ANY_KEYS}
    described = {int(code) for code in re.findall(r"^\| (\d+) \|", DOCS.read_text(), re.M)}
    assert codes == READERS.keys()
    assert codes <= described
    for limit in (wire.MAX_PLAIN_DEPTH, wire.MAX_OBJECT_DEPTH, wire.MAX_INNER_DEPTH):
        assert str(limit) in DOCS.read_text()


def test_the_envelope_is_as_described() -> None:
    key = bytes(range(32))
    row = Row("value", "thread", "ns", "cp", "ch", "7")
    tag, data = EncryptedSerializer(Keys("k1", {"k1": key})).seal(row, ("msgpack", b"\x91\x01"))
    assert (tag, data[:4]) == ("aes-gcm", b"\x01\x02k1")
    identity = b"\1" + b"".join(len(field).to_bytes(4, "big") + field.encode() for field in row)
    derived = hmac.digest(key, b"threadmark thread key\0thread", "sha256")
    plain = AESGCM(derived).decrypt(data[4:16], data[16:], data[:4] + identity)
    assert plain == b"\x07msgpack\x91\x01"
