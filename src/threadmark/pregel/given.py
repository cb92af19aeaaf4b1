"""Checks what callers of a compiled graph pass: configs, names of nodes and keys, and other options.

Everything here is done once for each call, before anything is read or written. Knows no run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args, get_origin
from uuid import UUID

from threadmark._checks import flag, instance, one_of, shown, text, wrong
from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.config import RunnableConfig
from threadmark.errors import InvalidArgumentError
from threadmark.pregel.stream import MODES
from threadmark.types import All, Durability, OnConflict, StreamMode

if TYPE_CHECKING:
    from threadmark.pregel.launch import Options
    from threadmark.pregel.main import Pregel

__all__ = [
    "as_modes",
    "check_checkpointer",
    "check_options",
    "check_place",
    "check_surroundings",
    "count",
    "known_checkpoints",
    "listed",
    "merged",
    "namespace_of",
    "output_keys",
    "owner",
    "stops",
]


def listed(name: str, value: Any, of: str) -> list[str]:
    """Return a list of texts that was given; a single text may stand for itself.

    Raises:
        InvalidArgumentError: It is something else.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        found = list(value)
        if all(isinstance(one, str) for one in found):
            return found
    raise wrong(name, value, f"a list of {of}")


def check_options(options: Options) -> None:
    """Refuse options of a run that have no meaning.

    Raises:
        InvalidArgumentError: One has none.
    """
    one_of("durability", options.durability, (*get_args(Durability), None))
    one_of("on_conflict", options.on_conflict, (*get_args(OnConflict), None))
    one_of("version", options.version, ("v1", "v2"))
    flag("subgraphs", options.subgraphs)
    for name in ("interrupt_before", "interrupt_after"):
        given = getattr(options, name)
        if given is not None:
            listed(name, given, "nodes, or '*'")


def as_modes(mode: StreamMode | Sequence[StreamMode]) -> frozenset[str]:
    """Return stream modes as a set.

    Raises:
        InvalidArgumentError: A mode does not exist.
    """
    modes = frozenset(listed("stream_mode", mode, "stream modes"))
    unknown = sorted(modes - MODES)
    if unknown:
        raise InvalidArgumentError(
            f"stream_mode names {', '.join(map(repr, unknown))}. There are: {', '.join(sorted(MODES))}."
        )
    return modes


def stops(graph: Pregel, name: str, names: All | Sequence[str]) -> str | frozenset[str]:
    """Return the nodes to pause at.

    Raises:
        InvalidArgumentError: A name is no node.
    """
    if isinstance(names, str) and names == "*":
        return "*"
    given = frozenset(listed(name, names, "nodes, or '*'"))
    unknown = sorted(given - graph.plan.nodes.keys())
    if unknown:
        known = ", ".join(n for n, node in sorted(graph.plan.nodes.items()) if not node.hidden)
        unknown = list(map(repr, unknown))
        raise InvalidArgumentError(f"{name} names {', '.join(unknown)}, which is no node. Nodes: {known}.")
    return given


def output_keys(graph: Pregel, keys: str | Sequence[str] | None) -> str | tuple[str, ...]:
    """Return the state keys of a run's output.

    Raises:
        InvalidArgumentError: A key is not part of the state.
    """
    if keys is None:
        return graph.plan.output_keys
    given = listed("output_keys", keys, "keys of the state")
    unknown = [k for k in given if k not in graph.plan.channels]
    if unknown:
        raise InvalidArgumentError(
            f"output_keys names {', '.join(map(repr, unknown))}, not part of the state."
        )
    return keys if isinstance(keys, str) else tuple(given)


def count(config: RunnableConfig, option: str) -> int | None:
    """Return an option of a config that counts something.

    Raises:
        InvalidArgumentError: It is not a whole number, or less than 1.
    """
    value = config.get(option)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise wrong(option, value, "a whole number of at least 1")
    return value


