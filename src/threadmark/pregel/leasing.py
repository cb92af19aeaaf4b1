"""Waiting one's turn: a run with `on_conflict="wait"` holds a lease on its thread while it works.

The lease is renewed in the background, so a node may take as long as it likes; it ends by itself when the
process dies. A commit of a run that lost its lease is refused by the saver.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.checkpoint.leases import Lease
from threadmark.errors import ThreadmarkError
from threadmark.types import OnConflict

__all__ = ["hold", "needed"]

log = logging.getLogger("threadmark.pregel")


def needed(saver: Any, thread_id: str | None, mode: OnConflict) -> bool:
    """Tell whether a run must wait for a lease."""
    return mode == "wait" and saver is not None and thread_id is not None


@contextmanager
def hold(
    saver: BaseCheckpointSaver[Any] | None, thread_id: str | None, mode: OnConflict
) -> Iterator[Lease | None]:
    """Hold a lease on a thread inside the block, if the mode asks for it."""
    if saver is None or thread_id is None or not needed(saver, thread_id, mode):
        yield None
        return
    lease = saver.lease(thread_id)
    lease.acquire()
    over = threading.Event()
    renewer = threading.Thread(target=keep_renewing, args=(lease, over), name="threadmark-lease", daemon=True)
    renewer.start()
    try:
        yield lease
    finally:
        over.set()
        renewer.join()
        lease.release()


def keep_renewing(lease: Lease, over: threading.Event) -> None:
    """Renew a lease until the run is over. If that fails, the run's next commit tells."""
    while not over.wait(lease.ttl.total_seconds() / 3):
        try:
            lease.renew()
        except ThreadmarkError as error:
            log.warning("The lease on thread %r could not be renewed: %s", lease.thread_id, error)
            return
