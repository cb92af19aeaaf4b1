"""The names of the statements that every SQL backend provides, with what each is for.

A backend fills them in, in one module. Parameters are always bound, in the order given here.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Statements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """One backend's statements. `thread` is a thread's key, `space` a namespace's number in it."""

    # Threads and heads

    find_standing: str
    """ns, branch, thread_id → thread, updated, status, expires, last seq, space, seq, id of the head."""
    create_thread: str
    """thread_id, created, updated, status, expires, ttl."""
    find_thread: str
    """thread_id → thread."""
    touch_thread: str
    """status, updated, expires, thread."""
    find_space: str
    """thread, ns → space."""
    create_head: str
    """thread, ns, branch, space, seq, id, automatic."""
    move_head: str
    """seq, id, thread, ns, branch."""
    list_heads: str
    """thread → ns, branch, space, seq, id, automatic."""

    # Checkpoints

    find_number: str
    """thread, space, id → seq."""
    has_child: str
    """thread, seq → a row if a checkpoint follows this one."""
    create_checkpoint: str
    """thread, seq, space, id, parent seq, created, body tag, body, metadata tag, metadata."""
    replace_checkpoint: str
    """parent seq, body tag, body, metadata tag, metadata, thread, seq."""
    get_checkpoint: str
    """thread, seq → seq, space, ns, id, parent's id, body tag, body, metadata tag, metadata."""
    page_of_thread: str
    """thread, seq, id or null, ns or null, limit → the same of checkpoints before that seq."""
    page_of_threads: str
    """now, updated, updated, thread, limit → thread, thread_id, updated: threads changed last first."""
    note_run: str
    """thread, run_id."""

    # Values, logs and writes

    create_value: str
    """thread, space, version, channel, tag, data."""
    get_values: str
    """JSON [[space, version, channel], …], thread → space, version, channel, tag, data."""
    create_chunk: str
    """thread, space, channel, log, start, count, sizes, tag, data."""
    find_log_end: str
    """thread, space, channel, log → where the log ends."""
    get_chunks: str
    """JSON [[space, channel, log, from, to], …], thread → space, channel, log, start, count, sizes, tag,
    data."""
    add_write: str
    """thread, seq, task id, idx, channel, tag, data, path; an earlier write of the place stays."""
    replace_write: str
    """The same; it replaces an earlier write."""
    get_writes: str
    """JSON [seq, …], thread → seq, task id, idx, channel, tag, data, path."""

    # Deletion

    delete_thread: tuple[str, ...]
    """thread. Everything of it, in an order that leaves no row without its owner."""
