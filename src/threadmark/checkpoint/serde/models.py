"""Pydantic models, stored with which fields were set, extra fields and private attributes.

Rebuilding fills an empty model and validates nothing: what was valid when it was written comes back
as it was. Pydantic is never imported; a model can only exist where the program did.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Encoder, Level
from threadmark.checkpoint.serde.known import type_name
from threadmark.checkpoint.serde.layout import layout_of
from threadmark.checkpoint.serde.records import missing_field
from threadmark.errors import SerializationError

__all__ = [
    "base_model",
    "evolved",
    "model_builder",
    "model_encoder",
    "model_from_fields",
    "model_parts",
    "setters",
]

Setter = Callable[[Any, Any], None]
_new = object.__new__
_MAYBE = (dict, type(None))


def base_model() -> Any:
    """Return Pydantic's base class if the program uses it."""
    return getattr(sys.modules.get("pydantic"), "BaseModel", None)


def setters() -> tuple[Setter, Setter, Setter, Setter]:
    """Return what sets a model's fields, names of given fields, extra fields and private attributes."""
    slots = vars(base_model())
    return (
        slots["__dict__"].__set__,
        slots["__pydantic_fields_set__"].__set__,
        slots["__pydantic_extra__"].__set__,
        slots["__pydantic_private__"].__set__,
    )


def model_encoder(cls: Any) -> Encoder:
    """Return the encoder of a model class's instances."""
    name = type_name(cls)

    def encode(value: Any, level: Level) -> Ext:
        return Ext(wire.MODEL, level.pack([name, *model_parts(value)]))

    return encode


def model_parts(value: Any) -> list[Any]:
    """Return a model's fields, given fields, and where there are any, extra and private ones.

    Raises:
        SerializationError: A field has no value, or an attribute is no field.
    """
    cls = type(value)
    names = cls.__pydantic_fields__
    fields = value.__dict__
    if fields.keys() != names.keys():
        fields = _only_fields(cls, fields)
    given = _given(value.__pydantic_fields_set__, fields)
    extra, private = value.__pydantic_extra__, value.__pydantic_private__
    if private:
        return [fields, given, extra, private]
    return [fields, given] if extra is None else [fields, given, extra]


def _only_fields(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    for name in cls.__pydantic_fields__:
        if name not in fields:
            raise SerializationError(f"The field {name!r} of {type_name(cls)} has no value")
    for name in fields.keys() - cls.__pydantic_fields__.keys() - layout_of(cls).derived:
        raise SerializationError(
            f"The attribute {name!r} of {type_name(cls)} is not a field. Declare it, also privately"
        )
    return {name: fields[name] for name in fields if name in cls.__pydantic_fields__}


def _given(given: set[str], fields: dict[str, Any]) -> int | list[str]:
    """Return the names as bits, by position in `fields`; as a list if one is not there."""
    bits = sum(1 << place for place, name in enumerate(fields) if name in given)
    return bits if bits.bit_count() == len(given) and len(fields) < 64 else sorted(given)


def model_builder(cls: Any) -> Callable[[list[Any]], Any]:
    """Return what rebuilds a model from its name and parts."""
    names = cls.__pydantic_fields__
    set_fields, set_given, set_extra, set_private = setters()

    def build(parts: list[Any]) -> Any:
        _, fields, bits, extra, private = parts + [None] * (5 - len(parts))
        if type(fields) is not dict or type(extra) not in _MAYBE or type(private) not in _MAYBE:
            raise SerializationError(f"The stored state of {type_name(cls)} is not made of dicts")
        if type(bits) is int:
            given = {name for place, name in enumerate(fields) if bits >> place & 1}
        else:
            given = set(bits)
        if fields.keys() != names.keys():
            given -= fields.keys() - names.keys()
            fields = evolved(cls, fields)
        value = _new(cls)
        set_fields(value, fields)
        set_given(value, given)
        set_extra(value, extra)
        set_private(value, _private(cls, private))
        return value

    return build


def _private(cls: Any, stored: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the private attributes that the class has today."""
    declared = cls.__private_attributes__
    if not declared or (stored is not None and stored.keys() == declared.keys()):
        return stored
    defaults = {name: attribute.get_default() for name, attribute in declared.items()}
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    kept = {name: value for name, value in defaults.items() if value is not undefined}
    return kept | {name: value for name, value in (stored or {}).items() if name in declared}


def model_from_fields(cls: Any, fields: dict[str, Any]) -> Any:
    """Build a model from plain data of another serializer, which its validators must see."""
    return cls.model_validate(fields)


def evolved(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the model has today: stored ones, and defaults for those it gained."""
    state: dict[str, Any] = {}
    for name, field in cls.__pydantic_fields__.items():
        if name in fields:
            state[name] = fields[name]
        elif field.is_required():
            raise missing_field(cls, name)
        else:
            state[name] = field.get_default(call_default_factory=True, validated_data=state)
    return state
