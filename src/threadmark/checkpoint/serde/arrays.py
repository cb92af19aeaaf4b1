"""NumPy arrays and scalars of every dtype.

The array's own bytes follow a short header. Arrays of objects and of variable-length text are stored
as lists of encoded items. NumPy is never imported here: an array can only exist where the program did.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from ormsgpack import Ext

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.codec import Decoder, Encoder, Level
from threadmark.checkpoint.serde.dtypes import describe, dtype_of, is_listed, simple_dtype
from threadmark.errors import SerializationError, UnknownTypeError

__all__ = ["DECODERS", "array_encoder", "array_of"]

_NUMBERS = frozenset("bBhHiIlLqQefdgFDG")
"""Types of items of which any bytes are one. They are what most arrays hold."""
_MAX_CHARACTER = 0x10FFFF
_ROOM = 1 << 20
_GROWTH = 4096


def array_encoder(cls: type) -> Encoder | None:
    """Return the encoder of a NumPy type, or `None` when the class is no such type."""
    np = sys.modules.get("numpy")
    if np is None:
        return None
    if cls is np.ndarray:
        return _encode_array
    if issubclass(cls, np.generic):
        return _encode_text if issubclass(cls, (str, bytes)) else _encode_scalar
    return None


def _encode_array(value: Any, level: Level) -> Ext:
    return Ext(wire.ARRAY, _content(value, level))


def _encode_scalar(value: Any, level: Level) -> Ext:
    np = sys.modules["numpy"]
    # Through an empty array: asarray would look into records and texts.
    array = np.empty((), value.dtype)
    array[()] = value
    if type(array[()]) is not type(value):
        raise SerializationError(f"A {type(value).__name__} scalar cannot be kept. Store an array")
    return Ext(wire.SCALAR, _content(array, level))


def _encode_text(value: Any, level: Level) -> Ext:
    # In an array they would lose NUL characters at the end.
    plain = bytes.__bytes__(value) if isinstance(value, bytes) else str.__str__(value)
    return Ext(wire.SCALAR, level.pack([plain]))


def _content(value: Any, level: Level) -> bytes:
    np = sys.modules["numpy"]
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    dtype = value.dtype
    header = [describe(dtype), list(value.shape), order]
    if is_listed(dtype):
        content = level.pack([*header, value.flatten(order).tolist()])
        _check_room(dtype.itemsize * value.size, content)
        return content
    if not dtype.itemsize and value.size:
        raise SerializationError("An array whose items have no bytes cannot be kept")
    if dtype.names is not None:
        # Between fields there may be bytes that were never set: whatever was in memory before.
        value, unclean = np.zeros(value.shape, dtype, order), value
        value[...] = unclean
    raw: bytes = value.tobytes(order)
    return level.pack(header) + raw


def _check_room(size: int, content: bytes) -> None:
    if size > _ROOM + _GROWTH * len(content):
        raise SerializationError("A list of array items is far smaller than the array it describes")


def _decode_array(data: bytes, level: Level) -> Any:
    np = sys.modules.get("numpy")
    if np is None:
        raise UnknownTypeError("numpy:ndarray")
    parts = level.unpack(data)
    if len(parts) != 3:
        return _listed(np, data, *parts)
    described, shape, order = parts
    dtype, count = _checked(np, described, shape, order)
    size = count * dtype.itemsize
    start = len(data) - size
    if start <= 0:
        raise _wrong_length()
    if size and dtype.char in _NUMBERS:
        return np.ndarray(shape, dtype, data, start, None, order).copy(order)
    return _from_bytes(np, dtype, shape, order, data, start)


def _listed(np: Any, data: bytes, described: Any, shape: Any, order: Any, items: Any) -> Any:
    """Return the array whose items are a list."""
    dtype, count = _checked(np, described, shape, order)
    _check_room(dtype.itemsize * count, data)
    return _from_list(np, dtype, count, items).reshape(shape, order=order)


def array_of(np: Any, described: Any, shape: Any, order: Any, raw: bytes) -> Any:
    """Return the array of a described dtype that some bytes are.

    Raises:
        SerializationError: They are none.
    """
    dtype, count = _checked(np, described, shape, order)
    if len(raw) != count * dtype.itemsize:
        raise _wrong_length()
    return _from_bytes(np, dtype, shape, order, raw, 0)


def _checked(np: Any, described: Any, shape: Any, order: Any) -> tuple[Any, int]:
    """Return the dtype and the number of items."""
    count = 1
    for side in shape:
        if type(side) is not int or side < 0:
            raise SerializationError("A stored array has a side that is no length")
        count *= side
    if order != "C" and order != "F":
        raise SerializationError("A stored array has neither order of items")
    return simple_dtype(described) if type(described) is str else dtype_of(np, described), count


def _wrong_length() -> SerializationError:
    return SerializationError("A stored array is not as long as its shape says")


def _from_bytes(np: Any, dtype: Any, shape: Any, order: Any, data: bytes, start: int) -> Any:
    if is_listed(dtype):
        raise SerializationError("A stored array of objects is not a list")
    if start == len(data):
        if math.prod(shape):
            raise _wrong_length()
        return np.empty(shape, dtype, order)
    flat = np.frombuffer(data, dtype, -1, start)
    if dtype.kind in "bU":
        flat = _valid(np, flat)
    return flat.copy() if len(shape) == 1 else flat.reshape(shape, order=order).copy(order)


def _from_list(np: Any, dtype: Any, count: int, items: list[Any]) -> Any:
    if type(items) is not list or len(items) != count:
        raise _wrong_length()
    flat = np.empty(count, dtype)
    for place, item in enumerate(items):
        flat[place] = item
    return flat


def _valid(np: Any, flat: Any) -> Any:
    """Return items that NumPy could have made itself."""
    if flat.dtype.kind == "b":
        return flat.view(np.uint8) != 0
    if flat.dtype.kind == "U" and flat.view(f"{flat.dtype.str[0]}u4").max() > _MAX_CHARACTER:
        raise SerializationError("A stored array holds characters that do not exist")
    return flat


def _decode_scalar(data: bytes, level: Level) -> Any:
    parts = level.unpack(data)
    if len(parts) > 1:
        return _decode_array(data, level)[()]
    np = sys.modules.get("numpy")
    if np is None:
        raise UnknownTypeError("numpy:generic")
    return np.bytes_(parts[0]) if type(parts[0]) is bytes else np.str_(parts[0])


DECODERS: dict[int, Decoder] = {wire.ARRAY: _decode_array, wire.SCALAR: _decode_scalar}
