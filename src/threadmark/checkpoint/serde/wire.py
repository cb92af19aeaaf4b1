"""The constants of the format: extension codes, MessagePack options and limits.

`docs/format.md` describes every code byte for byte; a code that was released keeps its meaning for
ever. Codes below 16 belong to the extensions of LangGraph's serializer, which we read and never
write. This module knows no Python type.
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

LOOSE_KEYS = ormsgpack.OPT_NON_STR_KEYS
"""Reads maps with keys of any kind. We write none; the peer does."""

MAX_EXTENSION_DEPTH = 100
"""How deep extensions may nest in each other."""

TEXT = 16
INTEGER = 17
TUPLE = 18
SET = 19
FROZENSET = 20
MAP = 21
BYTEARRAY = 22
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
CLASS = 43
ENUM = 44
EXCEPTION = 45
RECORD = 46
MODEL = 47
NAMED_TUPLE = 48
SUBCLASS = 49
ARRAY = 50
SCALAR = 51
MESSAGE = 52
