"""The compact forms in which versions and checkpoints are stored. Lossless, and documented in
`docs/format.md`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from threadmark.checkpoint.encode import Surroundings
from threadmark.checkpoint.records import ChannelVersions, Checkpoint
from threadmark.errors import InvalidArgumentError, StorageCorruptError

__all__ = ["Unpacked", "expand", "packed", "shorten", "unpacked"]

_DIGITS = 32
_USUAL_KEYS = {"v", "ts", "id", "channel_versions", "versions_seen", "updated_channels"}


def shorten(version: Any) -> str:
    """Return a version as short text that sorts like its counter.

    Of the usual form, the leading zeros become one letter that says how many digits follow; anything
    else is marked with its type.
    """
    if type(version) is str:
        return _short_text(version)
    if type(version) is int:
        return f"~i{version}"
    if type(version) is float:
        return f"~f{version!r}"
    raise InvalidArgumentError(f"A version is a text or a number, not {version!r}.")


# The same versions are packed and unpacked with every checkpoint that they appear in.
@lru_cache(maxsize=4_096)
def _short_text(version: str) -> str:
    head = version[:_DIGITS]
    if version[_DIGITS : _DIGITS + 1] == "." and head.isascii() and head.isdigit():
        digits = head.lstrip("0")
        return f"{chr(97 + len(digits))}{digits}{version[_DIGITS:]}"
    return f"~s{version}"


@lru_cache(maxsize=4_096)
def expand(text: str) -> Any:
    """Undo `shorten`."""
    kind, rest = text[:2], text[2:]
    if kind == "~s":
        return rest
    if kind == "~i":
        return int(rest)
    if kind == "~f":
        return float(rest)
    digits, _, tail = text[1:].partition(".")
    return f"{digits:0>{_DIGITS}}.{tail}"


class Unpacked(NamedTuple):
    """A checkpoint, and what is stored with it."""

    checkpoint: Checkpoint
    around: Surroundings


def packed(checkpoint: Checkpoint, around: Surroundings) -> Any:
    """Return what is stored of a checkpoint: each version once, and its id not at all."""
    if checkpoint.keys() != _USUAL_KEYS:
        return [*around, {key: value for key, value in checkpoint.items() if key != "id"}]
    places: dict[Any, int] = {}
    texts: list[str] = []

    def placed(versions: ChannelVersions) -> dict[str, int]:
        found = {}
        for channel, version in versions.items():
            # A number is told from an equal one of another type.
            key = version if type(version) is str else (type(version), version)
            place = places.get(key)
            if place is None:
                place = places[key] = len(texts)
                texts.append(shorten(version))
            found[channel] = place
        return found

    channels = placed(checkpoint["channel_versions"])
    nodes = {node: placed(seen) for node, seen in checkpoint["versions_seen"].items()}
    return [
        *around,
        checkpoint["v"],
        checkpoint["ts"],
        texts,
        channels,
        nodes,
        checkpoint["updated_channels"],
    ]


def unpacked(stored: Any, checkpoint_id: str) -> Unpacked:
    """Undo `packed`.

    Raises:
        StorageCorruptError: It is not the packed form of a checkpoint.
    """
    checkpoint: Any
    try:
        parents, run_id, absent, *rest = stored
        around = Surroundings(parents, run_id, absent)
        if len(rest) == 1:
            (bare,) = rest
            checkpoint = {**bare, "id": checkpoint_id, "channel_versions": bare["channel_versions"]}
            return Unpacked(checkpoint, around)
        v, ts, texts, channels, nodes, updated = rest
        versions = [expand(text) for text in texts]
        checkpoint = {
            "v": v,
            "ts": ts,
            "id": checkpoint_id,
            "channel_versions": {c: versions[i] for c, i in channels.items()},
            "versions_seen": {
                node: {c: versions[i] for c, i in seen.items()} for node, seen in nodes.items()
            },
            "updated_channels": updated,
        }
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise StorageCorruptError(f"The row of checkpoint {checkpoint_id!r} is damaged.") from error
    return Unpacked(checkpoint, around)
