"""What the parts of the memory saver share: its dicts, its lock, and which threads are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from threadmark.checkpoint.memory.parts import Blobs, Space, Thread, Writes
from threadmark.checkpoint.own import OwnSaver

__all__ = ["Shelf"]


class Shelf(OwnSaver):
    """The state of a memory saver. Whoever looks at it or changes it holds the lock."""

    storage: dict[str, Thread]
    writes: Writes
    blobs: Blobs
    _lock: AbstractContextManager[Any]
    _numbers: Iterator[int]
    _leases: dict[str, tuple[str, int]]

    def _thread(self, thread_id: str) -> Thread | None:
        """Return a thread that is there and has not expired."""
        thread = self.storage.get(thread_id)
        if thread is None or thread.expires is None or thread.expires > self._options.now():
            return thread
        return None

    def _space(self, thread_id: str, ns: str) -> Space | None:
        thread = self._thread(thread_id)
        return thread.get(ns) if thread is not None else None

    def _by_time(self) -> list[tuple[str, Thread]]:
        """Return the threads, those that changed last first."""
        alive = [(i, thread) for i in self.storage if (thread := self._thread(i)) is not None]
        return sorted(alive, key=lambda each: (each[1].updated, each[1].number), reverse=True)

    def _drop_thread(self, thread_id: str) -> None:
        thread = self.storage.pop(thread_id, None)
        for ns, space in thread.items() if thread is not None else ():
            for key in space.blobs:
                self.blobs.pop(key, None)
            for checkpoint_id in space:
                self.writes.pop((thread_id, ns, checkpoint_id), None)
