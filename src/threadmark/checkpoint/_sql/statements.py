"""The names of the statements that every SQL backend provides, with what each is for.

A backend fills them in, in one module. Parameters are always bound, in the order given here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Statements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """One backend's statements. `thread` is a thread's key, `space` a namespace's number in it."""

    # Threads and heads

    find_standing: str
    """ns, branch, thread_id → thread, updated, status, expires, last seq, space, seq, id of the head, and a
    number if there is no such head and none leads to the thread's newest checkpoint."""
    create_thread: str
    """thread_id, created, updated, status, expires, ttl, labels, metadata tag, metadata."""
    find_thread: str
    """thread_id → thread."""
    get_upkeep: str
    """thread → updated, expires, ttl, labels, metadata tag, metadata."""
    touch_thread: str
    """status, updated, expires, ttl, labels, metadata tag, metadata, thread."""
    set_labels: str
    """labels, thread."""
    set_ttl: str
    """ttl, expires, thread."""
    find_space: str
    """thread, ns → space."""
    create_head: str
    """thread, ns, branch, space, seq, id, automatic."""
    move_head: str
    """seq, id, thread, ns, branch."""
    drop_head: str
    """thread, ns, branch."""
    find_lost: str
    """thread → a row if it has a checkpoint that no head leads to."""
    find_gone_tip: str
    """thread, ns or null → the id that a head names, if that checkpoint is not there."""
    list_heads: str
    """thread → ns, branch, space, seq, id, automatic."""

    # The thread index. Threads are listed by time and key, those that changed last first.

    get_thread: str
    """thread_id, now → thread, thread_id, created, updated, status, expires, metadata tag, metadata."""
    page_by_time: str
    """Before updated and thread, since updated, now, limit → the same."""
    page_by_status: str
    """status, and then as `page_by_time`."""
    page_by_label: str
    """name, value, before updated and thread, since updated, now, status or null, limit → the same."""
    count_threads: str
    """now, status or null → how many."""
    count_label: str
    """name, value, limit → how many threads have a label, up to the limit."""
    add_label: str
    """name, value, updated, thread."""
    drop_label: str
    """name, value, updated, thread."""
    forget_labels: str
    """thread. Looks through all labels."""

    # Leases

    find_lease: str
    """thread_id → token, expires."""
    set_lease: str
    """thread_id, token, expires; replaces what is there."""
    drop_lease: str
    """thread_id, token."""
    forget_lease: str
    """thread_id."""

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
    """thread, seq → seq, space, ns, id, parent's id, created, body tag, body, metadata tag, metadata."""
    page_of_thread: str
    """thread, seq, id or null, ns or null, limit → the same of checkpoints before that seq."""
    page_of_threads: str
    """now, updated, updated, thread, limit → thread, thread_id, updated: threads changed last first."""
    note_run: str
    """thread, run_id."""

    # Values, logs and writes

    create_value: str
    """thread, space, version, channel, sliced, tag, data."""
    get_values: str
    """JSON [[space, version, channel], …], thread → space, version, channel, sliced, tag, data."""
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

    # Deletion and pruning

    delete_thread: tuple[str, ...]
    """thread. Everything of it but labels and lease."""
    find_expired: str
    """now, limit → thread."""
    list_bodies: str
    """thread → seq, space, ns, id, parent seq, created, body tag, body of every checkpoint."""
    set_parent: str
    """parent seq, thread, seq."""
    drop_checkpoint: str
    """thread, seq."""
    drop_writes: str
    """thread, seq."""
    list_values: str
    """thread → space, version, channel, and of lists tag and data."""
    drop_value: str
    """thread, space, version, channel."""
    list_chunks: str
    """thread → space, channel, log, start, count."""
    drop_chunk: str
    """thread, space, channel, log, start."""
    threads_of_run: str
    """run_id → thread, thread_id."""
    forget_run: str
    """thread, run_id."""
    free_space: str | None
    """→ how many pages are free; `None` where the database looks after that itself."""
    give_back: str | None
    """Gives some of them back."""

    # Copies

    copy_thread_row: str
    """thread_id, created, updated, thread to copy."""
    copy_labels: str
    """updated, new thread, old thread."""
    copy_rows: tuple[str, ...]
    """New thread, old thread."""
    reseal: Mapping[str, str]
    """By kind of row: tag, data, and then the key."""
    all_checkpoints: str
    """thread → seq, space, id, body tag, body, metadata tag, metadata."""
    all_values: str
    """thread → space, version, channel, tag, data."""
    all_chunks: str
    """thread → space, channel, log, start, tag, data."""
    all_writes: str
    """thread → seq, task id, idx, channel, tag, data."""
    thread_metadata: str
    """thread → metadata tag, metadata."""
