"""Packing and unpacking: MessagePack with our extensions, nested to a limited depth.

A `Codec` holds one serializer's encoders (by type) and decoders (by extension code). Plain values go
straight through `ormsgpack`; whatever it would flatten reaches a `Level`, which looks up the encoder.
Each depth of nesting has a `Level` of its own, so that depth needs no counter and a codec may be used
from any number of threads. This module knows no type beyond the plain ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, TypeAlias

import ormsgpack

from threadmark.checkpoint.serde import wire
from threadmark.errors import SerializationError

__all__ = ["Codec", "Decoder", "Encoder", "Level"]

Encoder: TypeAlias = "Callable[[Any, Level], ormsgpack.Ext]"
Decoder: TypeAlias = "Callable[[bytes, Level], Any]"

_packb = ormsgpack.packb
_unpackb = ormsgpack.unpackb
_OPTIONS = wire.PACK_OPTIONS


class _Raised(threading.local):
    """What a hook raised: `ormsgpack` replaces it by an error of its own."""

    error: BaseException | None = None

    def take(self) -> BaseException | None:
        error, self.error = self.error, None
        return error


_raised = _Raised()


class Codec:
    """The encoders and decoders of one serializer.

    Args:
        encoders: By exact type.
        decoders: By extension code.
        find_encoder: Returns the encoder of a type that `encoders` lacks, or raises.
    """

    __slots__ = ("decoders", "encoders", "find_encoder", "loose", "top")

    def __init__(
        self,
        encoders: Mapping[type, Encoder],
        decoders: Mapping[int, Decoder],
        find_encoder: Callable[[type], Encoder],
    ) -> None:
        self.encoders = dict(encoders)
        self.decoders = decoders
        self.find_encoder = find_encoder
        self.top = Level(self, 0, None)
        self.loose = Level(self, 0, wire.LOOSE_KEYS)

    def pack(self, value: Any) -> bytes:
        """Encode a value.

        Raises:
            SerializationError: It cannot be kept.
        """
        return self.top.pack(value)

    def unpack(self, data: bytes) -> Any:
        """Decode a value.

        Raises:
            SerializationError: The bytes are not a value of a known type.
        """
        try:
            return self.top.unpack(data)
        except _NotPlainKeys:
            return self.loose.unpack(data)

    def encoder(self, cls: type) -> Encoder:
        """Return the encoder of a type and remember it."""
        encoder = self.find_encoder(cls)
        self.encoders[cls] = encoder
        return encoder


class _NotPlainKeys(SerializationError):
    """A map has keys that are not strings: read again, more slowly."""


class Level:
    """One depth of nesting: `pack` and `unpack` here hand extensions to the next level."""

    __slots__ = ("_deeper", "codec", "depth", "key_option", "pack", "unpack")

    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]

    def __init__(self, codec: Codec, depth: int, key_option: int | None) -> None:
        self.codec = codec
        self.depth = depth
        self.key_option = key_option
        self._deeper: Level | None = None
        self.pack = _packer(self)
        self.unpack = _unpacker(self)

    def deeper(self) -> Level:
        """Return the level below.

        Raises:
            SerializationError: The limit is reached.
        """
        if self._deeper is None:
            if self.depth >= wire.MAX_EXTENSION_DEPTH:
                raise SerializationError(
                    f"A value nests more than {wire.MAX_EXTENSION_DEPTH} objects in each other. "
                    f"Store it flat, for example as a list with references by position"
                )
            self._deeper = Level(self.codec, self.depth + 1, self.key_option)
        return self._deeper


def _packer(level: Level) -> Callable[[Any], bytes]:
    codec = level.codec
    encoders = codec.encoders

    def default(value: Any) -> ormsgpack.Ext:
        try:
            cls = type(value)
            return (encoders.get(cls) or codec.encoder(cls))(value, level.deeper())
        except BaseException as error:
            _raised.error = error
            raise

    def pack(value: Any) -> bytes:
        try:
            data = _packb(value, default, _OPTIONS)
        except TypeError as error:
            raised = _raised.take()
            if raised is not None:
                raise raised
            if str(error) == _TOO_DEEP:
                raise SerializationError(_NESTED) from None
        else:
            if not (b"\xc4" in data or b"\xc5" in data or b"\xc6" in data):
                return data
            if not _has_buffers(value):
                return data
        return _pack_again(_plain(value, level), default)

    return pack


_TOO_DEEP = "Recursion limit reached"
_NESTED = "The value nests lists and dicts more than 255 deep, or contains itself"


def _pack_again(value: Any, default: Callable[[Any], Any]) -> bytes:
    """Pack a value in which what `ormsgpack` refuses, or would flatten, was replaced."""
    try:
        return _packb(value, default, _OPTIONS)
    except TypeError as error:
        raise _raised.take() or SerializationError(str(error)) from None


def _plain(value: Any, level: Level) -> Any:
    """Return a copy in which text, maps and buffers that MessagePack has no place for are extensions."""
    cls = type(value)
    if cls is str:
        return value if _is_text(value) else _surrogates(value)
    if cls is list:
        return [_plain(item, level) for item in value]
    if cls is dict:
        if all(type(key) is str and _is_text(key) for key in value):
            return {key: _plain(item, level) for key, item in value.items()}
        pairs = list(chain.from_iterable(value.items()))
        return ormsgpack.Ext(wire.MAP, level.deeper().pack(pairs))
    if cls is bytearray:
        return ormsgpack.Ext(wire.BYTEARRAY, bytes(value))
    if cls is memoryview:
        raise SerializationError(
            "A memoryview is a window on other data and cannot be kept. Store bytes(view)"
        )
    return value


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _surrogates(value: str) -> ormsgpack.Ext:
    return ormsgpack.Ext(wire.TEXT, value.encode("utf-8", "surrogatepass"))


def _has_buffers(value: Any) -> bool:
    """Tell whether plain containers hold a `bytearray` or `memoryview`, which would become `bytes`."""
    todo = [value]
    while todo:
        item = todo.pop()
        cls = type(item)
        if cls is dict:
            todo.extend(item.values())
        elif cls is list:
            todo.extend(item)
        elif cls is bytearray or cls is memoryview:
            return True
    return False


def _unpacker(level: Level) -> Callable[[bytes], Any]:
    decoders = level.codec.decoders
    option = level.key_option

    def hook(code: int, data: bytes) -> Any:
        try:
            return decoders[code](data, level.deeper())
        except BaseException as error:
            _raised.error = error
            raise

    def unpack(data: bytes) -> Any:
        try:
            return _unpackb(data, ext_hook=hook, option=option)
        except ValueError as error:
            raised = _raised.take()
            if raised is not None:
                raise raised
            kind = _NotPlainKeys if option is None else SerializationError
            raise kind(f"The bytes are not MessagePack: {error}") from None

    return unpack
