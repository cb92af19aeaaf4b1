"""Packing and unpacking: MessagePack with our extensions, nested to a limited depth.

Plain values go straight through `ormsgpack`. Whatever it would flatten or cannot read reaches a
`Level`, which looks up the encoder of the type or the decoder of the extension. Each depth of nesting
has a `Level` of its own, so that depth needs no counter and a codec may be used from any number of
threads at once. This module knows no type beyond the plain ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn, TypeAlias, TypeVar

import ormsgpack

from threadmark.checkpoint.serde import wire
from threadmark.checkpoint.serde.known import KnownTypes
from threadmark.checkpoint.serde.nesting import check_nesting
from threadmark.checkpoint.serde.plain import holds_buffers, may_hold_binary, needs_only_keys, replace
from threadmark.errors import SerializationError

__all__ = ["Builder", "Codec", "Decoder", "Encoder", "FindBuilder", "Level", "building"]

Encoder: TypeAlias = "Callable[[Any, Level], ormsgpack.Ext]"
Decoder: TypeAlias = "Callable[[bytes, Level], Any]"
Builder: TypeAlias = "Callable[[list[Any]], Any]"
"""Makes an object of the array that it is stored as, which begins with the name of its kind."""
FindBuilder: TypeAlias = "Callable[[KnownTypes, Any], Builder]"
"""Finds the builder of the kind that data names."""

K = TypeVar("K")
V = TypeVar("V")

_packb = ormsgpack.packb
_unpackb = ormsgpack.unpackb
_OPTIONS = wire.PACK_OPTIONS


class Codec:
    """The encoders and decoders of one serializer.

    Attributes:
        known: The classes that may be rebuilt.
        encoders: By exact type. Those of classes are added when first met.
        decoders: By extension code.
        builders: By extension code, then by name of a kind. They are added when first met too.
        quick: Those to use without asking a decoder.
        top: Where packing and unpacking begin.
        loose: The same for values that are not strictly plain MessagePack, and slower.
    """

    __slots__ = ("builders", "decoders", "encoders", "known", "loose", "quick", "top")

    def __init__(
        self,
        known: KnownTypes,
        encoders: Mapping[type, Encoder],
        decoders: Mapping[int, Decoder],
        find_encoder: Callable[[type, KnownTypes], Encoder],
        find_builders: Mapping[int, FindBuilder],
        quick: bool = True,
    ) -> None:
        self.known = known
        self.encoders = _Found(encoders, lambda cls: find_encoder(cls, known))
        self.decoders = decoders
        self.builders: dict[int, Mapping[Any, Builder]] = {
            code: _Found({}, partial(find, known)) for code, find in find_builders.items()
        }
        self.quick = self.builders if quick else {}
        self.top = Level(self, 0)
        self.loose = Level(self, 0, loose=True)


class _Found(dict[K, V]):
    """What is found when it is first asked for."""

    def __init__(self, known: Mapping[K, V], find: Callable[[K], V]) -> None:
        super().__init__(known)
        self._find = find

    def __missing__(self, key: K) -> V:
        value = self[key] = self._find(key)
        return value


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
        pack: Encodes a value.
        unpack: Decodes a value.
        hook: Decodes an extension found here, for `unpack`.
    """

    __slots__ = ("_deeper", "codec", "depth", "hook", "loose", "pack", "unpack")

    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]

    def __init__(self, codec: Codec, depth: int, loose: bool = False) -> None:
        self.codec = codec
        self.depth = depth
        self.loose = loose
        self._deeper: Level | None = None
        self.pack = _packer(self)
        self.hook = _hook(self)
        self.unpack = _unpacker(self)

    def unpack_alone(self, data: bytes) -> Any:
        """Decode what nothing around is being decoded of.

        Raises:
            Exception: Whatever a decoder raised.
        """
        try:
            return self.unpack(data)
        except ValueError as error:
            raise (_raised.take() or error) from None

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


def building(code: int) -> Decoder:
    """Return the decoder of an extension whose content is for builders."""

    def decode(data: bytes, level: Level) -> Any:
        parts = level.unpack(data)
        return level.codec.builders[code][parts[0]](parts)

    return decode


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
            if not (0xC4 in data or 0xC5 in data or 0xC6 in data):
                return data
            if not may_hold_binary(data) or not holds_buffers(value):
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


def _hook(level: Level) -> Callable[[int, bytes], Any]:
    decoders = level.codec.decoders
    option = wire.ANY_KEYS if level.loose else None
    # Where nesting is to be checked first, decoding goes the longer way through `Level.unpack`.
    quick = level.codec.quick if level.depth + 1 != wire.CHECKED_DEPTH else {}
    below: Level | None = None
    hook: Callable[[int, bytes], Any] | None = None

    def decode(code: int, data: bytes) -> Any:
        nonlocal below, hook
        try:
            if below is None:
                below = level.deeper()
                hook = below.hook
            if code in quick:
                parts = _unpackb(data, ext_hook=hook, option=option)
                return quick[code][parts[0]](parts)
            return decoders[code](data, below)
        except BaseException as error:
            # The hooks around this one see an error that says nothing.
            if _raised.error is None:
                _raised.error = error
            raise

    return decode


def _unpacker(level: Level) -> Callable[[bytes], Any]:
    hook = level.hook
    option = wire.ANY_KEYS if level.loose else None

    def unpack(data: bytes) -> Any:
        return _unpackb(data, ext_hook=hook, option=option)

    def unpack_checked(data: bytes) -> Any:
        check_nesting(data)
        return unpack(data)

    if level.depth:
        return unpack_checked if level.depth == wire.CHECKED_DEPTH else unpack

    def unpack_at_top(data: bytes) -> Any:
        try:
            return _unpackb(data, ext_hook=hook, option=option)
        except ValueError as error:
            native, raised = error, _raised.take()
        if not level.loose and (raised is None or type(raised) is ValueError):
            # Perhaps a key is no string, here or inside an extension.
            return level.codec.loose.unpack(data)
        if raised is None:
            raise SerializationError(f"The bytes are not MessagePack: {native}") from None
        _raise_ours(raised, "The stored data is damaged")

    return unpack_at_top
