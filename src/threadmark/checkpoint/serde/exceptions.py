"""Exceptions: class, arguments, attributes and notes.

The traceback and the chain of causes belong to the process and are left behind. An exception that is
stored as the record of a failure is worth keeping even when it cannot be rebuilt: then its class's name
and its text are stored, and read as a `StoredError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Encoder, Level
from threadmark.checkpoint.serde.known import type_name
from threadmark.checkpoint.serde.layout import layout_of
from threadmark.checkpoint.serde.records import set_attributes, state_of
from threadmark.errors import StoredError

__all__ = ["built_in_base", "error_record", "exception_builder", "exception_encoder"]

_ATTRIBUTES = {AttributeError: ("name",), ImportError: ("name", "path"), NameError: ("name",)}
"""What these exceptions hold besides their arguments."""


def error_record(error: BaseException) -> StoredError:
    """Return what is kept of an exception that cannot be kept itself."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - it may be of any class, and its record must not fail
        text = ""
    return StoredError(type_name(type(error)), text)


def exception_encoder(cls: type) -> Encoder:
    """Return the encoder of an exception class."""
    if cls is StoredError:
        return lambda value, level: Ext(wire.EXCEPTION, level.pack([value.type_name, None, value.text]))
    name = type_name(cls)
    base = built_in_base(cls)
    layout = layout_of(cls)
    extra = next((names for kind, names in _ATTRIBUTES.items() if issubclass(base, kind)), ())

    def encode(value: Any, level: Level) -> Ext:
        # An OSError's file names are among the arguments only in its pickled form.
        args = OSError.__reduce__(value)[1] if issubclass(base, OSError) else value.args
        fields, others = state_of(value, layout)
        state = {key: getattr(value, key) for key in extra if getattr(value, key) is not None}
        state |= fields | others
        return Ext(wire.EXCEPTION, level.pack([name, list(args), state] if state else [name, list(args)]))

    return encode


def built_in_base(cls: type) -> Any:
    """Return the nearest exception of Python's own that a class derives from."""
    return next(base for base in cls.__mro__ if base.__module__ == "builtins")


def exception_builder(cls: Any) -> Callable[[list[Any]], Any]:
    """Return what rebuilds an exception from `[name, arguments]` or `[name, arguments, attributes]`."""
    base = built_in_base(cls)

    def build(parts: list[Any]) -> Any:
        value = base.__new__(cls, *parts[1])
        base.__init__(value, *parts[1])
        set_attributes(value, parts[2] if len(parts) > 2 else {})
        return value

    return build
