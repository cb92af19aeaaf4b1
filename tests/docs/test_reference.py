"""The reference names everything that the public modules offer."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
ERRORS = (REFERENCE / "errors.md").read_text(encoding="utf-8")

MODULES = (
    "threadmark.channels",
    "threadmark.checkpoint.base",
    "threadmark.checkpoint.memory",
    "threadmark.checkpoint.serde.base",
    "threadmark.checkpoint.serde.encrypted",
    "threadmark.checkpoint.serde.jsonplus",
    "threadmark.checkpoint.sqlite",
    "threadmark.config",
    "threadmark.constants",
    "threadmark.errors",
    "threadmark.graph",
    "threadmark.graph.message",
    "threadmark.runtime",
    "threadmark.types",
)
METHODS = (
    ("threadmark.graph.state", "StateGraph"),
    ("threadmark.graph.state", "CompiledStateGraph"),
    ("threadmark.checkpoint.base", "BaseCheckpointSaver"),
)
INTERNAL = {
    # What the engine, the saver's facade and other savers use of a saver; the reference shows the facade.
    "find_threads", "count_threads", "get_thread", "update_thread", "take_lease", "drop_lease",
    # What users of the peer call on a graph, with another name for the same here.
    "get_name", "as_context", "copy",
}  # fmt: skip


@cache
def words() -> frozenset[str]:
    """Every name that stands in code on a page of the reference."""
    pages = [path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")]
    spans = [span for page in pages for span in re.findall(r"`([^`\n]+)`", page)]
    return frozenset(name for span in spans for name in re.findall(r"\w+", span))


@pytest.mark.parametrize("name", MODULES)
def test_everything_that_a_module_offers_is_named(name: str) -> None:
    offered = set(importlib.import_module(name).__all__)
    assert offered
    assert offered - words() == set()


@pytest.mark.parametrize(("module", "name"), METHODS)
def test_every_method_is_named(module: str, name: str) -> None:
    cls = getattr(importlib.import_module(module), name)
    methods = {
        key
        for base in cls.__mro__
        for key, member in vars(base).items()
        if callable(member) and not key.startswith("_") and base.__module__.startswith("threadmark")
    }
    sync = {key for key in methods if not (key[0] == "a" and key[1:] in methods)}
    assert sync - words() - INTERNAL == set()


def test_the_page_of_errors_has_a_row_for_each() -> None:
    from threadmark import errors

    rows = re.findall(r"^\| `(\w+)`", ERRORS, re.MULTILINE)
    assert sorted(rows) == sorted(errors.__all__)
