"""State schemas: from a class with annotations to channels, and from channel values to its instances.

A schema is a `TypedDict`, a dataclass, a Pydantic model or any class with annotations; anything else is a
state of one piece. Pydantic is never imported here: a model is recognised by its attributes.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    ClassVar,
    ForwardRef,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
)

import typing_extensions

from threadmark._checks import shown, text
from threadmark.channels import BaseChannel, BinaryOperatorAggregate, DeltaChannel, LastValue
from threadmark.channels.base import MISSING
from threadmark.checkpoint.address import check_name
from threadmark.constants import RESERVED, ROOT
from threadmark.errors import GraphError, InvalidArgumentError
from threadmark.managed import ManagedValue
from threadmark.pregel.plan import Channels

__all__ = ["Schema", "check_storable", "schema_of"]

QUALIFIERS = (Required, NotRequired, typing_extensions.Required, typing_extensions.NotRequired)
READ_ONLY = getattr(typing_extensions, "ReadOnly", None)


@dataclasses.dataclass(frozen=True, slots=True)
class Schema:
    """What a schema class says.

    Attributes:
        type: The class.
        channels: A channel for each key.
        managed: The computed keys.
        make: Makes an instance from a dict of values; `None` for schemas whose instances are dicts.
    """

    type: Any
    channels: Channels
    managed: dict[str, type[ManagedValue]]
    make: Callable[..., Any] | None

    @property
    def keys(self) -> tuple[str, ...]:
        """The stored keys."""
        return tuple(self.channels)

    @property
    def is_root(self) -> bool:
        """Whether the state is of one piece."""
        return ROOT in self.channels

    def read(self, channels: Channels, managed: Mapping[str, Any]) -> Any:
        """Return the state as an instance of this schema."""
        values = {k: v for k in self.channels if (v := channels[k].value) is not MISSING}
        if self.managed:
            values.update((k, managed[k]) for k in self.managed)
        return values if self.make is None else self.make(**values)

    def read_root(self, channels: Channels, managed: Mapping[str, Any]) -> Any:
        """Return a state of one piece."""
        value = channels[ROOT].value
        return None if value is MISSING else value

    def instance(self, values: Any) -> Any:
        """Return values of this schema's keys as an instance of it."""
        if self.make is None or not isinstance(values, dict):
            return values
        return self.make(**{k: v for k, v in values.items() if k in self.channels})

    def coerce(self, value: Any) -> Any:
        """Return a dict as an instance of this schema; leave anything else as it is."""
        if self.make is not None and isinstance(value, dict):
            return self.make(**value)
        return value


def check_storable(what: str, name: str) -> None:
    """Refuse the name of a node or a state key that storage would refuse later.

    Raises:
        GraphError: It is empty, too long, or holds what databases do not keep.
    """
    try:
        text("It", name)
        # The name of a node is part of the names of channels.
        check_name(f"branch:to:{name}")
    except InvalidArgumentError as error:
        raise GraphError(f"The {what} {shown(name)} cannot be saved. {error}") from None


def schema_of(schema: Any) -> Schema:
    """Read a schema class.

    Raises:
        GraphError: A key has a reserved name, or a reducer that cannot be called with two values.
    """
    hints = annotations_of(schema)
    if hints is None:
        root = channel_of(ROOT, schema)
        assert isinstance(root, BaseChannel)
        return Schema(schema, {ROOT: root}, {}, None)
    channels: Channels = {}
    managed: dict[str, type[ManagedValue]] = {}
    for key, annotation in hints.items():
        check_storable("state key", key)
        if key in RESERVED:
            raise GraphError(f"The state key {key!r} is a reserved name. Call it something else.")
        if key.startswith(("branch:to:", "join:")):
            raise GraphError(
                f"The state key {key!r} looks like a channel of the engine. Leave out the colon."
            )
        found = channel_of(key, annotation)
        if isinstance(found, BaseChannel):
            channels[key] = found
        else:
            managed[key] = found
    is_dict = isinstance(schema, type) and issubclass(schema, dict)
    return Schema(schema, channels, managed, None if is_dict else schema)


