"""Packing and unpacking: MessagePack with our extensions, nested to a limited depth.

Plain values go straight through `ormsgpack`. Whatever it would flatten or cannot read reaches a
`Level`, which looks up the encoder of the type or the decoder of the extension. Each depth of nesting
has a `Level` of its own, so that depth needs no counter and a codec may be used from any number of
threads at once. This module knows no type beyond the plain ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import ormsgpack

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.known import KnownTypes
from threadmark.checkpoint.serde.nesting import check_nesting
from threadmark.checkpoint.serde.plain import holds_buffers, replace
from threadmark.errors import SerializationError

__all__ = ["Codec", "Decoder", "Encoder", "Level"]

Encoder: TypeAlias = "Callable[[Any, Level], ormsgpack.Ext]"
Decoder: TypeAlias = "Callable[[bytes, Level], Any]"

_packb = ormsgpack.packb
_unpackb = ormsgpack.unpackb
_OPTIONS = wire.PACK_OPTIONS


class Codec:
    """The encoders and decoders of one serializer.

    Attributes:
        known: The classes that may be rebuilt.
        encoders: By exact type. Those of classes are added when first met.
        decoders: By extension code.
        builders: By extension code and stored name, what rebuilds a class. Added when first met.
        top: Where packing and unpacking begin.
    """

    __slots__ = ("builders", "decoders", "encoders", "find_encoder", "known", "loose", "top")

    def __init__(
        self,
        known: KnownTypes,
        encoders: Mapping[type, Encoder],
        decoders: Mapping[int, Decoder],
        find_encoder: Callable[[type, KnownTypes], Encoder],
    ) -> None:
        self.known = known
        self.encoders = dict(encoders)
        self.decoders = decoders
        self.find_encoder = find_encoder
        self.builders: dict[tuple[int, str | int], Callable[[list[Any]], Any]] = {}
        self.top = Level(self, 0, None)
        self.loose = Level(self, 0, wire.LOOSE_KEYS)

    def encoder(self, cls: type) -> Encoder:
        """Return the encoder of a type that was not met before, and remember it."""
        encoder = self.find_encoder(cls, self.known)
        self.encoders[cls] = encoder
        return encoder

    def unpack(self, data: bytes) -> Any:
        """Decode a value.

        Raises:
            SerializationError: The bytes are not a value of a known type.
        """
        try:
            return self.top.unpack(data)
        except _NotPlainKeys:
            return self.loose.unpack(data)


class _NotPlainKeys(SerializationError):
    """Not MessagePack, or a map has keys other than strings: to be read once more, with any keys."""


class Level:
    """One depth of nesting. What `pack` and `unpack` meet here is encoded and decoded one deeper.

    Attributes:
        codec: The codec.
        depth: How many extensions are around.
        pack: Encodes a value.
        unpack: Decodes a value.
    """

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
        """Return the level of what is inside an extension found here.

        Raises:
            SerializationError: The limit is reached.
        """
        if self._deeper is None:
            if self.depth >= wire.MAX_OBJECT_DEPTH:
                raise SerializationError(
                    f"Objects nest more than {wire.MAX_OBJECT_DEPTH} deep in each other, or one "
                    f"contains itself. Store them flat: a list, with references by position"
                )
            self._deeper = Level(self.codec, self.depth + 1, self.key_option)
        return self._deeper


class _Raised(threading.local):
    """What a hook raised in this thread. `ormsgpack` drops it and raises an error without a cause."""

    error: BaseException | None = None

    def take(self) -> BaseException | None:
        error, self.error = self.error, None
        return error


_raised = _Raised()


def _packer(level: Level) -> Callable[[Any], bytes]:
    codec = level.codec
    encoders = codec.encoders

    def default(value: Any) -> ormsgpack.Ext:
        try:
            cls = type(value)
            return (encoders.get(cls) or codec.encoder(cls))(value, level._deeper or level.deeper())
        except BaseException as error:
            _raised.error = error
            raise

    def pack(value: Any) -> bytes:
        try:
            data = _packb(value, default, _OPTIONS)
        except TypeError as error:
            data = _pack_replaced(value, level, default, error)
        else:
            if (b"\xc4" in data or b"\xc5" in data or b"\xc6" in data) and holds_buffers(value):
                data = _pack_replaced(value, level, default, None)
        return data

    def pack_checked(value: Any) -> bytes:
        data = pack(value)
        check_nesting(data)
        return data

    return pack_checked if level.depth == wire.CHECKED_DEPTH else pack


def _pack_replaced(value: Any, level: Level, default: Callable[[Any], Any], error: TypeError | None) -> bytes:
    """Pack a value in which something is refused or flattened by `ormsgpack` itself."""
    if error is not None:
        _raise_real(error)
    try:
        return _packb(replace(value, level.deeper), default, _OPTIONS)
    except TypeError as again:
        _raise_real(again)
        raise SerializationError(f"The value cannot be encoded: {again}") from None


def _raise_ours(raised: BaseException, message: str) -> NoReturn:
    """Raise what a hook raised, as an error of ours unless it stops the program."""
    if isinstance(raised, SerializationError) or not isinstance(raised, Exception):
        raise raised from raised.__cause__
    raise SerializationError(f"{message}: {type(raised).__name__}: {raised}") from raised


def _raise_real(error: TypeError) -> None:
    raised = _raised.take()
    if raised is not None:
        _raise_ours(raised, "The value cannot be encoded")
    if "ecursion" in str(error):
        raise SerializationError(
            f"Lists and dicts nest more than {wire.MAX_PLAIN_DEPTH} deep in each other, or one "
            f"contains itself. Store them flat"
        ) from None


def _unpacker(level: Level) -> Callable[[bytes], Any]:
    decoders = level.codec.decoders
    option = level.key_option
    no_message_pack = _NotPlainKeys if option is None else SerializationError

    def hook(code: int, data: bytes) -> Any:
        try:
            return decoders[code](data, level._deeper or level.deeper())
        except BaseException as error:
            _raised.error = error
            raise

    def unpack(data: bytes) -> Any:
        try:
            return _unpackb(data, ext_hook=hook, option=option)
        except ValueError as error:
            raised = _raised.take()
            if raised is not None:
                _raise_ours(raised, "The stored data is damaged")
            raise no_message_pack(f"The bytes are not MessagePack: {error}") from None

    def unpack_checked(data: bytes) -> Any:
        check_nesting(data)
        return unpack(data)

    return unpack_checked if level.depth == wire.CHECKED_DEPTH else unpack
