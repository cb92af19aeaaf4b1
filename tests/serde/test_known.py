"""Only known types are rebuilt. Reading never imports."""

from __future__ import annotations

import builtins
import enum
import importlib
import subprocess
import sys
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import attrs
import pydantic
import pytest

from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer, fingerprint
from threadmark.checkpoint.serde.opaque import Opaque
from threadmark.errors import InvalidArgumentError, SerializationError, UnknownTypeError

from . import sample_types as t

VALUES: list[Any] = [
    t.Point(1), t.Frozen(1), t.Slotted(1), t.Derived(1), t.Pair(1), t.Attrs(1), t.Plain(1), t.Model(a=1),
    t.OpenModel(z=1), t.Color.RED, t.Rights(3), t.MyInt(1), t.MyStr("x"), t.MyDict(a=1), t.MyList([1]),
    t.Outer.Inner.A, t.Outer.Nested(1), t.Point, t.MyDatetime(2020, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_an_unknown_type_is_an_error_that_names_the_line_to_write_and_the_data_stays(
    serde: JsonPlusSerializer, value: Any
) -> None:
    stored = serde.dumps_typed({"here": [value]})
    cls = value if isinstance(value, type) else type(value)
    name = f"{t.__name__}:{cls.__qualname__}"
    with pytest.raises(UnknownTypeError) as caught:
        JsonPlusSerializer().loads_typed(stored)
    assert caught.value.type_name == name
    assert f"serde.allow({name!r})" in str(caught.value)
    assert JsonPlusSerializer().allow(name).loads_typed(stored) == {"here": [value]}


def test_reading_never_imports(serde: JsonPlusSerializer, monkeypatch: pytest.MonkeyPatch) -> None:
    known = serde.dumps_typed([VALUES, 2**70, (1,), {1, 2}])
    name = b"colorsys".ljust(len(t.__name__), b"_")
    hostile = serde.dumps_typed(t.Point(1))[1].replace(t.__name__.encode(), name)
    imported = []

    def note(name: str, *args: Any, **kwargs: Any) -> Any:
        imported.append(name)
        raise ImportError

    with monkeypatch.context() as patched:
        patched.setattr(importlib, "import_module", note)
        patched.setattr(builtins, "__import__", note)
        serde.loads_typed(known)
        with pytest.raises(UnknownTypeError):
            serde.loads_typed(("msgpack", hostile))
    assert imported == []


def test_libraries_that_the_program_has_not_loaded_are_not_loaded_by_reading() -> None:
    import numpy as np
    from langchain_core.messages import HumanMessage

    stored = JsonPlusSerializer().dumps_typed([HumanMessage("hi"), np.arange(3)])
    program = f"""
import sys
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer, fingerprint
from threadmark.errors import UnknownTypeError
try:
    JsonPlusSerializer().loads_typed({stored!r})
except UnknownTypeError as error:
    print(error.type_name)
print(JsonPlusSerializer(opaque=True).loads_typed({stored!r})[0].fields["content"])
print([name for name in ("numpy", "pydantic", "langchain_core") if name in sys.modules])
print(type(JsonPlusSerializer().allow("langchain_core.messages.human:HumanMessage")
    .allow("numpy:ndarray").loads_typed({stored!r})[0]).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == [
        "langchain_core.messages.human:HumanMessage", "hi", "[]", "HumanMessage", "",
    ]  # fmt: skip


def test_a_derived_serializer_shares_nothing_with_its_origin(serde: JsonPlusSerializer) -> None:
    base = JsonPlusSerializer()
    derived = base.with_types([t.Point])
    stored = derived.dumps_typed(t.Point(1))
    assert derived.loads_typed(stored) == t.Point(1)
    with pytest.raises(UnknownTypeError):
        base.loads_typed(stored)
    derived.allow(t.Slotted)
    with pytest.raises(UnknownTypeError):
        base.with_types([t.Point]).dumps_typed(t.Slotted(1))


def test_registering_a_type_blocks_no_other() -> None:
    serde = JsonPlusSerializer().with_types([t.Point]).allow(t.Color)
    value = [t.Point(1), t.Color.RED, ValueError("x"), (1, 2)]
    loaded = serde.loads_typed(serde.dumps_typed(value))
    assert loaded[:2] + loaded[3:] == value[:2] + value[3:]


def test_the_argument_that_users_know_makes_classes_known() -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[t.Color, (t.__name__, "Point")])
    value = [t.Color.RED, t.Point(1), (1, 2)]
    assert serde.loads_typed(serde.dumps_typed(value)) == value
    with pytest.raises(InvalidArgumentError, match="Name the classes"):
        JsonPlusSerializer(allowed_msgpack_modules=True)


@pytest.mark.parametrize("name", ["nowhere:X", "builtins", ":", "builtins:nothing", "os:path", "os:getcwd"])
def test_what_is_no_class_is_not_allowed(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        JsonPlusSerializer().allow(name)


# Types that change


def renamed(new: Any, old: Any) -> Any:
    """Let a class look like another version of one that was stored."""
    new.__module__, new.__qualname__, new.__name__ = old.__module__, old.__qualname__, old.__name__
    return new


@dataclass
class Grown:
    x: Any
    y: Any = 0
    tags: list[str] = field(default_factory=lambda: ["new"])


@attrs.define
class GrownAttrs:
    a: Any
    c: Any = attrs.field(factory=dict)


class GrownModel(pydantic.BaseModel):
    a: Any = None
    tags: list[str] = pydantic.Field(default_factory=lambda: ["new"])
    _more: int = pydantic.PrivateAttr(default=9)


class Shrunk(pydantic.BaseModel):
    b: int = 4


def read_as(new: Any, value: Any, serde: JsonPlusSerializer) -> Any:
    stored = serde.dumps_typed([value])
    return JsonPlusSerializer().allow(renamed(new, type(value))).loads_typed(stored)[0]


def test_a_dataclass_may_gain_fields_with_defaults(serde: JsonPlusSerializer) -> None:
    one = read_as(Grown, t.Point(1, 2), serde)
    assert (one.x, one.y, one.tags) == (1, 2, ["new"])
    assert read_as(Grown, t.Point(1, 2), serde).tags is not one.tags


def test_a_dataclass_may_lose_fields(serde: JsonPlusSerializer) -> None:
    new = make_dataclass("New", ["x"])
    loaded = read_as(new, t.Point(1, 2), serde)
    assert vars(loaded) == {"x": 1}


def test_a_field_without_a_default_is_missed_by_name(serde: JsonPlusSerializer) -> None:
    for new in (make_dataclass("New", ["x", "z"]), make_dataclass("New", ["x", "z"], slots=True)):
        with pytest.raises(SerializationError, match="field 'z' that the stored data lacks"):
            read_as(new, t.Point(1, 2), serde)


def test_an_attrs_class_may_change(serde: JsonPlusSerializer) -> None:
    assert read_as(GrownAttrs, t.Attrs(1, 5), serde) == GrownAttrs(1, {})


def test_a_model_may_change(serde: JsonPlusSerializer) -> None:
    value = t.Model(a=1)
    value._secret = "s"
    grown = read_as(GrownModel, value, serde)
    assert (grown.a, grown.tags, grown._more) == (1, ["new"], 9)
    assert grown.model_fields_set == {"a"}
    assert read_as(Shrunk, t.Model(a=1, b=7), serde).b == 7
    required = pydantic.create_model("Model", z=(int, ...))
    with pytest.raises(SerializationError, match="field 'z'"):
        read_as(required, t.Model(), serde)


def test_a_named_tuple_may_change(serde: JsonPlusSerializer) -> None:
    from collections import namedtuple

    new = namedtuple("Pair", ["right", "third"], defaults=[3])
    assert read_as(new, t.Pair(1, 2), serde) == (2, 3)


def test_an_enum_member_that_is_gone_is_named(serde: JsonPlusSerializer) -> None:
    new = enum.Enum("Color", {"GREEN": "green"})
    assert read_as(new, t.Color.GREEN, serde) is new.GREEN  # type: ignore[attr-defined]
    with pytest.raises(SerializationError, match="no longer has the member 'RED'"):
        read_as(enum.Enum("Color", {"GREEN": "green"}), t.Color.RED, serde)


def test_a_class_that_moved_is_found_by_its_old_name(serde: JsonPlusSerializer) -> None:
    stored = serde.dumps_typed([t.Point(1, 2), t.Color.RED])
    moved = JsonPlusSerializer().allow(t.Frozen, was=f"{t.__name__}:Point")
    moved.allow(t.Level, was=f"{t.__name__}:Color")
    with pytest.raises(SerializationError, match="field 'a'"):
        moved.loads_typed(stored)
    fits = make_dataclass("Elsewhere", ["x", "y"])
    moved = JsonPlusSerializer().allow(fits, was=f"{t.__name__}:Point").allow(t.Color)
    assert moved.loads_typed(stored) == [fits(1, 2), t.Color.RED]
    assert moved.dumps_typed(fits(1, 2))[1] != stored[1], "it is written under its new name"


def test_a_class_that_became_another_kind_is_refused(serde: JsonPlusSerializer) -> None:
    with pytest.raises(SerializationError, match="another kind of class"):
        read_as(GrownModel, t.Point(1), serde)


# Looking at what is not known


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_an_opaque_value_prints_and_is_written_as_the_same_bytes(
    serde: JsonPlusSerializer, value: Any
) -> None:
    viewer = JsonPlusSerializer(opaque=True)
    for nested in ([value], t.Point(t.Point([value])), {"k": (value,)}):
        stored = serde.dumps_typed(nested)
        seen = viewer.loads_typed(stored)
        assert viewer.dumps_typed(seen) == stored
        assert type(value).__name__ in repr(seen) or value.__name__ in repr(seen)


def test_an_opaque_value_shows_its_fields(serde: JsonPlusSerializer) -> None:
    def viewer(value: Any) -> Any:
        return JsonPlusSerializer(opaque=True).loads_typed(serde.dumps_typed(value))

    seen = viewer({"p": t.Point([t.Color.RED], t.MyDict(a=1))})["p"]
    assert isinstance(seen, Opaque)
    assert seen.type_name == f"{t.__name__}:Point"
    assert repr(seen) == "Point(x=[Color(name='RED')], y=MyDict(value={'a': 1}))"
    assert viewer({t.Frozen(1)}) == viewer({t.Frozen(1)})


def test_nested_opaque_values_cost_what_they_weigh(serde: JsonPlusSerializer) -> None:
    value: Any = 0
    for _ in range(90):
        value = t.Point(value, value and 1)
    stored = serde.dumps_typed(value)
    assert repr(JsonPlusSerializer(opaque=True).loads_typed(stored)).count("Point(") == 90


def test_an_extension_of_a_later_version_can_be_looked_at() -> None:
    stored = ("msgpack", b"\x92\x01\xd4\x7e\x00")
    with pytest.raises(SerializationError):
        JsonPlusSerializer().loads_typed(stored)
    viewer = JsonPlusSerializer(opaque=True)
    assert repr(viewer.loads_typed(stored)) == "[1, 126()]"
    assert viewer.dumps_typed(viewer.loads_typed(stored)) == stored


# Values that are only compared


def test_a_fingerprint_needs_no_known_types_and_tells_types_apart() -> None:
    assert fingerprint([t.Point(1), {2, 1}]) == fingerprint([t.Point(1), {1, 2}])
    values = [1, 1.0, True, "1", b"1", (1,), [1], t.Point(1), t.Frozen(1), t.MyInt(1), {1}, frozenset([1])]
    assert len({fingerprint(value) for value in values}) == len(values)
    with pytest.raises(SerializationError) as caught:
        fingerprint([t.Point(len)])
    assert caught.value.path == "[0].x"
