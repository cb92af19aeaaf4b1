"""The compact forms in which versions and checkpoints are stored. Lossless, and documented in
`docs/format.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from threadmark.checkpoint._sql.shapes import damaged
from threadmark.checkpoint.encode import Surroundings
from threadmark.checkpoint.records import ChannelVersions, Checkpoint
from threadmark.errors import InvalidArgumentError

__all__ = ["Unpacked", "expand", "packed", "shorten", "unpacked"]

_DIGITS = 32
_WHOLE, _COMPACT = 4, 9
"""How many things are stored of a checkpoint, depending on its keys."""
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
    """Undo `shorten`.

    Raises:
        StorageCorruptError: It returns no such text.
    """
    kind, rest = text[:2], text[2:]
    if kind == "~s":
        return rest
    number = {"~i": int, "~f": float}.get(kind)
    if number is not None:
        try:
            return number(rest)
        except ValueError as error:
            raise damaged("values", "version holds no version", None, "version") from error
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


def unpacked(stored: Any, checkpoint_id: str, thread_id: str) -> Unpacked:
    """Undo `packed`.

    Raises:
        StorageCorruptError: It is not the packed form of a checkpoint.
    """
    if type(stored) is list and len(stored) in (_WHOLE, _COMPACT) and _are_surroundings(stored[:3]):
        around = Surroundings(*stored[:3])
        unpack = _unpacked_compact if len(stored) == _COMPACT else _unpacked_whole
        checkpoint = unpack(checkpoint_id, *stored[3:])
        if checkpoint is not None:
            return Unpacked(checkpoint, around)
    raise damaged("checkpoints", f"body holds no checkpoint {checkpoint_id!r}", thread_id, "body")


def _are_surroundings(found: list[Any]) -> bool:
    parents, run_id, absent = found
    return (
        type(parents) is dict
        and _are_texts([*parents, *parents.values()])
        and (run_id is None or type(run_id) is str)
        and type(absent) is list
        and _are_texts(absent)
    )


def _unpacked_whole(checkpoint_id: str, bare: Any) -> Checkpoint | None:
    if not isinstance(bare, dict) or not isinstance(bare.get("channel_values", {}), dict):
        return None
    versions = bare.get("channel_versions")
    if not isinstance(versions, dict) or not _are_versions(versions):
        return None
    return {**bare, "id": checkpoint_id}  # type: ignore[return-value]


def _are_versions(versions: dict[Any, Any]) -> bool:
    return _are_texts(versions) and {str, int, float}.issuperset(map(type, versions.values()))


def _unpacked_compact(
    checkpoint_id: str, v: Any, ts: Any, short: Any, channels: Any, nodes: Any, updated: Any
) -> Checkpoint | None:
    if type(short) is not list or type(channels) is not dict or type(nodes) is not dict:
        return None
    if not {dict}.issuperset(map(type, nodes.values())):
        return None
    if not _are_texts(chain(short, channels, nodes, *nodes.values())):
        return None
    versions = dict(enumerate(map(expand, short)))
    try:
        return {  # type: ignore[return-value]
            "v": v,
            "ts": ts,
            "id": checkpoint_id,
            "channel_versions": {c: versions[i] for c, i in channels.items()},
            "versions_seen": {
                node: {c: versions[i] for c, i in seen.items()} for node, seen in nodes.items()
            },
            "updated_channels": updated,
        }
    except (KeyError, TypeError):
        # What should be a place among the versions is none of them.
        return None


def _are_texts(found: Iterable[Any]) -> bool:
    return {str}.issuperset(map(type, found))
