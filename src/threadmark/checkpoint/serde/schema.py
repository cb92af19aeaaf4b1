"""The classes that a schema names, so that values of them can be rebuilt without a word from the user.

Walks annotations: of typed dicts, dataclasses, Pydantic models, attrs classes, named tuples, plain
classes and functions, through generics, unions, `Annotated`, aliases and type variables. It imports
nothing: what an annotation names, the program has at hand. A name that cannot be resolved is passed
over; a value of that class is then refused when it is written, with the line that registers it.
"""

from __future__ import annotations

import inspect
import logging
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import typing_extensions

__all__ = ["collect_types"]

_log = logging.getLogger("threadmark.serde")

Names: TypeAlias = Mapping[str, Any]

_SPECIAL_MODULES = frozenset(("abc", "enum", "types", "typing", "typing_extensions"))
_SILENT_PACKAGES = frozenset(("builtins", "enum", "pydantic", "typing", "typing_extensions"))
"""Where base classes come from whose own annotations say nothing about a program's values."""
_LITERALS = (typing.Literal, typing_extensions.Literal)


def collect_types(schema: Any) -> set[type]:
    """Return every class that a schema names, itself included.

    Args:
        schema: A class, an annotation, or a function, whose parameters and result count.
    """
    found: set[type] = set()
    seen: dict[Any, tuple[Any, Names]] = {}
    todo: list[tuple[Any, Names]] = [(schema, {})]
    while todo:
        annotation, names = todo.pop()
        text = _text(annotation)
        key = id(annotation) if text is None else (text, id(names))
        if key in seen:
            continue
        # Keeping both alive keeps their identities from being used again.
        seen[key] = annotation, names
        if isinstance(annotation, type) and annotation.__module__ not in _SPECIAL_MODULES:
            found.add(annotation)
        todo.extend(_inside(annotation, text, names))
    return found


def _text(annotation: Any) -> str | None:
    """Return the text of an annotation that is given as text."""
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else None


def _inside(annotation: Any, text: str | None, names: Names) -> Iterator[tuple[Any, Names]]:
    """Yield what an annotation is made of, with the names that its texts may use."""
    if text is not None:
        yield from ((part, names) for part in _resolved(text, names))
        return
    yield from ((part, names) for part in _arguments(annotation))
    if isinstance(annotation, (type, types.FunctionType)):
        yield from _members(annotation)


def _arguments(annotation: Any) -> Iterator[Any]:
    """Yield the parts of a generic, a union, an alias or a type variable."""
    origin = typing.get_origin(annotation)
    args = typing.get_args(annotation)
    if origin in _LITERALS:
        yield from map(type, args)
    elif hasattr(annotation, "__metadata__"):
        # The rest of an Annotated are reducers and remarks.
        yield args[0]
    elif origin is not None and origin is not typing.ClassVar:
        yield origin
        for arg in args:
            yield from arg if isinstance(arg, list) else (arg,)
    elif isinstance(annotation, typing.TypeVar):
        yield from (annotation.__bound__, *annotation.__constraints__)
    elif isinstance(annotation, typing.NewType):
        yield annotation.__supertype__
    elif isinstance(annotation, typing_extensions.TypeAliasType):
        yield annotation.__value__


def _members(owner: Any) -> Iterator[tuple[Any, Names]]:
    """Yield the annotations of a class and its bases, or of a function."""
    for holder in owner.__mro__ if isinstance(owner, type) else (owner,):
        module = holder.__module__ or ""
        if module.partition(".")[0] in _SILENT_PACKAGES:
            continue
        names = {**(vars(holder) if isinstance(holder, type) else {}), **_module_names(module)}
        for annotation in inspect.get_annotations(holder).values():
            yield annotation, names
        for base in getattr(holder, "__orig_bases__", ()):
            yield base, names
    for field in getattr(owner, "__pydantic_fields__", {}).values():
        # Pydantic has resolved what was text.
        yield field.annotation, {}
    for arg in (getattr(owner, "__pydantic_generic_metadata__", None) or {}).get("args", ()):
        yield arg, {}


def _module_names(module: str) -> Names:
    return vars(sys.modules[module]) if module in sys.modules else {}


def _resolved(text: str, names: Names) -> Iterator[Any]:
    """Yield what the text of an annotation stands for, if that can be told."""
    holder: Any = types.SimpleNamespace(__annotations__={"it": text})
    try:
        yield typing.get_type_hints(holder, dict(names), include_extras=True)["it"]
    except Exception:  # noqa: BLE001 - the program's own text is evaluated, so anything can come
        _log.debug("The annotation %r cannot be resolved; its types are not known", text, exc_info=True)
