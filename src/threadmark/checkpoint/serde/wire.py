"""The constants of the format: extension codes, MessagePack options and limits.

`docs/format.md` describes every code byte for byte; a code that was released keeps its meaning for
ever. Codes below 16 are the extensions of LangGraph's serializer, which we read and never write. This
module knows no Python type.
"""

from __future__ import annotations

import ormsgpack

PACK_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""Everything that MessagePack would flatten is handed to us."""

ANY_KEYS = ormsgpack.OPT_NON_STR_KEYS
"""Allows keys other than strings. Writing, it would also flatten keys that it has no place for."""

MAX_OBJECT_DEPTH = 100
"""How deep extensions may nest in each other."""

MAX_PLAIN_DEPTH = 255
"""How deep lists and dicts may nest in each other without an extension between: `ormsgpack`'s limit."""

CHECKED_DEPTH = 4
"""From this depth of extensions on, the nesting of all that is inside is bounded by the next figure."""

MAX_INNER_DEPTH = 400
"""Together with the limits above: decoding the worst data takes less than half of an 8 MB stack."""

# Codes 0 to 15: the peer's
FIRST_OWN_CODE = 16

# What MessagePack has, but not in this form
TEXT = 16
INTEGER = 17
TUPLE = 18
SET = 19
FROZENSET = 20
MAP = 21
BYTEARRAY = 22

# Values of the standard library
DATETIME = 23
DATE = 24
TIME = 25
TIMEDELTA = 26
TIMEZONE = 27
ZONE = 28
DECIMAL = 29
FRACTION = 30
COMPLEX = 31
RANGE = 32
UUID = 33
PATH = 34
IP = 35
PATTERN = 36
SLICE = 37
CONSTANT = 38
ORDERED_DICT = 39
COUNTER = 40
DEFAULT_DICT = 41
DEQUE = 42

# Classes, and instances of classes
CLASS = 43
ENUM = 44
EXCEPTION = 45
RECORD = 46
MODEL = 47
NAMED_TUPLE = 48
SUBCLASS = 49

# Libraries
ARRAY = 50
SCALAR = 51
MESSAGE = 52


def array(items: list[bytes]) -> bytes:
    """Return the encoding of a list whose items are encoded already."""
    return array_header(len(items)) + b"".join(items)


def array_header(length: int) -> bytes:
    """Return what MessagePack puts before the items of a list."""
    if length < 16:
        return bytes((0x90 | length,))
    if length < 0x10000:
        return b"\xdc" + length.to_bytes(2, "big")
    return b"\xdd" + length.to_bytes(4, "big")
