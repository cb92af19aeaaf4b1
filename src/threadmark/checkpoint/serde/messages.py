"""LangChain's messages, in a compact form: only what differs from the format's own defaults.

The defaults are part of the format, not taken from the installed library, so that what is left out
comes back as it was even when a later version of the library has other defaults. A message that does
not fit (another set of fields, private attributes, extra fields) is stored as the model it is. The
library is never imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Codec, Decoder, Encoder, Level
from threadmark.checkpoint.serde.known import type_name
from threadmark.checkpoint.serde.models import evolved, model_encoder, setters
from threadmark.errors import SerializationError

__all__ = ["DECODERS", "KINDS", "fields_of", "message_encoder"]

_REQUIRED = object()
_BASE: dict[str, Any] = {
    "content": _REQUIRED, "additional_kwargs": {}, "response_metadata": {}, "type": None,
    "name": None, "id": None,
}  # fmt: skip
_AI: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None}
_AI_CHUNK: dict[str, Any] = {**_AI, "tool_call_chunks": [], "chunk_position": None}
_TOOL: dict[str, Any] = {"tool_call_id": _REQUIRED, "artifact": None, "status": "success"}
_ROLE: dict[str, Any] = {"role": _REQUIRED}


def _kind(name: str, kind: str, more: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return f"langchain_core.messages.{name}", {**_BASE, "type": kind, **more}


KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    _kind("human:HumanMessage", "human", {}),
    _kind("human:HumanMessageChunk", "HumanMessageChunk", {}),
    _kind("ai:AIMessage", "ai", _AI),
    _kind("ai:AIMessageChunk", "AIMessageChunk", _AI_CHUNK),
    _kind("system:SystemMessage", "system", {}),
    _kind("system:SystemMessageChunk", "SystemMessageChunk", {}),
    _kind("tool:ToolMessage", "tool", _TOOL),
    _kind("tool:ToolMessageChunk", "ToolMessageChunk", _TOOL),
    _kind("function:FunctionMessage", "function", {}),
    _kind("function:FunctionMessageChunk", "FunctionMessageChunk", {}),
    _kind("chat:ChatMessage", "chat", _ROLE),
    _kind("chat:ChatMessageChunk", "ChatMessageChunk", _ROLE),
    _kind("modifier:RemoveMessage", "remove", {}),
)
"""By kind number: the class, and its fields with their defaults, in the order of their numbers."""
_NUMBERS = {name: number for number, (name, _) in enumerate(KINDS)}
_CONTENT, _ID = 0, 5
_new = object.__new__


def message_encoder(cls: type) -> Encoder | None:
    """Return the compact encoder of a message class, or `None` when the class is no such message."""
    number = _NUMBERS.get(type_name(cls))
    if number is None:
        return None
    fields = KINDS[number][1]
    as_model = model_encoder(cls)
    if tuple(cls.__pydantic_fields__) != tuple(fields):  # type: ignore[attr-defined]
        return as_model
    bits = {name: 1 << place for place, name in enumerate(fields)}
    others = [
        (place, name, default, type(default))
        for place, (name, default) in enumerate(fields.items())
        if place not in (_CONTENT, _ID)
    ]
    count = len(fields)

    def encode(value: Any, level: Level) -> Ext:
        state = value.__dict__
        try:
            parts = [number, 0, state["content"], state["id"]]
            given = 0
            for name in value.__pydantic_fields_set__:
                given |= bits[name]
            parts[1] = given
            for place, name, default, kind in others:
                item = state[name]
                if item is not default and (type(item) is not kind or item != default):
                    parts += place, item
        except KeyError:
            return as_model(value, level)
        if len(state) != count or value.__pydantic_extra__ != {} or value.__pydantic_private__:
            return as_model(value, level)
        return Ext(wire.MESSAGE, level.pack(parts))

    return encode


def fields_of(parts: list[Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a stored message's class, and its fields."""
    number, _, content, identity, *others = parts
    name, defaults = KINDS[number]
    names = list(defaults)
    fields = {key: type(value)() if value in ({}, []) else value for key, value in defaults.items()}
    fields["content"], fields["id"] = content, identity
    for place, item in zip(others[::2], others[1::2], strict=True):
        fields[names[place]] = item
    return name, fields


def _decode_message(data: bytes, level: Level) -> Any:
    parts = level.unpack(data)
    builders = level.codec.builders
    build = builders.get((wire.MESSAGE, parts[0])) or _message_builder(level.codec, parts[0])
    return build(parts)


def _message_builder(codec: Codec, number: Any) -> Callable[[list[Any]], Any]:
    if type(number) is not int or not 0 <= number < len(KINDS):
        raise SerializationError(f"Stored data holds a message of an unknown kind, {number!r}")
    name, defaults = KINDS[number]
    cls: Any = codec.known.find(name)
    builder = _builder(cls, defaults)
    codec.builders[wire.MESSAGE, number] = builder
    return builder


def _builder(cls: Any, defaults: dict[str, Any]) -> Callable[[list[Any]], Any]:
    set_fields, set_given, set_extra, set_private = setters()
    names = list(defaults)
    template = dict(defaults)
    lists = [key for key, value in defaults.items() if value == []]
    given_by_bits: dict[int, set[str]] = {}
    same_fields = cls.__pydantic_fields__.keys() == defaults.keys()

    def build(parts: list[Any]) -> Any:
        fields = template.copy()
        fields["content"] = parts[2]
        fields["additional_kwargs"] = {}
        fields["response_metadata"] = {}
        fields["id"] = parts[3]
        for key in lists:
            fields[key] = []
        if len(parts) > 4:
            for place, item in zip(parts[4::2], parts[5::2], strict=True):
                fields[names[place]] = item
        bits = parts[1]
        given = given_by_bits.get(bits)
        if given is None:
            given = given_by_bits[bits] = _names(names, bits)
        value = _new(cls)
        set_fields(value, fields if same_fields else evolved(cls, fields))
        set_given(value, given.copy())
        set_extra(value, {})
        set_private(value, None)
        return value

    return build


def _names(names: list[str], bits: int) -> set[str]:
    if bits >> len(names):
        raise SerializationError("A stored message has more fields than its kind")
    return {name for place, name in enumerate(names) if bits >> place & 1}


DECODERS: dict[int, Decoder] = {wire.MESSAGE: _decode_message}
