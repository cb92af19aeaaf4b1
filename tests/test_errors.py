"""Errors are one family, say what to do, and carry their facts."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest

from threadmark import errors
from threadmark.errors import GraphBubbleUp, ThreadmarkError

FACTS: dict[str, dict[str, Any]] = {
    "CheckpointNotFoundError": {"thread_id": "t", "checkpoint_id": "c"},
    "GraphChangedError": {"nodes": ("ask",)},
    "GraphMismatchError": {"thread_id": "t", "expected": "shop", "found": "bank"},
    "LeaseLostError": {"thread_id": "t"},
    "MultipleInterruptsError": {"pending": ("a", "b")},
    "NodeTimeoutError": {"node": "slow", "timeout": 2.5},
    "NotOfferedError": {"who": "MySaver", "what": "prune"},
    "StoreConflictError": {"namespace": ("a", "b"), "key": "k", "expected": 1, "found": 2},
    "ThreadConflictError": {"thread_id": "t", "checkpoint_ns": "ns", "expected": "c1", "found": "c2"},
    "ThreadDeletedError": {"thread_id": "t"},
    "UnknownInterruptError": {"unknown": ("a",), "pending": ("b",)},
    "UnknownTypeError": {"type_name": "shop:Order"},
    "ValueTooLargeError": {"channel": "messages", "size": 20, "limit": 10},
}
"""The errors that are made from their facts, with some."""
TOLD = {"SerializationError", "EncryptionError", "StoredError", "StorageCorruptError"}
"""Those that are given their message, and facts beside it."""


def all_errors() -> list[type[ThreadmarkError]]:
    """Every error class."""
    found = [getattr(errors, name) for name in errors.__all__]
    return [cls for cls in found if isinstance(cls, type) and issubclass(cls, BaseException)]


@pytest.mark.parametrize("cls", all_errors(), ids=lambda cls: cls.__name__)
def test_every_error_is_of_the_family_and_says_what_it_is(cls: type[ThreadmarkError]) -> None:
    assert issubclass(cls, ThreadmarkError)
    assert (cls.__doc__ or "").strip()


@pytest.mark.parametrize("name", FACTS)
def test_an_error_carries_its_facts_and_names_the_remedy(name: str) -> None:
    facts = FACTS[name]
    error = getattr(errors, name)(**facts)
    assert {key: getattr(error, key) for key in facts} == facts
    said = str(error)
    for fact in facts.values():
        for part in fact if isinstance(fact, tuple) else (fact,):
            assert str(part) in said
    assert len(said.split(". ")) > 1, "one sentence says what happened, another what to do"


def test_every_error_that_is_made_from_facts_is_in_the_table() -> None:
    plain = inspect.signature(Exception.__init__)
    own = {cls.__name__ for cls in all_errors() if inspect.signature(cls.__init__) != plain}
    told_otherwise = {cls.__name__ for cls in all_errors() if issubclass(cls, GraphBubbleUp)}
    assert own - told_otherwise - TOLD == set(FACTS)


def test_where_a_value_is_can_be_added_later() -> None:
    error = errors.SerializationError("No", path="[3].args").at(channel="messages", node="ask")
    assert str(error) == "No (channel 'messages', written by node 'ask', at messages[3].args)"
    assert copy.copy(error).channel == "messages"


@pytest.mark.parametrize(
    ("cls", "known"),
    [
        (errors.CheckpointNotFoundError, LookupError),
        (errors.GraphError, ValueError),
        (errors.GraphRecursionError, RecursionError),
        (errors.InvalidArgumentError, ValueError),
        (errors.MissingDependencyError, ImportError),
        (errors.MultipleInterruptsError, RuntimeError),
        (errors.NodeTimeoutError, TimeoutError),
        (errors.NotOfferedError, NotImplementedError),
        (errors.SerializationError, TypeError),
        (errors.UnknownInterruptError, ValueError),
    ],
)
def test_who_catches_the_built_in_class_catches_ours(cls: type[Exception], known: type[Exception]) -> None:
    assert issubclass(cls, known)
