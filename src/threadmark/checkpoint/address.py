"""Reads addresses and selections out of configs, and refuses what cannot be one.

Ids, namespaces and names come from outside and are hostile until they have been here. This module
knows no backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from threadmark._checks import instance, shown, text, wrong
from threadmark.config import RunnableConfig
from threadmark.errors import InvalidArgumentError

__all__ = [
    "MAIN",
    "Address",
    "Selection",
    "address_of",
    "branch_name",
    "check_name",
    "matches",
    "selection_of",
    "thread_id_of",
]

MAIN = "main"
"""The branch that a thread starts with."""

_LONGEST_ID = 1_024
_LONGEST_NAME = 4_096


class Address(NamedTuple):
    """Where a config points: a thread, a namespace, and a checkpoint or the tip of a branch."""

    thread_id: str
    ns: str
    checkpoint_id: str | None
    branch: str


class Selection(NamedTuple):
    """What `list` was asked for. `None` stands for "all"."""

    thread_id: str | None
    ns: str | None
    checkpoint_id: str | None
    filter: Mapping[str, Any]
    before: Address | None
    limit: int | None


def address_of(config: RunnableConfig, *, need_checkpoint: bool = False) -> Address:
    """Return the address in a config.

    Args:
        config: The config.
        need_checkpoint: Whether it must name a checkpoint.

    Raises:
        InvalidArgumentError: It names no thread, or something in it cannot be an id.
    """
    configurable = _configurable(config)
    checkpoint_id = _optional_id(configurable, "checkpoint_id")
    if need_checkpoint and checkpoint_id is None:
        raise InvalidArgumentError(
            "The config names no checkpoint. Put one into config['configurable']['checkpoint_id']."
        )
    return Address(
        thread_id_of(configurable.get("thread_id")),
        _name(configurable, "checkpoint_ns", ""),
        checkpoint_id,
        _name(configurable, "branch", MAIN),
    )


def each_of(name: str, values: Any) -> list[Any]:
    """Return the members of a list of ids. One text is refused: it would be taken letter by letter.

    Raises:
        InvalidArgumentError: It is no list.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidArgumentError(f"{name} is a list of ids, not {shown(values)}. For one id write [id].")
    return list(values)


def thread_id_of(value: Any) -> str:
    """Return a thread id as text. Whole numbers and UUIDs are taken as well."""
    if type(value) is str:
        return _checked_id(value)
    from uuid import UUID

    if isinstance(value, str | int | UUID) and not isinstance(value, bool):
        return _checked_id(str(value))
    raise InvalidArgumentError(
        f"A thread_id is needed, a text that is not empty, and {shown(value)} was given. Put it into "
        f"config['configurable']['thread_id']."
    )


def branch_name(name: Any, argument: str = "name") -> str:
    """Return the name for a branch.

    Raises:
        InvalidArgumentError: It cannot be one.
    """
    text(argument, name)
    return check_name(name)


def _name(configurable: Mapping[str, Any], key: str, default: str) -> str:
    """Return the name that a config gives, or the default."""
    given = configurable.get(key)
    if given is None or given == "":
        return default
    if not isinstance(given, str):
        raise wrong(f"config['configurable'][{key!r}]", given, "a text")
    return check_name(given)


def check_name(name: str) -> str:
    """Return the name of a namespace, branch, channel, task or version if every backend can keep it.

    Raises:
        InvalidArgumentError: It cannot.
    """
    return _checked_text(name, _LONGEST_NAME)


def selection_of(
    config: RunnableConfig | None,
    filter: Mapping[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Selection:
    """Return the checked arguments of `list`.

    Raises:
        InvalidArgumentError: One of them has no meaning.
    """
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidArgumentError(f"limit is a whole number, 0 or more, not {shown(limit)}.")
    if filter is not None and not (isinstance(filter, Mapping) and all(type(k) is str for k in filter)):
        raise InvalidArgumentError(f"filter is a dict from metadata keys to values, not {shown(filter)}.")
    configurable = {} if config is None else _configurable(config)
    thread_id = configurable.get("thread_id")
    ns = configurable.get("checkpoint_ns")
    return Selection(
        None if thread_id is None else thread_id_of(thread_id),
        None if ns is None else _name(configurable, "checkpoint_ns", ""),
        _optional_id(configurable, "checkpoint_id"),
        filter or {},
        None if before is None else _before(before, configurable),
        limit,
    )


def matches(metadata: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Tell whether metadata has all entries of a filter."""
    return all(metadata.get(key) == value for key, value in filter.items())


def _before(before: RunnableConfig, configurable: Mapping[str, Any]) -> Address:
    instance("before", before, Mapping, "a config, or None")
    if configurable.get("thread_id") is None:
        raise InvalidArgumentError("before has a meaning only inside one thread; name it in config.")
    own = {"thread_id": configurable["thread_id"], "checkpoint_ns": configurable.get("checkpoint_ns")}
    found = address_of(
        {"configurable": {**own, **_configurable(before)}},
        need_checkpoint=True,
    )
    if found.thread_id != thread_id_of(configurable["thread_id"]):
        raise InvalidArgumentError("before names a checkpoint of another thread than config.")
    return found


def _configurable(config: RunnableConfig) -> Mapping[str, Any]:
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    if not isinstance(configurable, Mapping):
        raise InvalidArgumentError(
            "A config with {'configurable': {'thread_id': ...}} is needed: it says which thread is meant."
        )
    return configurable


def _optional_id(configurable: Mapping[str, Any], key: str) -> str | None:
    value = configurable.get(key)
    return None if not value and not isinstance(value, int) else _checked_id(value)


def _checked_id(value: Any) -> str:
    return _checked_text(value, _LONGEST_ID)


def _checked_text(value: Any, longest: int) -> str:
    if type(value) is str and value.isascii() and len(value) <= longest and "\x00" not in value:
        return value
    if not isinstance(value, str):
        raise InvalidArgumentError(f"An id or name is a text, not {shown(value)}.")
    if len(value) > longest:
        raise InvalidArgumentError(
            f"An id or name of {len(value)} characters is over {longest}. Shorten it, as by hashing."
        )
    if "\x00" in value or not _encodable(value):
        raise InvalidArgumentError(
            f"{shown(value)} cannot be an id or name: it holds NUL or a lone surrogate, which databases "
            f"refuse."
        )
    return value


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
