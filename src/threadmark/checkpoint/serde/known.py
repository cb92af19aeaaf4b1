"""The classes that a serializer may rebuild, by name.

A class is known because it is built in, was named in a schema, or was registered. Looking up a name
never imports anything: what a program has not handed over does not exist here.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from threadmark import errors
from threadmark.errors import InvalidArgumentError

__all__ = ["KnownTypes", "type_name"]

_BUILT_IN_CLASSES = (
    bool, bytearray, bytes, complex, dict, float, frozenset, int, list, object, range, set, slice,
    str, tuple, type, type(None),
)  # fmt: skip
_EXCEPTIONS = tuple(
    cls
    for module in (builtins, errors)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, BaseException)
)

_LANGCHAIN = {
    "langchain_core.messages.human": ("HumanMessage", "HumanMessageChunk"),
    "langchain_core.messages.ai": ("AIMessage", "AIMessageChunk"),
    "langchain_core.messages.system": ("SystemMessage", "SystemMessageChunk"),
    "langchain_core.messages.tool": ("ToolMessage", "ToolMessageChunk"),
    "langchain_core.messages.function": ("FunctionMessage", "FunctionMessageChunk"),
    "langchain_core.messages.chat": ("ChatMessage", "ChatMessageChunk"),
    "langchain_core.messages.modifier": ("RemoveMessage",),
    "langchain_core.documents.base": ("Document",),
    "langchain_core.prompt_values": ("StringPromptValue", "ChatPromptValue"),
}
_OWN = {
    "threadmark.types": (
        "Command", "Interrupt", "Overwrite", "Send", "StateSnapshot", "StateUpdate", "PregelTask",
        "RetryPolicy", "TimeoutPolicy", "GraphOutput",
    ),
    "threadmark.store.base": ("Item", "SearchItem", "GetOp", "PutOp", "SearchOp"),
}  # fmt: skip
_BUILT_IN_NAMES = {
    f"{module}:{name}": (module, name) for module, names in (_LANGCHAIN | _OWN).items() for name in names
}


def type_name(cls: type) -> str:
    """Return the name under which a class is stored: `package.module:Qualified.Name`."""
    return f"{cls.__module__}:{cls.__qualname__}"


class KnownTypes:
    """The classes that one serializer may rebuild."""

    __slots__ = ("_by_name",)

    def __init__(self, by_name: Mapping[str, type] | None = None) -> None:
        if by_name is None:
            by_name = {type_name(cls): cls for cls in _BUILT_IN_CLASSES + _EXCEPTIONS}
        self._by_name = dict(by_name)

    def with_types(self, types: Iterable[type]) -> KnownTypes:
        """Return a copy that knows some more classes."""
        return KnownTypes({**self._by_name, **{type_name(cls): cls for cls in types}})

    def allow(self, new: type | str, was: str | None = None) -> None:
        """Add a class, also under a name that it had before.

        Raises:
            InvalidArgumentError: `new` is not a class, or names none.
        """
        cls = _find(new) if isinstance(new, str) else new
        if not isinstance(cls, type):
            raise InvalidArgumentError(
                f"{new!r} is not a class. Pass a class, or its name as 'package.module:Name'."
            )
        self._by_name[type_name(cls)] = cls
        if was is not None:
            self._by_name[was] = cls

    def get(self, name: str) -> type | None:
        """Return the class of a stored name, or `None` when it is not known."""
        return self._by_name.get(name) or _built_in(name)

    def __contains__(self, cls: type) -> bool:
        return self.get(type_name(cls)) is cls


def _built_in(name: str) -> type | None:
    """Return a class of the fixed list, if the program has loaded its module."""
    where = _BUILT_IN_NAMES.get(name)
    if where is None:
        return None
    module, attribute = where
    return getattr(sys.modules.get(module), attribute, None)


def _find(name: str) -> Any:
    """Import the class that the program's author named."""
    module, _, path = name.partition(":")
    if not path:
        raise InvalidArgumentError(f"{name!r} is not of the form 'package.module:Name'.")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
