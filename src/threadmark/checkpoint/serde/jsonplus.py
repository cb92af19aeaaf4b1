"""The serializer that savers and stores use unless told otherwise.

Plain values are plain MessagePack; everything else is an extension (`wire`, `docs/format.md`). What
would not come back as it was is refused when it is written. Reading builds known types only, never
imports, and runs no code of the classes it rebuilds.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ormsgpack import packb

from threadmark._checks import flag, text, wrong
from threadmark.checkpoint.serde import arrays, classes, containers, messages, peer, times, values
from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.checkpoint.serde.codec import Codec, Decoder, Encoder, FindBuilder
from threadmark.checkpoint.serde.exceptions import error_record
from threadmark.checkpoint.serde.known import EveryType, KnownTypes, import_type
from threadmark.checkpoint.serde.opaque import Opaque, OpaqueDecoders, encode_opaque
from threadmark.checkpoint.serde.paths import locate
from threadmark.errors import InvalidArgumentError, SerializationError

__all__ = ["JsonPlusSerializer", "fingerprint"]

_ENCODERS: dict[type, Encoder] = {**containers.ENCODERS, **times.ENCODERS, **values.ENCODERS}
_DECODERS: dict[int, Decoder] = {
    **containers.DECODERS,
    **times.DECODERS,
    **values.DECODERS,
    **classes.DECODERS,
    **messages.DECODERS,
    **arrays.DECODERS,
    **peer.DECODERS,
}
_FIND_BUILDERS: dict[int, FindBuilder] = {**classes.FIND_BUILDERS, **messages.FIND_BUILDERS}


def _find_encoder(cls: type, known: KnownTypes) -> Encoder:
    return arrays.array_encoder(cls) or classes.find_encoder(cls, known)


def _pickled(obj: Any) -> bytes | None:
    """Return a value's pickle, or `None` when it has none."""
    try:
        return pickle.dumps(obj)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        return None


def fingerprint(value: Any) -> bytes:
    """Return bytes that are equal for equal values of the same types, and different for others.

    They are not meant to be read, so the classes in the value need not be known.

    Raises:
        SerializationError: A part of the value cannot be kept.
    """
    try:
        return _fingerprints.top.pack(value)
    except SerializationError as error:
        raise locate(value, error, _fingerprints.top.pack) from None


_fingerprints = Codec(EveryType(), _ENCODERS, _DECODERS, _find_encoder, _FIND_BUILDERS)


def _check_named(named: Any) -> None:
    """Refuse what is no list of classes, or of their modules and names."""
    if named is None:
        return
    if not isinstance(named, Iterable) or isinstance(named, str | bytes | Mapping):
        raise wrong("allowed_msgpack_modules", named, "a list of classes, or of pairs of module and name")


def _imported(name: Any) -> type:
    """Return a class that was named by its module and name."""
    if not isinstance(name, tuple | list) or not all(isinstance(part, str) for part in name):
        raise wrong("allowed_msgpack_modules", name, "a list of classes, or of pairs of module and name")
    found: type = import_type(":".join(name))
    return found


