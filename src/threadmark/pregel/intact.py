"""Checks once that what was saved has the shape that the engine relies on. It knows no values of users.

Storage may have been touched by anybody, and a saver only sees to it that bytes are values again. From
here on the engine takes metadata, versions, and its own channels and writes for what it made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from threadmark.channels.barrier import arrivals
from threadmark.checkpoint.base import CheckpointTuple
from threadmark.constants import INTERRUPT, RESUME, TASKS
from threadmark.errors import StorageCorruptError
from threadmark.types import Interrupt, Send

__all__ = ["BRANCH", "JOIN", "refuse_damage", "sends_of"]

BRANCH = "branch:to:"
JOIN = "join:"

_NUMBERS = frozenset({int, float})


def refuse_damage(saved: CheckpointTuple) -> None:
    """Refuse a checkpoint that no run could have saved.

    Raises:
        StorageCorruptError: It is one; the error names thread, checkpoint, and what is wrong.
    """
    wrong = _wrong(saved)
    if wrong is not None:
        where = saved.config["configurable"]
        raise StorageCorruptError(
            f"Checkpoint {where['checkpoint_id']!r} of thread {where['thread_id']!r} is damaged: {wrong}.",
            thread_id=where["thread_id"],
            checkpoint_id=where["checkpoint_id"],
        )


def _wrong(saved: CheckpointTuple) -> str | None:
    """Return what is wrong with a checkpoint, or `None`."""
    checkpoint: Any = saved.checkpoint
    metadata: Any = saved.metadata
    versions, seen = checkpoint.get("channel_versions") or {}, checkpoint.get("versions_seen") or {}
    if type(metadata.get("step", 0)) is not int or type(metadata.get("state_version", 1)) is not int:
        return "the numbers in its metadata are none"
    if not _are_texts(metadata.get("parents") or {}):
        return "its metadata does not say what runs around it"
    if not isinstance(checkpoint.get("channel_values"), dict):
        return "it has no values"
    if not isinstance(seen, Mapping) or not all(isinstance(each, Mapping) for each in seen.values()):
        return "it does not say which versions its nodes have seen"
    if not isinstance(versions, Mapping) or not _are_comparable([versions, *seen.values()]):
        return "its versions cannot be compared"
    for channel, value in checkpoint["channel_values"].items():
        if not _is_value(channel, value):
            return f"channel {channel!r} holds something else than it should"
    for _, channel, value in saved.pending_writes or ():
        if not _is_write(channel, value):
            return f"a write to {channel!r} is none"
    return None


def _are_texts(found: Any) -> bool:
    if not isinstance(found, Mapping):
        return False
    return {str}.issuperset(map(type, found)) and {str}.issuperset(map(type, found.values()))


def _are_comparable(versions: Iterable[Mapping[str, Any]]) -> bool:
    kinds = {kind for each in versions for kind in map(type, each.values())}
    return kinds <= {str} or kinds <= _NUMBERS


def _is_value(channel: str, value: Any) -> bool:
    if channel == TASKS:
        return _are_sends(value)
    if channel.startswith(JOIN):
        return _is_noted(value) and _are_arrivals(arrivals(value))
    return not channel.startswith(BRANCH) or _is_noted(value)


def _is_noted(value: Any) -> bool:
    """Tell whether a value is as channels save it that wait for the end of the run, or as the others do."""
    return not isinstance(value, tuple) or (len(value) == 2 and type(value[1]) is bool)


def _are_sends(value: Any) -> bool:
    sends = sends_of(value)
    return isinstance(sends, list) and all(map(_is_send, sends))


def _is_send(value: Any) -> bool:
    return isinstance(value, Send) and type(value.node) is str


def _are_arrivals(value: Any) -> bool:
    return isinstance(value, set | frozenset | list) and {str}.issuperset(map(type, value))


def _is_write(channel: str, value: Any) -> bool:
    if channel == INTERRUPT:
        return isinstance(value, list | tuple) and all(map(_is_question, value))
    if channel == RESUME:
        return isinstance(value, list | tuple)
    if channel == TASKS:
        return all(map(_is_send, value)) if isinstance(value, list) else _is_send(value)
    return not channel.startswith(JOIN) or type(value) is str


def _is_question(value: Any) -> bool:
    return isinstance(value, Interrupt) and type(value.id) is str


def sends_of(value: Any) -> Any:
    """Return the `Send`s that wait. Other writers have saved them as the second of a pair."""
    return value[1] if isinstance(value, tuple) and len(value) == 2 else value
