"""LangChain's messages, in a compact form: only what differs from the format's own defaults.

The defaults are part of the format and not taken from the installed library, so that what was left
out comes back as it was even where another version of the library has other defaults. A message that
does not fit the table (other fields, private attributes, extra fields) is stored as the model that it
is. The library is never imported here.
"""

from __future__ import annotations

from typing import Any

import ormsgpack
from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Builder, Decoder, Encoder, FindBuilder, Level, building
from threadmark.checkpoint.serde.known import KnownTypes, type_name
from threadmark.checkpoint.serde.models import evolved, model_encoder, setters
from threadmark.errors import SerializationError

__all__ = ["DECODERS", "FIND_BUILDERS", "KINDS", "message_encoder", "message_fields"]

_REQUIRED = object()
_BASE: dict[str, Any] = {
    "content": _REQUIRED, "additional_kwargs": {}, "response_metadata": {}, "type": "", "name": None,
    "id": None,
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
"""By kind number: the class, and its fields with their defaults in the order of their numbers."""

_NUMBERS = {name: number for number, (name, _) in enumerate(KINDS)}
_USUAL = {"content", "id"}
"""The fields that are given most often."""
_TEXT_OR_NONE = (str, type(None))
_packb = ormsgpack.packb
_new = object.__new__


def message_encoder(cls: Any) -> Encoder | None:
    """Return the compact encoder of a message class, or `None` when the class is no such message."""
    number = _NUMBERS.get(type_name(cls))
    if number is None or tuple(cls.__pydantic_fields__) != tuple(KINDS[number][1]):
        return None
    fields = KINDS[number][1]
    as_model = model_encoder(cls)
    bits = {name: 1 << place for place, name in enumerate(fields)}
    usual = bits["content"] | bits["id"]
    count = len(fields)
    kind = fields["type"]
    more = [
        (place, name, default, type(default))
        for place, (name, default) in enumerate(fields.items())
        if name not in _BASE
    ]

    def encode(value: Any, level: Level) -> Ext:
        state = value.__dict__
        names = value.__pydantic_fields_set__
        given = usual
        try:
            if names != _USUAL:
                given = 0
                for name in names:
                    given |= bits[name]
            content = state["content"]
            identity = state["id"]
            parts = [number, given, content, identity]
            if (item := state["additional_kwargs"]) or item.__class__ is not dict:
                parts += 1, item
            if (item := state["response_metadata"]) or item.__class__ is not dict:
                parts += 2, item
            if (item := state["type"]) is not kind:
                parts += 3, item
            if (item := state["name"]) is not None:
                parts += 4, item
            for place, name, default, empty in more:
                item = state[name]
                if item is not default and (item or item.__class__ is not empty):
                    parts += place, item
        except KeyError:
            return as_model(value, level)
        extra = value.__pydantic_extra__
        if len(state) != count or extra or extra is None or value.__pydantic_private__:
            return as_model(value, level)
        if len(parts) == 4 and content.__class__ is str and identity.__class__ in _TEXT_OR_NONE:
            try:
                return Ext(wire.MESSAGE, _packb(parts))
            except TypeError:
                pass  # The text has lone surrogates.
        return Ext(wire.MESSAGE, level.pack(parts))

    return encode


def message_fields(parts: list[Any]) -> tuple[str, dict[str, Any]]:
    """Return the class name and the fields of a message that was stored as `parts`.

    Raises:
        SerializationError: There is no such kind of message.
    """
    name, defaults = _kind_of(parts[0])
    fields = {key: [] if default == [] else default for key, default in defaults.items()}
    fields.update(content=parts[2], additional_kwargs={}, response_metadata={}, id=parts[3])
    _set_others(fields, list(fields), parts)
    return name, fields


def _kind_of(number: Any) -> tuple[str, dict[str, Any]]:
    if type(number) is not int or not 0 <= number < len(KINDS):
        raise SerializationError(f"Stored data holds a message of an unknown kind, {number!r}")
    return KINDS[number]


def _set_others(fields: dict[str, Any], names: list[str], parts: list[Any]) -> None:
    for place, item in zip(parts[4::2], parts[5::2], strict=True):
        fields[names[place]] = item


def _find_builder(known: KnownTypes, number: Any) -> Builder:
    """Return what rebuilds messages of a kind.

    Raises:
        UnknownTypeError: The program has not loaded the class.
        SerializationError: There is no such kind.
    """
    name, defaults = _kind_of(number)
    cls: Any = known.find(name)
    names = list(defaults)
    lists = [key for key, default in defaults.items() if default == []]
    same_fields = cls.__pydantic_fields__.keys() == defaults.keys()
    set_fields, set_given, set_extra, set_private = setters()
    givens: dict[int, set[str]] = {}

    def build(parts: list[Any]) -> Any:
        fields = defaults.copy()
        fields["content"] = parts[2]
        fields["additional_kwargs"] = {}
        fields["response_metadata"] = {}
        fields["id"] = parts[3]
        for key in lists:
            fields[key] = []
        if len(parts) > 4:
            _set_others(fields, names, parts)
        given = givens.get(parts[1])
        if given is None:
            given = givens[parts[1]] = _given(names, parts[1])
        value = _new(cls)
        set_fields(value, fields if same_fields else evolved(cls, fields))
        set_given(value, given.copy())
        set_extra(value, {})
        set_private(value, None)
        return value

    return build


def _given(names: list[str], bits: int) -> set[str]:
    """Return the fields that were given when a message was made."""
    if bits >> len(names):
        raise SerializationError("A stored message has more fields than its kind")
    return {name for place, name in enumerate(names) if bits >> place & 1}


DECODERS: dict[int, Decoder] = {wire.MESSAGE: building(wire.MESSAGE)}
FIND_BUILDERS: dict[int, FindBuilder] = {wire.MESSAGE: _find_builder}
