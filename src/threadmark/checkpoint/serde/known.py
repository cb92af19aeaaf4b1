"""The classes that a serializer may rebuild, by name.

A class is known because it is built in, was named in a schema, or was registered. Looking a name up
never imports: what the program has not loaded does not exist here.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from threadmark import errors
from threadmark._checks import shown
from threadmark.errors import InvalidArgumentError

__all__ = ["EveryType", "KnownTypes", "type_name"]

_PLAIN = (
    bool, bytearray, bytes, complex, dict, float, frozenset, int, list, object, range, set, slice,
    str, tuple, type, type(None),
)  # fmt: skip
_EXCEPTIONS = tuple(
    cls
    for module in (builtins, errors)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, BaseException)
)
_LATER = {
    "langchain_core.documents.base": ("Document",),
    "langchain_core.messages.ai": ("AIMessage", "AIMessageChunk"),
    "langchain_core.messages.chat": ("ChatMessage", "ChatMessageChunk"),
    "langchain_core.messages.function": ("FunctionMessage", "FunctionMessageChunk"),
    "langchain_core.messages.human": ("HumanMessage", "HumanMessageChunk"),
    "langchain_core.messages.modifier": ("RemoveMessage",),
    "langchain_core.messages.system": ("SystemMessage", "SystemMessageChunk"),
    "langchain_core.messages.tool": ("ToolMessage", "ToolMessageChunk"),
    "numpy": ("ndarray", "generic"),
    "threadmark.store.cursors": ("Place",),
    "threadmark.store.items": ("Item", "SearchItem"),
    "threadmark.types": (
        "Command", "GraphOutput", "Interrupt", "Overwrite", "PregelTask", "RetryPolicy", "Send",
        "StateSnapshot", "StateUpdate", "TimeoutPolicy",
    ),
}  # fmt: skip
"""Built in too. What is not of this library is found only once the program has imported the module."""

_BUILT_IN: dict[str, type] = {f"{c.__module__}:{c.__qualname__}": c for c in _PLAIN + _EXCEPTIONS}
_LATER_BY_NAME = {f"{module}:{name}": (module, name) for module, names in _LATER.items() for name in names}


def type_name(cls: type) -> str:
    """Return the name under which a class is stored: `package.module:Qualified.Name`."""
    return f"{cls.__module__}:{cls.__qualname__}"


class KnownTypes:
    """The classes that one serializer may rebuild. Never changes; `plus` returns a larger copy."""

    __slots__ = ("_by_name",)

    def __init__(self, by_name: Mapping[str, type] | None = None) -> None:
        self._by_name = dict(by_name or {})

    def plus(self, types: Iterable[type], was: str | None = None) -> KnownTypes:
        """Return a copy that knows more classes.

        Args:
            types: The classes.
            was: A name that the (only) class had when data was written.

        Raises:
            InvalidArgumentError: One of `types` is not a class.
        """
        by_name = dict(self._by_name)
        for cls in types:
            if not isinstance(cls, type):
                raise InvalidArgumentError(
                    f"{shown(cls)} is not a class. Pass a class, or its name as 'package.module:Name'."
                )
            by_name[type_name(cls)] = cls
            if was is not None:
                by_name[was] = cls
        return KnownTypes(by_name)

    def get(self, name: str) -> type | None:
        """Return the class that is stored under a name, or `None` when it is not known."""
        return self._by_name.get(name) or _BUILT_IN.get(name) or _loaded(name)

    def find(self, name: str) -> type:
        """Return the class that is stored under a name.

        Raises:
            UnknownTypeError: It is not known.
            SerializationError: It is not a name.
        """
        if type(name) is not str:
            raise errors.SerializationError(f"Stored data names a class by a {type(name).__name__}")
        cls = self.get(name)
        if cls is None:
            raise errors.UnknownTypeError(name)
        return cls

    def named(self, module: str) -> list[type]:
        """Return the classes of a module that were named or registered."""
        return [cls for cls in self._by_name.values() if cls.__module__ == module]

    def __contains__(self, cls: type) -> bool:
        return self.get(type_name(cls)) is cls


class EveryType(KnownTypes):
    """Knows every class, for data that is never read back."""

    __slots__ = ()

    def __contains__(self, cls: type) -> bool:
        return True


def _loaded(name: str) -> type | None:
    where = _LATER_BY_NAME.get(name)
    if where is None:
        return None
    module, attribute = where
    if module.startswith("threadmark."):
        # A part of this library, out of the table above: nothing that the data decides.
        return getattr(importlib.import_module(module), attribute, None)
    return getattr(sys.modules.get(module), attribute, None)


def import_type(name: str) -> Any:
    """Return what the program's author named as `package.module:Qualified.Name`, importing it.

    Raises:
        InvalidArgumentError: There is no such thing.
    """
    module, _, path = name.partition(":")
    if not module or not path:
        raise InvalidArgumentError(f"The new class {name!r} is not of the form 'package.module:Name'.")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(f"{name!r} cannot be imported: {error}.") from error
    return found
