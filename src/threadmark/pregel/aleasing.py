"""Waiting one's turn on an event loop. See `leasing.py`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.checkpoint.leases import Lease
from threadmark.errors import ThreadmarkError
from threadmark.pregel.leasing import needed
from threadmark.types import OnConflict

__all__ = ["ahold"]

log = logging.getLogger("threadmark.pregel")


@asynccontextmanager
async def ahold(
    saver: BaseCheckpointSaver[Any] | None, thread_id: str | None, mode: OnConflict
) -> AsyncIterator[Lease | None]:
    """Async `hold`."""
    if saver is None or thread_id is None or not needed(saver, thread_id, mode):
        yield None
        return
    lease = saver.lease(thread_id)
    await lease.aacquire()
    renewer = asyncio.create_task(akeep_renewing(lease))
    try:
        yield lease
    finally:
        renewer.cancel()
        with suppress(asyncio.CancelledError):
            await renewer
        await lease.arelease()


async def akeep_renewing(lease: Lease) -> None:
    """Async `keep_renewing`."""
    while True:
        await asyncio.sleep(lease.ttl.total_seconds() / 3)
        try:
            await lease.arenew()
        except ThreadmarkError as error:
            log.warning("The lease on thread %r could not be renewed: %s", lease.thread_id, error)
            return
