"""A type that is named anywhere in a schema is known without a word from the user."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NewType,
    NotRequired,
    TypedDict,
    TypeVar,
)

import attrs
import pydantic
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from typing_extensions import TypeAliasType

from threadmark.checkpoint.serde import collect_types
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

from . import sample_types as t

T = TypeVar("T")
Bound = TypeVar("Bound", bound=t.Frozen)
UserId = NewType("UserId", t.MyInt)


class Box(Generic[T]):
    content: T


class Typed(pydantic.BaseModel, Generic[T]):
    content: T


@dataclass
class Holder:
    point: list[t.Point | None]
    later: Later
    date: dt.date | None = None


@dataclass
class Later:
    color: t.Color


@attrs.define
class Held:
    slotted: dict[str, t.Slotted]


class Parent(TypedDict):
    inherited: t.Plain


class State(Parent):
    holder: Annotated[list[Holder], max]
    box: NotRequired[Box[t.Attrs]]
    typed: Typed[t.Model]
    held: Held | None
    pair: tuple[t.Pair, ...]
    literal: Literal[t.Level.LOW, "text"]
    user: UserId
    call: Callable[[t.MyDict], t.MyList]
    bound: list[Bound]
    unresolved: Nowhere  # type: ignore[name-defined]  # noqa: F821
    shared: ClassVar[t.MySet]


NAMED = [
    State, t.Plain, Holder, t.Point, Later, t.Color, dt.date, Box, t.Attrs, Typed[t.Model], t.Model, Held,
    t.Slotted, t.Pair, t.Level, t.MyInt, t.MyDict, t.MyList, t.Frozen,
]  # fmt: skip


@pytest.mark.parametrize("cls", NAMED, ids=lambda cls: cls.__qualname__)
def test_every_class_that_a_schema_names_is_found(cls: type) -> None:
    assert cls in collect_types(State)


def test_what_no_instance_holds_is_not_collected() -> None:
    assert t.MySet not in collect_types(State)
    assert not any(cls.__module__.startswith("pydantic._internal") for cls in collect_types(State))


def test_an_unresolvable_name_is_passed_over_and_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "threadmark.serde"):
        collect_types(State)
    assert "Nowhere" in caplog.text


def test_annotations_and_functions_are_schemas_too() -> None:
    def node(state: t.Point, *, n: t.Color | None = None) -> list[t.Pair]:
        return []

    assert {t.Point, t.Color, t.Pair} <= collect_types(node)
    assert {t.Point, t.Color} <= collect_types(dict[t.Point, "t.Color"]) | collect_types(t.Color)
    assert collect_types(None) == set() == collect_types(Any)


def test_an_alias_is_followed_even_in_circles() -> None:
    tree = TypeAliasType("tree", "dict[str, tree] | t.Point")  # type: ignore[misc]
    assert t.Point in collect_types(TypeAliasType("Points", list[t.Point]))  # type: ignore[misc]
    assert collect_types(tree) is not None

    @dataclass
    class Node:
        children: list[Node]
        kind: t.Color

    assert t.Color in collect_types(Node)


def test_what_is_collected_can_be_stored_and_read_by_another_process_of_the_same_program() -> None:
    def serde() -> JsonPlusSerializer:
        return JsonPlusSerializer().with_types(collect_types(State))

    value = {
        "holder": [Holder([t.Point(1)], Later(t.Color.RED))],
        "typed": Typed[t.Model](content=t.Model(a=1)),
        "held": Held({"k": t.Slotted(1)}),
        "literal": t.Level.LOW,
    }
    assert serde().loads_typed(serde().dumps_typed(value)) == value


def test_langchain_messages_are_found_in_their_union() -> None:
    class Chat(TypedDict):
        messages: list[AnyMessage]

    assert {AIMessage, HumanMessage} <= collect_types(Chat)
