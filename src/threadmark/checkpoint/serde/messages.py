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
from threadmark.checkpoint.serde.codec import Codec, Decoder, Encoder, Level
from threadmark.checkpoint.serde.known import type_name
from threadmark.checkpoint.serde.models import evolved, model_encoder, setters
from threadmark.errors import SerializationError

__all__ = ["DECODERS", "KINDS", "message_encoder", "message_fields"]

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
    kind = fields["type"]
    more = [
        (place, name, default, type(default))
        for place, (name, default) in enumerate(fields.items())
        if name not in _BASE
    ]

    def encode(value: Any, level: Level) -> Ext:
        state = value.__dict__
        given = 0
        try:
            for name in value.__pydantic_fields_set__:
                given |= bits[name]
            content, identity = state["content"], state["id"]
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
        if len(state) != len(bits) or extra or extra is None or value.__pydantic_private__:
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
    kind = _Kind(parts[0])
    return kind.name, kind.fields(parts)


class _Kind:
    """What is needed to rebuild messages of one kind."""

    __slots__ = ("cls", "given", "lists", "name", "names", "same_fields", "setters", "template")

    def __init__(self, number: Any) -> None:
        if type(number) is not int or not 0 <= number < len(KINDS):
            raise SerializationError(f"Stored data holds a message of an unknown kind, {number!r}")
        self.name, fields = KINDS[number]
        self.names = list(fields)
        self.template = fields
        self.lists = [name for name, default in fields.items() if default == []]
        self.given: dict[int, set[str]] = {}
        self.cls: Any = None
        self.same_fields = False
        self.setters: Any = None

    def known(self, codec: Codec) -> _Kind:
        """Look up the class.

        Raises:
            UnknownTypeError: The program has not loaded it.
        """
        self.cls = codec.known.find(self.name)
        self.same_fields = self.cls.__pydantic_fields__.keys() == self.template.keys()
        self.setters = setters()
        return self

    def fields(self, parts: list[Any]) -> dict[str, Any]:
        """Return all fields of a message."""
        fields = self.template.copy()
        fields["content"] = parts[2]
        fields["additional_kwargs"] = {}
        fields["response_metadata"] = {}
        fields["id"] = parts[3]
        for name in self.lists:
            fields[name] = []
        if len(parts) > 4:
            for place, item in zip(parts[4::2], parts[5::2], strict=True):
                fields[self.names[place]] = item
        return fields

    def names_given(self, bits: int) -> set[str]:
        """Return the fields that were given when the message was made."""
        if bits >> len(self.names):
            raise SerializationError("A stored message has more fields than its kind")
        given = {name for place, name in enumerate(self.names) if bits >> place & 1}
        self.given[bits] = given
        return given


def _decode_message(data: bytes, level: Level) -> Any:
    parts = level.unpack(data)
    kind = level.found.get(parts[0])
    if kind is None:
        kind = level.found[parts[0]] = _Kind(parts[0]).known(level.codec)
    fields = kind.fields(parts)
    given = kind.given.get(parts[1]) or kind.names_given(parts[1])
    set_fields, set_given, set_extra, set_private = kind.setters
    value = _new(kind.cls)
    set_fields(value, fields if kind.same_fields else evolved(kind.cls, fields))
    set_given(value, given.copy())
    set_extra(value, {})
    set_private(value, None)
    return value


DECODERS: dict[int, Decoder] = {wire.MESSAGE: _decode_message}