class JsonPlusSerializer:
    """Turns values into MessagePack and back, and refuses what would not come back as it was.

    Args:
        pickle_fallback: Pickle a value that cannot be kept otherwise, and read pickled values. Only
            for data that nobody else can write to: reading a pickle runs code that it contains.
        opaque: Read values of unknown types as `Opaque`, for tools that only look at data.
        allowed_msgpack_modules: Classes to make known: each as itself, or as module and name. The name
            is the one that users know; `allow` does the same.

    Raises:
        InvalidArgumentError: There is no such class.
    """

    seals = False

    def __init__(
        self,
        *,
        pickle_fallback: bool = False,
        opaque: bool = False,
        allowed_msgpack_modules: Iterable[type | tuple[str, ...]] | Literal[True] | None = None,
    ) -> None:
        if allowed_msgpack_modules is True:
            raise InvalidArgumentError(
                "A serializer that rebuilds any class runs whatever code somebody writes to its storage. "
                "Name the classes."
            )
        flag("pickle_fallback", pickle_fallback)
        flag("opaque", opaque)
        _check_named(allowed_msgpack_modules)
        self.pickle_fallback = pickle_fallback
        self.opaque = opaque
        named = allowed_msgpack_modules or ()
        self._use(KnownTypes().plus(c if isinstance(c, type) else _imported(c) for c in named))

    def _use(self, known: KnownTypes) -> None:
        self._known = known
        encoders, decoders = _ENCODERS, _DECODERS
        if self.opaque:
            encoders = {**encoders, Opaque: encode_opaque}
            decoders = OpaqueDecoders(decoders)
        codec = Codec(known, encoders, decoders, _find_encoder, _FIND_BUILDERS, quick=not self.opaque)
        self._pack = codec.top.pack
        self._unpack = codec.top.unpack

    def allow(self, new: type | str, *, was: str | None = None) -> JsonPlusSerializer:
        """Make a class known to this serializer, and return the serializer.

        Args:
            new: The class, or its name as `"package.module:Name"`, which is imported now. Reading
                never imports.
            was: The name that the class had when older data was written.

        Raises:
            InvalidArgumentError: There is no such class.
        """
        if not isinstance(new, str | type):
            raise wrong("new", new, "a class, or its name as 'package.module:Name'")
        text("was", was, optional=True)
        self._use(self._known.plus([import_type(new) if isinstance(new, str) else new], was))
        return self

    def with_types(self, types: Iterable[type]) -> JsonPlusSerializer:
        """Return a copy that knows more classes. The original does not change."""
        copy = JsonPlusSerializer(pickle_fallback=self.pickle_fallback, opaque=self.opaque)
        copy._use(self._known.plus(types))
        return copy

    def dumps_typed(self, obj: Any) -> Encoded:
        """Encode a value.

        Raises:
            SerializationError: It cannot be kept. The error's path says which part of it.
        """
        if obj is None:
            return "null", b""
        cls = type(obj)
        if cls is str:
            try:
                return "msgpack", packb(obj)
            except TypeError:
                pass  # It has lone surrogates.
        if cls is bytes:
            return "bytes", obj
        if cls is bytearray:
            return "bytearray", bytes(obj)
        try:
            return "msgpack", self._pack(obj)
        except SerializationError as error:
            return self._otherwise(obj, error)

    def _otherwise(self, obj: Any, error: SerializationError) -> Encoded:
        """Encode what was refused in another way, or raise why it was."""
        pickled = _pickled(obj) if self.pickle_fallback else None
        if pickled is not None:
            return "pickle", pickled
        if isinstance(obj, BaseException):
            # A failure that is recorded must not be hidden by the failure to record it.
            return "msgpack", self._pack(error_record(obj))
        raise locate(obj, error, self._pack) from None

    def loads_typed(self, data: Encoded) -> Any:
        """Decode what `dumps_typed` returned.

        Raises:
            SerializationError: The bytes are not a value of a known type.
        """
        tag, content = data
        if tag == "msgpack":
            return self._unpack(content)
        if tag == "bytes":
            return content if type(content) is bytes else bytes(content)
        if tag == "null":
            return None
        if tag == "bytearray":
            return bytearray(content)
        if tag == "json":
            return peer.plain_json(content)
        if tag == "pickle":
            return self._unpickle(content)
        if tag == "empty":
            raise SerializationError("The channel was cleared: there is no value to read")
        raise SerializationError(f"No value can be read from data with the tag {tag!r}")

    def _unpickle(self, content: bytes) -> Any:
        if not self.pickle_fallback:
            raise SerializationError(
                "The value was pickled, and reading a pickle runs code that it contains. If nobody else "
                "can write to this storage, read it with JsonPlusSerializer(pickle_fallback=True)"
            )
        try:
            return pickle.loads(content)
        except Exception as error:
            raise SerializationError(f"The pickle cannot be read: {error}") from error

    def dumps_items(self, items: list[Any]) -> list[bytes] | None:
        """Encode each item of a list on its own; a MessagePack array header and the encodings of all
        items are the encoding of the list.

        Returns:
            The encodings, or `None` if an item needs the pickle fallback: store the list whole then.

        Raises:
            SerializationError: An item cannot be kept.
        """
        pack = self._pack
        try:
            return [pack(item) for item in items]
        except SerializationError as error:
            if self.pickle_fallback:
                return None
            raise locate(items, error, pack) from None

    def seal(self, row: Row, data: Encoded) -> Encoded:
        """Return the data: this serializer does not encrypt."""
        return data

    def open(self, row: Row, data: Encoded) -> Encoded:
        """Return the data: this serializer does not encrypt."""
        return data
