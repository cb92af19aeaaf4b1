"""LangChain's messages come back field by field, and cost little more than their text."""

from __future__ import annotations

import collections
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.messages import KINDS

serde = JsonPlusSerializer()

json_like = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
content = st.text(st.characters(exclude_categories=())) | st.lists(
    st.text() | st.dictionaries(st.text(), json_like), max_size=3
)
maps = st.dictionaries(st.text(max_size=5), json_like, max_size=3)
base = {"content": content}
extra = {
    "id": st.none() | st.uuids().map(str) | st.text(),
    "name": st.none() | st.text(),
    "additional_kwargs": maps,
    "response_metadata": maps,
}
tool_calls = st.lists(
    st.fixed_dictionaries({"name": st.text(), "args": maps, "id": st.none() | st.text()}), max_size=2
)
usage = st.fixed_dictionaries(
    {key: st.integers(0, 10**6) for key in ("input_tokens", "output_tokens", "total_tokens")}
)


def build(cls: type, required: dict[str, Any] | None = None, **optional: Any) -> st.SearchStrategy[Any]:
    needed = {**base, **(required or {})}
    more = {name: strategy for name, strategy in {**extra, **optional}.items() if name not in needed}
    return st.fixed_dictionaries(needed, optional=more).map(lambda fields: cls(**fields))


tool = {"tool_call_id": st.text()}
status = {"artifact": json_like, "status": st.sampled_from(["success", "error"])}
messages = st.one_of(
    build(HumanMessage), build(HumanMessageChunk), build(SystemMessage), build(SystemMessageChunk),
    build(AIMessage, tool_calls=tool_calls, usage_metadata=usage),
    build(AIMessageChunk, usage_metadata=usage), build(ToolMessage, tool, **status),
    build(ToolMessageChunk, tool, **status), build(FunctionMessage, {"name": st.text()}),
    build(FunctionMessageChunk, {"name": st.text()}), build(ChatMessage, {"role": st.text()}),
    build(ChatMessageChunk, {"role": st.text()}), st.text().map(lambda identity: RemoveMessage(id=identity)),
)  # fmt: skip


def assert_same(loaded: Any, message: Any) -> None:
    assert type(loaded) is type(message)
    assert loaded == message
    assert repr(loaded) == repr(message)
    assert loaded.__dict__ == message.__dict__
    assert loaded.model_fields_set == message.model_fields_set
    assert loaded.__pydantic_extra__ == message.__pydantic_extra__
    assert loaded.__pydantic_private__ == message.__pydantic_private__


@settings(max_examples=400, deadline=None)
@given(message=messages)
def test_a_message_comes_back_with_every_field(message: BaseMessage) -> None:
    assert_same(serde.loads_typed(serde.dumps_typed([message]))[0], message)
    assert_same(serde.loads_typed(serde.dumps_typed(message)), message)


def test_every_kind_fits_the_installed_library() -> None:
    """Where it does not, messages are still kept, but take the room of a model."""
    import langchain_core.messages as library

    for name, fields in KINDS:
        cls = getattr(library, name.rpartition(":")[2], None) or _from_modules(name)
        assert tuple(cls.model_fields) == tuple(fields), name


def _from_modules(name: str) -> Any:
    import importlib

    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("cls", [HumanMessage, AIMessage])
def test_a_message_costs_little_more_than_its_text(cls: Any) -> None:
    text = "x" * 275
    identity = str(uuid.uuid4())
    size = len(serde.dumps_typed(cls(text, id=identity))[1])
    assert size - len(text) - len(identity) <= 16


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.additional_kwargs.update(fn=(1, 2)),
        lambda message: setattr(message, "additional_kwargs", collections.OrderedDict()),
        lambda message: setattr(message, "response_metadata", collections.defaultdict(list)),
        lambda message: setattr(message, "custom", {"k": {1}}),
        lambda message: message.__dict__.update(type="other"),
        lambda message: message.__dict__.update(content=None),
        lambda message: message.__pydantic_fields_set__.update(message.__dict__),
        lambda message: message.__pydantic_fields_set__.clear(),
        lambda message: object.__setattr__(message, "__pydantic_extra__", None),
        lambda message: object.__setattr__(message, "__pydantic_private__", {"_p": 1}),
    ],
)
@pytest.mark.parametrize("make", [HumanMessage, AIMessage, lambda text: ToolMessage(text, tool_call_id="1")])
def test_an_unusual_message_is_kept_as_it_is(make: Any, change: Any) -> None:
    message = make("text")
    change(message)
    loaded = serde.loads_typed(serde.dumps_typed([message]))[0]
    assert_same(loaded, message)
    for name in ("additional_kwargs", "response_metadata"):
        assert type(getattr(loaded, name)) is type(getattr(message, name))


def test_mutable_defaults_are_not_shared() -> None:
    one, two = serde.loads_typed(serde.dumps_typed([AIMessage("a"), AIMessage("b")]))
    one.additional_kwargs["k"] = 1
    one.tool_calls.append({"name": "f", "args": {}, "id": "1"})
    one.model_fields_set.add("name")
    assert (two.additional_kwargs, two.tool_calls, two.model_fields_set) == ({}, [], {"content"})


def test_a_subclass_of_a_message_is_a_type_of_its_own() -> None:
    class Special(HumanMessage):
        priority: int = 1

    known = JsonPlusSerializer().allow(Special)
    message = Special(content="x", priority=3)
    assert_same(known.loads_typed(known.dumps_typed(message)), message)


def test_documents_are_built_in() -> None:
    document = Document("page", metadata={"source": (1, 2)}, id="d")
    assert_same(serde.loads_typed(serde.dumps_typed([document]))[0], document)
