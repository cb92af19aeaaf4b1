"""Deletion and retention: what a saver offers so that threads do not pile up.

The rules by which checkpoints are kept are in `retention`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal

from threadmark._checks import whole
from threadmark.checkpoint.bridge import Bridged
from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.errors import InvalidArgumentError

__all__ = ["Upkeep", "batch_of", "resealer"]


class Upkeep(Bridged):
    """What a saver offers for deletion and retention. All of it works while runs are going on."""

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread. A late write of a run under way cannot bring it back."""
        self._sync("delete_thread", thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """Async `delete_thread`."""
        await self._async("delete_thread", thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history to an id that is free.

        Raises:
            InvalidArgumentError: There is no such thread, or the target exists.
        """
        self._sync("copy_thread", source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Async `copy_thread`."""
        await self._async("copy_thread", source_thread_id, target_thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that runs saved, by the `run_id` in their metadata.

        Branches that end with one of them end with the newest one before it then. A thread of which
        nothing is left is deleted.
        """
        self._sync("delete_for_runs", run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Async `delete_for_runs`."""
        await self._async("delete_for_runs", run_ids)

    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Literal["keep_latest", "delete"] | None = None,
        keep: Literal["latest"] | None = None,
        keep_last: int | None = None,
        older_than: timedelta | None = None,
    ) -> None:
        """Delete old checkpoints of threads. What is kept stays readable to the last value.

        At most one rule is given; without any, `keep="latest"` is meant. The tips of `main` and of
        every branch that somebody named are always kept, and so are sub-graphs' checkpoints that
        belong to a kept one.

        Args:
            thread_ids: The threads. Unknown ones are passed over.
            strategy: `"keep_latest"` means `keep="latest"`; `"delete"` deletes the threads.
            keep: `"latest"` keeps the tips and nothing else.
            keep_last: Keep this many checkpoints of every branch, automatic ones too.
            older_than: Delete what is older; the tips of automatic branches are kept as well.

        Raises:
            InvalidArgumentError: More than one rule is given, or one that has no meaning.
        """
        self._sync(
            "prune", thread_ids, strategy=strategy, keep=keep, keep_last=keep_last, older_than=older_than
        )

    async def aprune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Literal["keep_latest", "delete"] | None = None,
        keep: Literal["latest"] | None = None,
        keep_last: int | None = None,
        older_than: timedelta | None = None,
    ) -> None:
        """Async `prune`."""
        await self._async(
            "prune", thread_ids, strategy=strategy, keep=keep, keep_last=keep_last, older_than=older_than
        )

    def rotate(self, thread_ids: Sequence[str] | None = None) -> int:
        """Encrypt threads with the serializer's current key, whatever they were stored with.

        Needs a serializer that encrypts. Each thread is dealt with in one transaction, and what uses
        the current key already is left alone, so a rotation that broke off is simply begun again.

        Args:
            thread_ids: The threads; all that there are if not given. Unknown ones are passed over.

        Returns:
            How many rows were encrypted anew.

        Raises:
            InvalidArgumentError: The serializer does not encrypt.
            EncryptionError: A row cannot be opened; its thread is left as it was.
        """
        count: int = self._sync("rotate", thread_ids)
        return count

    async def arotate(self, thread_ids: Sequence[str] | None = None) -> int:
        """Async `rotate`."""
        count: int = await self._async("rotate", thread_ids)
        return count

    def sweep(self, batch: int = 100) -> int:
        """Delete threads that have expired. They were invisible from the moment they did.

        Args:
            batch: How many to delete in one transaction.

        Returns:
            How many were deleted.
        """
        swept: int = self._sync("sweep", batch)
        return swept

    async def asweep(self, batch: int = 100) -> int:
        """Async `sweep`."""
        swept: int = await self._async("sweep", batch)
        return swept


def resealer(serde: Any) -> Callable[[Row, Encoded], Encoded | None]:
    """Return what encrypts a row with the current key, or `None` if that is so already.

    Raises:
        InvalidArgumentError: The serializer does not encrypt.
    """
    if not getattr(serde, "seals", False) or not hasattr(serde, "reseal"):
        raise InvalidArgumentError("rotate needs a serializer that encrypts, such as EncryptedSerializer.")
    reseal: Callable[[Row, Encoded], Encoded | None] = serde.reseal
    return reseal


def batch_of(batch: int) -> int:
    """Check how many threads to delete at once."""
    whole("batch", batch, 1, 1_000_000)
    return batch
