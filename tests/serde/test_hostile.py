"""Any bytes give a value of a known type or our own error: no code runs, memory and time are bounded."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import threading
import tracemalloc
from typing import Any

import pandas
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer as PeerSerializer

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.nesting import check_nesting
from threadmark.errors import SerializationError

from . import sample_types as t
from .values import anything, arrays

CORPUS = pathlib.Path(__file__).parent / "corpus"

serde = JsonPlusSerializer().with_types(t.ALL)
viewer = JsonPlusSerializer(opaque=True)
peer = PeerSerializer()


def read(data: bytes) -> None:
    """Decode, look, and encode again: nothing but our errors may come out."""
    for reader in (serde, viewer):
        with contextlib.suppress(SerializationError):
            value = reader.loads_typed(("msgpack", data))
            with contextlib.suppress(ValueError, AttributeError):
                # Python refuses to print integers of many digits, and an object whose field was never set.
                repr(value)
            reader.dumps_typed(value)


def extension(code: int, content: bytes) -> bytes:
    return b"\xc9" + len(content).to_bytes(4, "big") + bytes((code,)) + content


messages = st.sampled_from(
    [
        HumanMessage("hi", id="1"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"a": (1,)}, "id": "c"}], name="n"),
    ]
)
real = st.one_of(
    (anything | arrays | messages | st.lists(messages)).map(lambda value: serde.dumps_typed([value])[1]),
    st.sampled_from([t.Point(1), t.Color.RED, HumanMessage("x"), {1}, t.Model(a=1)]).map(
        lambda value: peer.dumps_typed([value])[1]
    ),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw real data with some bytes changed, removed, repeated, or moved in from other data."""
    data = bytearray(draw(real))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        until = min(len(data), at + draw(st.integers(0, 8)))
        what = draw(st.sampled_from(["flip", "cut", "repeat", "splice", "head", "code"]))
        if what == "flip" and data:
            data[at] ^= draw(st.integers(1, 255))
        elif what == "cut":
            del data[at:until]
        elif what == "repeat":
            data[at:at] = data[at:until] * draw(st.integers(1, 20))
        elif what == "splice":
            data[at:until] = draw(real)[at:until]
        elif what == "head":
            data[at:at] = bytes((draw(st.integers(0x80, 0xDF)),))
        else:
            data[at:until] = extension(draw(st.integers(0, 60)), bytes(data[at:until]))
    return bytes(data)


@settings(max_examples=1500, deadline=None)
@given(data=damaged())
def test_damaged_data_gives_a_value_or_our_error(data: bytes) -> None:
    read(data)


@settings(max_examples=500, deadline=None)
@given(data=st.binary(max_size=60))
@example(b"")
def test_any_bytes_give_a_value_or_our_error(data: bytes) -> None:
    read(data)


@settings(max_examples=500, deadline=None)
@given(code=st.integers(0, 127), content=real | st.binary(max_size=30))
def test_any_content_of_any_extension_gives_a_value_or_our_error(code: int, content: bytes) -> None:
    read(extension(code, content))


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.bin")), ids=lambda path: path.stem)
def test_the_corpus_gives_values_or_our_error(path: pathlib.Path) -> None:
    read(path.read_bytes())


def test_the_corpus_is_there() -> None:
    assert len(list(CORPUS.glob("*.bin"))) > 50


@settings(max_examples=300, deadline=None)
@given(tag=st.text(max_size=10), data=st.binary(max_size=20))
def test_any_tag_gives_a_value_or_our_error(tag: str, data: bytes) -> None:
    with contextlib.suppress(SerializationError):
        serde.loads_typed((tag, data))


def test_a_pickle_is_read_only_where_that_was_asked_for() -> None:
    frame = pandas.DataFrame({"a": [1, 2]})
    fallback = JsonPlusSerializer(pickle_fallback=True)
    stored = fallback.dumps_typed({"frame": frame})
    assert stored[0] == "pickle"
    for reader in (serde, viewer):
        with pytest.raises(SerializationError, match="pickle_fallback=True"):
            reader.loads_typed(stored)
    assert fallback.loads_typed(stored)["frame"].equals(frame)
    assert fallback.dumps_typed({"a": 1})[0] == "msgpack", "only what needs it is pickled"
    assert fallback.dumps_items([1, frame]) is None
    with pytest.raises(SerializationError):
        fallback.loads_typed(("pickle", b"nonsense"))
    with pytest.raises(SerializationError):
        fallback.dumps_typed([lambda: None])


