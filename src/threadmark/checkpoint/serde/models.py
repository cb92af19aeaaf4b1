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
    "setters",
]

Setter = Callable[[Any, Any], None]
_new = object.__new__
_MAYBE = (dict, type(None))
_BITS = 64


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
    names = tuple(cls.__pydantic_fields__)
    bit_of = {field: 1 << place for place, field in enumerate(names)} if len(names) < _BITS else {}

    def encode(value: Any, level: Level) -> Ext:
        fields = value.__dict__
        if tuple(fields) != names:
            fields = _only_fields(cls, fields)
        given: int | list[str] = 0
        try:
            for field in value.__pydantic_fields_set__:
                given |= bit_of[field]  # type: ignore[operator]
        except KeyError:
            given = sorted(value.__pydantic_fields_set__)
        parts = [name, fields, given]
        if value.__pydantic_private__:
            parts += value.__pydantic_extra__, value.__pydantic_private__
        elif value.__pydantic_extra__ is not None:
            parts.append(value.__pydantic_extra__)
        return Ext(wire.MODEL, level.pack(parts))

    return encode


def _only_fields(cls: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the fields among a model's attributes, in their order in the class.

    Raises:
        SerializationError: A field has no value, or an attribute is no field.
    """
    names = cls.__pydantic_fields__
    for name in names:
        if name not in attributes:
            raise SerializationError(f"The field {name!r} of {type_name(cls)} has no value")
    for name in attributes.keys() - names.keys() - layout_of(cls).derived:
        raise SerializationError(
            f"The attribute {name!r} of {type_name(cls)} is not a field. Declare it, also privately"
        )
    return {name: attributes[name] for name in names}


def model_builder(cls: Any) -> Callable[[list[Any]], Any]:
    """Return what rebuilds a model from its name and parts."""
    names = tuple(cls.__pydantic_fields__)
    has_private = bool(cls.__private_attributes__)
    set_fields, set_given, set_extra, set_private = setters()

    def build(parts: list[Any]) -> Any:
        fields, given = parts[1], _given(parts[1], parts[2])
        extra = parts[3] if len(parts) > 3 else None
        private = parts[4] if len(parts) > 4 else None
        if type(fields) is not dict or type(extra) not in _MAYBE or type(private) not in _MAYBE:
            raise SerializationError(f"The stored state of {type_name(cls)} is not made of dicts")
        if tuple(fields) != names:
            given -= fields.keys() - set(names)
            fields = evolved(cls, fields)
        value = _new(cls)
        set_fields(value, fields)
        set_given(value, given)
        set_extra(value, extra)
        set_private(value, _private(cls, private) if has_private else private)
        return value

    return build


def _given(fields: Any, given: Any) -> set[str]:
    """Return the names of the fields that were given: by bits, or as a list."""
    if type(given) is not int:
        return set(given)
    if given == (1 << len(fields)) - 1:
        return set(fields)
    return {name for place, name in enumerate(fields) if given >> place & 1}


def _private(cls: Any, stored: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the private attributes that the class has today."""
    declared = cls.__private_attributes__
    if stored is not None and stored.keys() == declared.keys():
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
