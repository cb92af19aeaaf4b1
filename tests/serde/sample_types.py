"""Classes of every kind that a program may define, for the tests of the serializer."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
from functools import cached_property
from typing import Any, NamedTuple

import attrs
import pydantic


class Color(enum.Enum):
    RED = 1
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, enum.Enum):  # noqa: UP042 - the older form is the one to test
    YES = "yes"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Outer:
    class Inner(enum.Enum):
        A = "a"

    @dataclasses.dataclass
    class Nested:
        value: Any = None


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any = None


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: Any = None


@dataclasses.dataclass
class Derived:
    """Has a field that `__init__` does not take, a default, and an attribute of its own."""

    start: int
    total: int = dataclasses.field(init=False)
    label: str = dataclasses.field(default="none", init=False)

    def __post_init__(self) -> None:
        self.total = self.start * 2
        self.extra = [self.start]

    @cached_property
    def expensive(self) -> int:
        return self.total * 10


class Pair(NamedTuple):
    left: Any
    right: Any = None


@attrs.define
class Attrs:
    a: Any
    _b: Any = 2


@attrs.define(slots=False, frozen=True)
class FrozenAttrs:
    a: Any


class Plain:
    def __init__(self, a: Any) -> None:
        self.a = a

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.a == other.a

    __hash__ = None  # type: ignore[assignment]


class PlainSlots:
    __slots__ = ("__hidden", "a")

    def __init__(self, a: Any) -> None:
        self.a = a
        self.__hidden = "kept"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainSlots) and (self.a, self.__hidden) == (other.a, other.__hidden)

    __hash__ = None  # type: ignore[assignment]


class Model(pydantic.BaseModel):
    a: Any = None
    b: int = 3
    _secret: Any = pydantic.PrivateAttr(default=0)


class OpenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: Any = None


class FrozenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    a: int = 1


class MyInt(int):
    pass


class MyStr(str):
    __slots__ = ("note",)


class MyFloat(float):
    pass


class MyBytes(bytes):
    pass


class MyList(list[Any]):
    pass


class MyDict(dict[Any, Any]):
    pass


class Shouting(dict[str, Any]):
    """Overrides what reading and filling a dict would use."""

    def __setitem__(self, key: str, value: Any) -> None:
        raise AssertionError("no code of the class may run")

    def items(self) -> Any:
        raise AssertionError("no code of the class may run")

    def __iter__(self) -> Any:
        raise AssertionError("no code of the class may run")


class MySet(set[Any]):
    pass


class MyFrozenSet(frozenset[Any]):
    pass


class MyTuple(tuple[Any, ...]):
    pass


class MyOrdered(collections.OrderedDict[Any, Any]):
    pass


class MyDefault(collections.defaultdict[Any, Any]):
    pass


class MyCounter(collections.Counter[Any]):
    pass


class MyDeque(collections.deque[Any]):
    pass


class MyDecimal(decimal.Decimal):
    pass


class MyDatetime(dt.datetime):
    pass


class MyDate(dt.date):
    pass


class MyTime(dt.time):
    pass


class MyDelta(dt.timedelta):
    pass


class MyError(Exception):
    def __init__(self, code: Any) -> None:
        super().__init__(f"code {code}")
        self.code = code


ALL: list[type] = [
    value
    for value in [*list(globals().values()), Outer.Inner, Outer.Nested]
    if isinstance(value, type) and value.__module__ == __name__
]