def annotations_of(schema: Any) -> dict[str, Any] | None:
    """Return the annotations of a schema class with their extras, or `None` if it has no keys."""
    if not isinstance(schema, type) or not is_keyed(schema):
        return None
    try:
        hints = get_type_hints(schema, include_extras=True)
    except NameError as error:
        raise GraphError(
            f"An annotation of {schema.__name__} cannot be resolved: {error}. Define the schema where its "
            f"types are importable, or without `from __future__ import annotations`."
        ) from error
    fields = getattr(schema, "model_fields", None)
    if isinstance(fields, dict):
        return {k: hints[k] for k in fields}
    if dataclasses.is_dataclass(schema):
        return {f.name: hints[f.name] for f in dataclasses.fields(schema) if f.init}
    return {k: v for k, v in hints.items() if get_origin(v) is not ClassVar}


def is_keyed(schema: type) -> bool:
    """Tell whether a class describes a state of several keys."""
    if issubclass(schema, dict):
        return hasattr(schema, "__total__")
    return schema.__module__ != "builtins" and any("__annotations__" in vars(c) for c in schema.__mro__[:-1])


def channel_of(key: str, annotation: Any) -> BaseChannel[Any] | type[ManagedValue]:
    """Return the channel (or the computed value) that an annotation asks for.

    Raises:
        GraphError: The reducer cannot be called with two values.
    """
    annotation = unqualified(annotation)
    if get_origin(annotation) is Annotated:
        inner, *extras = get_args(annotation)
        for extra in reversed(extras):
            found = channel_from(key, unqualified(inner), extra)
            if found is not None:
                return found
        return channel_of(key, inner)
    return LastValue(annotation, key)


def unqualified(annotation: Any) -> Any:
    """Return an annotation without `Required`, `NotRequired` and `ReadOnly`."""
    while get_origin(annotation) in (*QUALIFIERS, READ_ONLY):
        annotation = get_args(annotation)[0]
    return annotation


def channel_from(key: str, inner: Any, extra: Any) -> BaseChannel[Any] | type[ManagedValue] | None:
    """Return what one extra of an annotation asks for."""
    if isinstance(extra, BaseChannel):
        channel = extra.clone()
        channel.key = key
        if isinstance(channel, DeltaChannel) and channel.typ is None:
            channel.of_type(inner)
        return channel
    if isinstance(extra, type) and issubclass(extra, BaseChannel):
        return extra(inner, key=key)
    if isinstance(extra, type) and issubclass(extra, ManagedValue):
        return extra
    if isinstance(extra, str | ForwardRef) or not callable(extra):
        return None
    check_reducer(key, extra)
    return BinaryOperatorAggregate(inner, extra, key)


def check_reducer(key: str, reducer: Callable[..., Any]) -> None:
    """Refuse a reducer that cannot be called with (old, new)."""
    try:
        signature = inspect.signature(reducer)
    except (TypeError, ValueError):  # built-in functions without a signature, such as max
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise GraphError(
            f"The reducer of {key!r} must be callable with (old, new), but {reducer!r} has the signature "
            f"{signature}."
        ) from error


def updates_from(output: Any, keys: frozenset[str]) -> list[tuple[str, Any]] | None:
    """Return the fields of a schema instance as writes, or `None` if it is none."""
    cls = type(output)
    given: set[str] = set()
    fields: Any = getattr(cls, "model_fields", None)
    if isinstance(output, type):
        return None
    if isinstance(fields, dict):
        given = output.model_fields_set
    elif dataclasses.is_dataclass(cls):
        fields = [f.name for f in dataclasses.fields(cls)]
    elif is_keyed(cls) and not issubclass(cls, dict | list | tuple | str):
        fields = annotations_of(cls) or ()
    else:
        return None
    if keys and not any(k in keys for k in fields):
        return None
    names = [k for k in fields if k in given or getattr(output, k, None) is not None]
    return [(k, getattr(output, k)) for k in names if k in keys]