LYING: dict[str, bytes] = {
    "a billion items": b"\xdd\x3b\x9a\xca\x00" + b"\xc0" * 10,
    "a billion pairs": b"\xdf\x3b\x9a\xca\x00" + b"\xa1a\xc0",
    "four gigabytes of text": b"\xdb\xff\xff\xff\xff" + b"x" * 10,
    "four gigabytes of bytes": b"\xc6\xff\xff\xff\xff" + b"x" * 10,
    "a long extension": b"\xc9\xff\xff\xff\xff\x12" + b"x" * 10,
    "a huge array": extension(wire.ARRAY, serde.dumps_typed(["<f8", [2**40], "C"])[1]),
    "a huge range": extension(wire.RANGE, serde.dumps_typed([0, 2**80, 1])[1]),
    "a huge exponent": extension(wire.DECIMAL, b"1E+999999999999999999"),
    "a fraction to reduce": extension(wire.FRACTION, serde.dumps_typed([2**400_000 + 1, 2**400_000 + 3])[1]),
    "a bounded deque without a bound": extension(wire.DEQUE, serde.dumps_typed([2**62, [1]])[1]),
    "a pattern of patterns": extension(wire.PATTERN, serde.dumps_typed(["(" * 5000, 0])[1]),
    "a pattern that counts": extension(wire.PATTERN, serde.dumps_typed(["(a{65000}){65000}" * 9, 0])[1]),
}


@pytest.mark.parametrize("name", LYING)
def test_data_that_lies_about_its_size_takes_no_memory(name: str) -> None:
    read(b"\x90")
    tracemalloc.start()
    try:
        read(LYING[name])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000


BOMBS: dict[str, bytes] = {
    "nested arrays": b"\x91" * 1_000_000 + b"\xc0",
    "nested maps": b"\x81\xa1a" * 1_000_000 + b"\xc0",
    "a wide tree": (b"\xdd" + (1000).to_bytes(4, "big") + b"\x91" * 1000) * 500,
}


def nested_extensions(depth: int, between: bytes, code: int = wire.TUPLE) -> bytes:
    data = b"\x90"
    for _ in range(depth):
        data = between + extension(code, data)
    return data


@pytest.mark.parametrize(
    "data",
    [
        *BOMBS.values(),
        nested_extensions(5000, b""),
        nested_extensions(90, b"\x91" * 1000),
        nested_extensions(90, b"\x91" * 300),
        nested_extensions(1000, b"\x91" * 100, wire.RECORD),
        nested_extensions(90, b"\x81\xa1a" * 900, wire.SET),
        nested_extensions(90, b"\x91" * 1000, 0),
    ],
    ids=lambda data: f"{len(data)} bytes",
)
def test_deep_data_is_refused_and_the_stack_holds(data: bytes) -> None:
    """In a thread with the usual stack of 8 MB; a crash would take the whole process with it."""
    errors: list[BaseException] = []

    def work() -> None:
        for reader in (serde, viewer):
            try:
                reader.loads_typed(("msgpack", data))
            except SerializationError as error:
                errors.append(error)

    threading.stack_size(8 << 20)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(0)
    assert len(errors) == 2


def test_the_deepest_data_that_is_accepted_needs_half_a_stack() -> None:
    inner = b"\x91" * (wire.MAX_INNER_DEPTH - 2) + b"\xc0"
    data = inner
    for _ in range(wire.CHECKED_DEPTH):
        data = b"\x91" * 1020 + extension(wire.TUPLE, b"\x91" + data)
    program = f"""
import threading
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
def work():
    try:
        JsonPlusSerializer().loads_typed(("msgpack", bytes.fromhex({data.hex()!r})))
    except Exception as error:
        print(type(error).__name__)
threading.stack_size(4 << 20)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("alive")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("alive\n"), done


@settings(max_examples=300, deadline=None)
@given(value=anything)
def test_the_walk_over_the_bytes_accepts_what_is_written(value: Any) -> None:
    check_nesting(serde.dumps_typed([value])[1] + bytes(wire.MAX_INNER_DEPTH))


@pytest.mark.parametrize("depth", [3, 50, 399, 400, 401, 5000])
def test_the_walk_over_the_bytes_counts_levels(depth: int) -> None:
    data = b"\x91" * (depth - 1) + b"\xc0" + b"\xc0" * 1000
    if depth > wire.MAX_INNER_DEPTH:
        with pytest.raises(SerializationError):
            check_nesting(data)
    else:
        check_nesting(data)


def test_the_walk_over_the_bytes_takes_time_in_proportion() -> None:
    """Extensions whose content claims more than it holds must not be walked again and again."""
    data = b"\xdc\xff\xff" + extension(wire.TUPLE, b"\xdd\xff\xff\xff\xff") * 20_000
    steps = 0

    def count(frame: Any, event: str, arg: Any) -> Any:
        nonlocal steps
        steps += event == "call"
        return None

    sys.settrace(count)
    try:
        check_nesting(data)
    finally:
        sys.settrace(None)
    assert steps < 20 * len(data)
