"""Where instances of a class keep their state: declared fields, slots, and the instance dictionary.

Dataclasses and attrs classes declare their fields; other classes have whatever attributes they have.
Nothing here encodes or rebuilds.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

__all__ = [
    "CACHED_HASH",
    "NO_DEFAULT",
    "Layout",
    "attribute_slots",
    "hides_state",
    "layout_of",
    "pickles_itself",
]

CACHED_HASH = "_attrs_cached_hash"
"""Where attrs keeps a hash, which means nothing in another process."""

_POINTER = tuple.__itemsize__
_PICKLE_METHODS = (
    "__getnewargs__", "__getnewargs_ex__", "__getstate__", "__reduce__", "__reduce_ex__", "__setstate__",
)  # fmt: skip


class _NoDefault:
    """Stands for "this field has no default"."""


NO_DEFAULT = _NoDefault()


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The state of a class's instances.

    Attributes:
        fields: The declared fields, or `None` when the class declares none.
        slots: The attributes that are not in the instance dictionary.
        has_dict: Whether there is an instance dictionary.
        derived: Attributes in the dictionary that can be computed again.
        defaults: By field, a function that returns the default, or `NO_DEFAULT`.
        optional: Fields that an instance may lack.
    """

    fields: tuple[str, ...] | None
    slots: tuple[str, ...]
    has_dict: bool
    derived: frozenset[str]
    defaults: dict[str, Callable[[], Any]]
    optional: frozenset[str]


def layout_of(cls: type) -> Layout:
    """Return the layout of a class."""
    fields: tuple[str, ...] | None = None
    defaults: dict[str, Callable[[], Any]] = {}
    optional: frozenset[str] = frozenset()
    if dataclasses.is_dataclass(cls):
        declared = dataclasses.fields(cls)
        fields = tuple(field.name for field in declared)
        defaults = {field.name: _dataclass_default(field) for field in declared}
        optional = frozenset(field.name for field in declared if not field.init)
    elif hasattr(cls, "__attrs_attrs__"):
        fields = tuple(field.name for field in cls.__attrs_attrs__)
        defaults = {field.name: _attrs_default(field) for field in cls.__attrs_attrs__}
        optional = frozenset(field.name for field in cls.__attrs_attrs__ if not field.init)
    return Layout(
        fields=fields,
        slots=attribute_slots(cls),
        has_dict=cls.__dictoffset__ != 0,
        derived=frozenset(
            name
            for base in cls.__mro__
            for name, value in vars(base).items()
            if isinstance(value, cached_property)
        ),
        defaults=defaults,
        optional=optional,
    )


def _dataclass_default(field: dataclasses.Field[Any]) -> Callable[[], Any]:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    default = NO_DEFAULT if field.default is dataclasses.MISSING else field.default
    return lambda: default


def _attrs_default(field: Any) -> Callable[[], Any]:
    attr = sys.modules["attr"]
    default = field.default
    if isinstance(default, attr.Factory) and not default.takes_self:
        factory: Callable[[], Any] = default.factory
        return factory
    missing = default is attr.NOTHING or isinstance(default, attr.Factory)
    return lambda: NO_DEFAULT if missing else default


def attribute_slots(cls: type) -> tuple[str, ...]:
    """Return the names of the slots of a class and its bases, as attributes."""
    names: list[str] = []
    for base in reversed(cls.__mro__):
        own = vars(base).get("__slots__", ())
        for name in (own,) if isinstance(own, str) else tuple(own):
            if name in ("__dict__", "__weakref__"):
                continue
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{base.__name__.lstrip('_')}{name}"
            names.append(name)
    return tuple(names)


def hides_state(cls: type, base: type = object) -> bool:
    """Tell whether instances hold more than `base` and their attributes: something written in C."""
    expected = base.__basicsize__ + _POINTER * len(attribute_slots(cls))
    if cls.__weakrefoffset__ > 0 and not base.__weakrefoffset__:
        expected += _POINTER
    in_object = cls.__dictoffset__ > 0 or (cls.__dictoffset__ and cls.__itemsize__)
    if in_object and not base.__dictoffset__:
        expected += _POINTER
    return cls.__basicsize__ > expected or cls.__itemsize__ != base.__itemsize__


def pickles_itself(cls: type) -> bool:
    """Tell whether a class has its own idea of what its state is."""
    return any(getattr(cls, name, None) is not getattr(object, name, None) for name in _PICKLE_METHODS)
