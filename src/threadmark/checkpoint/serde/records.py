"""Instances of dataclasses, attrs classes and plain classes.

Stored as the class's name and its fields by name, so that a class may gain and lose fields. Rebuilding
fills an empty object: neither `__init__` nor `__post_init__` runs, and `init=False` fields come back.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Encoder, Level
from threadmark.checkpoint.serde.known import type_name
from threadmark.checkpoint.serde.layout import CACHED_HASH, NO_DEFAULT, Layout, layout_of
from threadmark.errors import SerializationError

__all__ = [
    "missing_field",
    "record_builder",
    "record_encoder",
    "record_from_fields",
    "set_attributes",
    "state_of",
]

_new = object.__new__
_set = object.__setattr__


def record_encoder(cls: type) -> Encoder:
    """Return the encoder of a class's instances."""
    name = type_name(cls)
    layout = layout_of(cls)
    simple, slotted = _only_dict(layout), _only_slots(layout)
    get_slots = attrgetter(*slotted) if slotted and len(slotted) > 1 else None

    def encode(value: Any, level: Level) -> Ext:
        if simple and tuple(value.__dict__) == simple:
            return Ext(wire.RECORD, level.pack([name, value.__dict__]))
        if get_slots is not None:
            try:
                values = get_slots(value)
            except AttributeError:
                pass  # A slot is empty.
            else:
                fields = dict(zip(slotted or (), values, strict=True))
                return Ext(wire.RECORD, level.pack([name, fields]))
        fields, others = state_of(value, layout)
        return Ext(wire.RECORD, level.pack([name, fields, others] if others else [name, fields]))

    return encode


def _only_dict(layout: Layout) -> tuple[str, ...] | None:
    """Return the fields of a class whose instances hold them all, and nothing else, in their dictionary."""
    return layout.fields if layout.has_dict and not layout.slots else None


def _only_slots(layout: Layout) -> tuple[str, ...] | None:
    """Return the fields of a class whose instances have a slot for each, and no dictionary."""
    if layout.has_dict or layout.fields not in (None, layout.slots):
        return None
    return layout.slots


def state_of(value: Any, layout: Layout) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an object's declared fields and its other attributes."""
    found = {name: getattr(value, name) for name in layout.slots if hasattr(value, name)}
    if layout.has_dict:
        found.update(
            (name, content) for name, content in value.__dict__.items() if name not in layout.derived
        )
    if CACHED_HASH in found:
        found[CACHED_HASH] = None
    if layout.fields is None:
        return found, {}
    fields = {name: getattr(value, name) for name in layout.fields if hasattr(value, name)}
    return fields, {name: content for name, content in found.items() if name not in fields}


def record_builder(cls: type) -> Callable[[list[Any]], Any]:
    """Return what rebuilds an instance from `[name, fields]` or `[name, fields, others]`."""
    layout = layout_of(cls)
    simple, slotted = _only_dict(layout), _only_slots(layout)
    set_dict = _dict_setter(cls) if simple else None

    def build(parts: list[Any]) -> Any:
        fields = parts[1]
        if set_dict is not None and len(parts) == 2 and tuple(fields) == simple:
            value: Any = _new(cls)
            set_dict(value, fields)
            return value
        if slotted and len(parts) == 2 and tuple(fields) == slotted:
            value = _new(cls)
            set_attributes(value, fields)
            return value
        return _fill(cls, layout, fields, parts[2] if len(parts) > 2 else {})

    return build


def _dict_setter(cls: type) -> Callable[[Any, Any], None]:
    """Return what replaces an instance dictionary, past what the class does when an attribute is set."""
    slot: Any = next(vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base))
    setter: Callable[[Any, Any], None] = slot.__set__
    return setter


def record_from_fields(cls: type, fields: dict[str, Any]) -> Any:
    """Rebuild an instance from its fields alone."""
    return _fill(cls, layout_of(cls), fields, {})


def _fill(cls: type, layout: Layout, fields: dict[str, Any], others: dict[str, Any]) -> Any:
    state = fields if layout.fields is None else _evolved(cls, layout, fields)
    value: Any = _new(cls)
    set_attributes(value, others)
    set_attributes(value, state)
    return value


def set_attributes(value: Any, state: dict[str, Any]) -> None:
    """Set attributes past whatever the class does when one is set."""
    for name, content in state.items():
        _set(value, name, content)


def _evolved(cls: type, layout: Layout, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the class has today: stored ones, and defaults for those it gained."""
    state = {}
    for name in layout.fields or ():
        if name in fields:
            state[name] = fields[name]
            continue
        default = layout.defaults[name]()
        if default is not NO_DEFAULT:
            state[name] = default
        elif name not in layout.optional:
            raise missing_field(cls, name)
    return state


def missing_field(cls: type, name: str) -> SerializationError:
    """Return the error for a field that older data lacks."""
    return SerializationError(
        f"{type_name(cls)} has a field {name!r} that the stored data lacks. Give it a default"
    )