def merged(base: RunnableConfig | None, config: RunnableConfig | None) -> RunnableConfig:
    """Return two configs as one; dicts are merged, tags are joined, the second wins elsewhere.

    Raises:
        InvalidArgumentError: A config is not a dict.
    """
    result: dict[str, Any] = dict(base or {})
    instance("config", config, Mapping | None, "a dict")
    for key, value in (config or {}).items():
        if value is None:
            continue
        if key in ("configurable", "metadata"):
            if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
                raise wrong(f"config[{key!r}]", value, "a dict with texts as keys")
            result[key] = {**(result.get(key) or {}), **value}
        elif key == "tags":
            tags = listed("config['tags']", value, "texts")
            result[key] = list(dict.fromkeys([*(result.get(key) or ()), *tags]))
        else:
            check_entry(key, value)
            result[key] = value
    return result  # type: ignore[return-value]


def check_entry(key: str, value: Any) -> None:
    """Refuse an entry of a config that is of the wrong kind.

    Raises:
        InvalidArgumentError: It is.
    """
    name = f"config[{key!r}]"
    if key == "run_id":
        instance(name, value, str | UUID | int, "an id: a UUID or a text")
        if isinstance(value, bool) or value == "":
            raise wrong(name, value, "an id: a UUID or a text")
    elif key == "run_name":
        text(name, value)
    elif key == "callbacks" and not isinstance(value, list) and not hasattr(value, "add_handler"):
        raise wrong(name, value, "a list of callback handlers, or a callback manager")


def namespace_of(configurable: Mapping[str, Any]) -> str:
    """Return the namespace that a config names, `""` for the root graph.

    Raises:
        InvalidArgumentError: It is no text.
    """
    ns = configurable.get("checkpoint_ns")
    if not isinstance(ns, str | None):
        raise wrong("config['configurable']['checkpoint_ns']", ns, "a text")
    return ns or ""


def owner(graph: Pregel, ns: str) -> Pregel:
    """Return the graph whose checkpoints a namespace holds.

    Raises:
        InvalidArgumentError: This graph has no such sub-graph.
    """
    if not ns:
        return graph
    # A second run in one task is told apart by a number at the end of its namespace.
    names = [part.partition(":")[0] for part in ns.split("|") if not part.isdigit()]
    for name in names:
        node = graph.plan.nodes.get(graph.plan.renames.get(name, name))
        if node is None or not node.subgraphs:
            raise InvalidArgumentError(
                f"The namespace {ns!r} (checkpoint_ns) names no sub-graph of {graph.name!r}."
            )
        graph = node.subgraphs[0]
    return graph


def check_place(configurable: Mapping[str, Any]) -> None:
    """Refuse a checkpoint or a branch that is named by something else than a text.

    Raises:
        InvalidArgumentError: It is.
    """
    for key in ("checkpoint_id", "branch"):
        given = configurable.get(key)
        instance(f"config['configurable'][{key!r}]", given, str | None, "a text")
        if given == "" and key == "branch":
            raise wrong("config['configurable']['branch']", given, "a text that is not empty")
    known_checkpoints(configurable)


def known_checkpoints(configurable: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the checkpoints that a config names by namespace.

    Raises:
        InvalidArgumentError: They are no texts.
    """
    known = configurable.get("checkpoint_map")
    known = {} if known is None else known
    usable = isinstance(known, Mapping) and all(isinstance(ns, str) for ns in known)
    if not usable or not all(isinstance(one, str | None) for one in known.values()):
        raise wrong("config['configurable']['checkpoint_map']", known, "a dict from namespaces to ids")
    return known


def check_surroundings(store: Any, cache: Any, context_schema: Any) -> None:
    """Refuse what is no store, no cache, or no type.

    Raises:
        InvalidArgumentError: It is none.
    """
    for name, given, module, base in (
        ("store", store, "threadmark.store.base", "BaseStore"),
        ("cache", cache, "threadmark.cache.base", "BaseCache"),
    ):
        # Whoever has one has imported its module; those who have none shall not pay for it.
        loaded = sys.modules.get(module)
        if given is not None and (loaded is None or not isinstance(given, getattr(loaded, base))):
            raise wrong(name, given, f"a {base}, or None")
    if context_schema is not None and not isinstance(context_schema, type) and not get_origin(context_schema):
        raise wrong("context_schema", context_schema, "a class, or None")


def check_checkpointer(checkpointer: Any) -> None:
    """Refuse what is no saver.

    Raises:
        InvalidArgumentError: It is none.
    """
    if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
        raise InvalidArgumentError(
            f"checkpointer is a saver, True, False or None, not {shown(checkpointer)}. "
            f"(from_conn_string is a context manager: use it with `with`.)"
        )
