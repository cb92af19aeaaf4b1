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
from threadmark.checkpoint.serde.plain import holds_buffers, needs_only_keys, replace
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
        found: What decoders remember about the classes that they rebuild.
        top: Where packing and unpacking begin.
        loose: The same for values that are not strictly plain MessagePack, and slower.
    """

    __slots__ = ("decoders", "encoders", "found", "known", "loose", "top")

    def __init__(
        self,
        known: KnownTypes,
        encoders: Mapping[type, Encoder],
        decoders: Mapping[int, Decoder],
        find_encoder: Callable[[type, KnownTypes], Encoder],
    ) -> None:
        self.known = known
        self.encoders = _Encoders(encoders, lambda cls: find_encoder(cls, known))
        self.decoders = decoders
        self.found: dict[Any, Any] = {}
        self.top = Level(self, 0)
        self.loose = Level(self, 0, loose=True)


class _Encoders(dict[type, Encoder]):
    """Encoders by exact type, found when first asked for."""

    def __init__(self, encoders: Mapping[type, Encoder], find: Callable[[type], Encoder]) -> None:
        super().__init__(encoders)
        self._find = find

    def __missing__(self, cls: type) -> Encoder:
        encoder = self[cls] = self._find(cls)
        return encoder


class _NotStrict(Exception):
    """Something has keys other than strings, or is replaced before it is packed. To be done once more,
    from the top, with the loose levels: never from where it was noticed, or work would double with depth.
    """


class Level:
    """One depth of nesting. What `pack` and `unpack` meet here is encoded and decoded one deeper.

    Attributes:
        codec: The codec.
        depth: How many extensions are around.
        loose: Whether keys may be of any kind.
        found: The codec's.
        pack: Encodes a value.
        unpack: Decodes a value.
    """

    __slots__ = ("_deeper", "codec", "depth", "found", "loose", "pack", "unpack")

    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]

    def __init__(self, codec: Codec, depth: int, loose: bool = False) -> None:
        self.codec = codec
        self.depth = depth
        self.loose = loose
        self.found = codec.found
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
            self._deeper = Level(self.codec, self.depth + 1, self.loose)
        return self._deeper


class _Raised(threading.local):
    """What a hook raised in this thread. `ormsgpack` drops it and raises an error without a cause."""

    error: BaseException | None = None

    def take(self) -> BaseException | None:
        error, self.error = self.error, None
        return error


_raised = _Raised()


def _packer(level: Level) -> Callable[[Any], bytes]:
    encoders = level.codec.encoders
    below: Level | None = None

    def default(value: Any) -> ormsgpack.Ext:
        nonlocal below
        try:
            if below is None:
                below = level.deeper()
            return encoders[type(value)](value, below)
        except BaseException as error:
            _raised.error = error
            raise

    pack = _loose_packer(level, default) if level.loose else _strict_packer(level, default)
    if level.depth != wire.CHECKED_DEPTH:
        return pack

    def pack_checked(value: Any) -> bytes:
        data = pack(value)
        check_nesting(data)
        return data

    return pack_checked


def _strict_packer(level: Level, default: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    at_top = level.depth == 0

    def pack(value: Any) -> bytes:
        try:
            data = _packb(value, default, _OPTIONS)
        except TypeError as error:
            raised = _raised.take() or _native(error) or _NotStrict()
        else:
            # 0xC4 to 0xC6 are the heads of binary: MessagePack has one kind, Python has three.
            if not (0xC4 in data or 0xC5 in data or 0xC6 in data) or not holds_buffers(value, len(data)):
                return data
            raised = _NotStrict()
        if at_top and isinstance(raised, _NotStrict):
            return level.codec.loose.pack(value)
        _raise_ours(raised, "The value cannot be encoded")

    return pack


def _loose_packer(level: Level, default: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    options = _OPTIONS | wire.ANY_KEYS

    def pack(value: Any) -> bytes:
        try:
            return _packb(replace(value, level.deeper), default, options)
        except TypeError as error:
            raised = _raised.take() or _native(error) or error
        except RecursionError:
            raised = _too_deep()
        _raise_ours(raised, "The value cannot be encoded")

    def pack_at_top(value: Any) -> bytes:
        # Most often only keys are not strings, and nothing is to be replaced.
        if needs_only_keys(value):
            try:
                return _packb(value, default, options)
            except TypeError:
                _raised.take()
        return pack(value)

    return pack if level.depth else pack_at_top


def _native(error: TypeError) -> SerializationError | None:
    """Return the error for what `ormsgpack` itself refused, if it is to be refused."""
    return _too_deep() if "ecursion" in str(error) else None


def _too_deep() -> SerializationError:
    return SerializationError(
        f"Lists and dicts nest more than {wire.MAX_PLAIN_DEPTH} deep in each other, or one contains "
        f"itself. Store them flat"
    )


def _raise_ours(raised: BaseException, message: str) -> NoReturn:
    """Raise what a hook raised, as an error of ours unless it stops the program."""
    if isinstance(raised, (SerializationError, _NotStrict)) or not isinstance(raised, Exception):
        raise raised from raised.__cause__
    raise SerializationError(f"{message}: {type(raised).__name__}: {raised}") from raised


def _unpacker(level: Level) -> Callable[[bytes], Any]:
    decoders = level.codec.decoders
    option = wire.ANY_KEYS if level.loose else None
    below: Level | None = None

    def hook(code: int, data: bytes) -> Any:
        nonlocal below
        try:
            if below is None:
                below = level.deeper()
            return decoders[code](data, below)
        except BaseException as error:
            _raised.error = error
            raise

    def unpack(data: bytes) -> Any:
        try:
            return _unpackb(data, ext_hook=hook, option=option)
        except ValueError as error:
            raised = _raised.take() or (_NotStrict() if option is None else None)
            if raised is None:
                raise SerializationError(f"The bytes are not MessagePack: {error}") from None
        if isinstance(raised, _NotStrict) and level.depth == 0:
            return level.codec.loose.unpack(data)
        _raise_ours(raised, "The stored data is damaged")

    def unpack_checked(data: bytes) -> Any:
        check_nesting(data)
        return unpack(data)

    return unpack_checked if level.depth == wire.CHECKED_DEPTH else unpack
