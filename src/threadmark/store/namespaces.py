"""Namespaces as bytes that a database can keep, compare and scan, and matching them by segment.

A segment is its UTF-8 with every NUL followed by 0xFF, and ends with a NUL. Neither byte occurs
otherwise, so any characters are allowed, different namespaces have different bytes, bytes sort as the
tuples do, and all namespaces below a prefix lie between its bytes and its bytes with 0xFF behind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

__all__ = [
    "Span",
    "decode_namespace",
    "decode_text",
    "encode_namespace",
    "encode_text",
    "ends_with",
    "span_of",
    "starts_with",
]

_END = re.compile(rb"\x00(?!\xff)")


class Span(NamedTuple):
    """The namespaces below a prefix: from `low`, up to but not including `high`."""

    low: bytes
    high: bytes


def encode_text(text: str) -> bytes:
    """Return the bytes of a key. Any text has some, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Undo `encode_text`."""
    return data.decode("utf-8", "surrogatepass")


@lru_cache(maxsize=1024)
def encode_namespace(namespace: tuple[str, ...]) -> bytes:
    """Return the bytes of a namespace."""
    return b"".join(encode_text(part).replace(b"\0", b"\0\xff") + b"\0" for part in namespace)


def decode_namespace(data: bytes) -> tuple[str, ...]:
    """Undo `encode_namespace`."""
    parts = _END.split(data)[:-1]
    return tuple(decode_text(part.replace(b"\0\xff", b"\0")) for part in parts)


def span_of(prefix: tuple[str, ...]) -> Span:
    """Return where the namespaces that begin with `prefix` lie."""
    low = encode_namespace(prefix)
    return Span(low, low + b"\xff")


def starts_with(namespace: Sequence[str], path: Sequence[str]) -> bool:
    """Whether a namespace begins with `path`, in which `"*"` stands for any one segment."""
    return len(namespace) >= len(path) and _alike(namespace[: len(path)], path)


def ends_with(namespace: Sequence[str], path: Sequence[str]) -> bool:
    """Whether a namespace ends with `path`, in which `"*"` stands for any one segment."""
    return len(namespace) >= len(path) and _alike(namespace[len(namespace) - len(path) :], path)


def _alike(parts: Sequence[str], path: Sequence[str]) -> bool:
    return all(want in ("*", part) for part, want in zip(parts, path, strict=True))
