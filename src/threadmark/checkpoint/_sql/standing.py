"""Where a thread stands at the moment of a transaction, and what must be true for a commit to go on."""

from __future__ import annotations

from typing import NamedTuple

from threadmark._db.effects import Execute, Operation
from threadmark.checkpoint._sql.shapes import HEAD, SEQ, SPACE, STANDING, TIP
from threadmark.checkpoint._sql.statements import Statements
from threadmark.checkpoint.address import Address
from threadmark.checkpoint.encode import EncodedCommit
from threadmark.errors import StorageCorruptError, ThreadConflictError, ThreadDeletedError

__all__ = [
    "Standing",
    "check_head",
    "find_standing",
    "gone_tip",
    "name_tip",
    "number_of",
    "refuse_gone_tips",
    "refuse_lost_head",
    "space_of",
]


class Standing(NamedTuple):
    """What is stored of a thread, as far as one branch of one namespace is concerned.

    Attributes:
        thread: The thread's key; `None` when there is no such thread, or it has expired.
        expired: The key of a thread that has expired and was not swept yet.
        updated: When the thread's row was last written.
        status: What the thread's row says.
        last: The sequence number of the thread's newest checkpoint.
        space: The namespace's number; `None` when the branch does not exist in it.
        seq: The sequence number of the branch's tip.
        tip: The branch's tip.
        lost: The branch does not exist, and no branch leads to the thread's newest checkpoint.
    """

    thread: int | None = None
    expired: int | None = None
    updated: int = 0
    status: str = "idle"
    last: int = 0
    space: int | None = None
    seq: int | None = None
    tip: str | None = None
    lost: bool = False

    @property
    def incarnation(self) -> str | None:
        """The thread's birth mark."""
        return None if self.thread is None else str(self.thread)

    @property
    def gone(self) -> str | None:
        """The birth mark of a thread that has expired and was not swept yet."""
        return None if self.expired is None else str(self.expired)


def find_standing(sql: Statements, thread_id: str, ns: str, branch: str, now: int) -> Operation[Standing]:
    """Look up where a thread stands.

    Raises:
        StorageCorruptError: The branch ends with a checkpoint that is gone.
    """
    rows = STANDING.of((yield Execute(sql.find_standing, (ns, branch, thread_id))), thread_id)
    if not rows:
        return Standing()
    thread, updated, status, expires, last, space, seq, tip, lost = rows[0]
    if expires is not None and expires <= now:
        return Standing(expired=thread)
    if seq is not None and seq > (last or 0):
        raise gone_tip(thread_id, tip)
    return Standing(thread, None, updated, status, last or 0, space, seq, tip, lost is not None)


def gone_tip(thread_id: str, checkpoint_id: str | None) -> StorageCorruptError:
    """Return the error for a branch that ends with a checkpoint that is not stored."""
    return StorageCorruptError(
        f"A branch of thread {thread_id!r} ends with checkpoint {checkpoint_id!r}, which is gone.",
        thread_id=thread_id,
        table="tm_checkpoints",
        checkpoint_id=checkpoint_id,
    )


def refuse_gone_tips(sql: Statements, thread: int, thread_id: str, ns: str | None) -> Operation[None]:
    """Make sure that the checkpoints are there that the branches of a thread, or of a namespace, end with.

    Raises:
        StorageCorruptError: One is not.
    """
    for (checkpoint_id,) in TIP.of((yield Execute(sql.find_gone_tip, (thread, ns))), thread_id):
        raise gone_tip(thread_id, checkpoint_id)


def check_head(commit: EncodedCommit, at: Standing) -> None:
    """Compare the head that a commit expects with the one that is there.

    Raises:
        ThreadDeletedError: The thread is not there any more.
        ThreadConflictError: The head is another.
    """
    head = commit.head
    if head is None:
        return
    if head.incarnation is not None and head.incarnation != at.incarnation:
        raise ThreadDeletedError(commit.thread_id, head.incarnation == at.gone)
    if commit.checkpoint_id is not None and head.checkpoint_id != at.tip:
        raise ThreadConflictError(commit.thread_id, commit.ns, head.checkpoint_id, at.tip)


def refuse_lost_head(sql: Statements, at: Standing, address: Address) -> Operation[None]:
    """Make sure that a branch without an end was never begun, rather than lost.

    Every namespace that holds checkpoints has a branch. A graph's own namespace is the first of a
    thread, so where it is missing all others are looked through; a sub-graph's is missing whenever one
    begins, so that only the newest checkpoint is looked at.

    Raises:
        StorageCorruptError: There are checkpoints that no branch leads to.
    """
    lost = at.lost
    if at.last and not address.ns and at.space is None and not lost:
        lost = bool((yield Execute(sql.find_lost, (at.thread,))))
    if lost:
        raise StorageCorruptError(
            f"Thread {address.thread_id!r} has checkpoints that no branch leads to: its row in tm_heads is "
            f"gone.",
            thread_id=address.thread_id,
            table="tm_heads",
        )


def number_of(sql: Statements, commit: EncodedCommit, at: Standing, checkpoint_id: str) -> Operation[int]:
    """Return the sequence number of a checkpoint that a commit builds on.

    Raises:
        ThreadDeletedError: It is not stored.
    """
    if checkpoint_id == at.tip and at.seq is not None:
        return at.seq
    if at.thread is None:
        raise ThreadDeletedError(commit.thread_id, at.expired is not None)
    space = at.space
    if space is None:
        space = yield from space_of(sql, at.thread, commit.ns)
    rows = SEQ.of((yield Execute(sql.find_number, (at.thread, space, checkpoint_id))), commit.thread_id)
    if not rows:
        raise ThreadDeletedError(commit.thread_id)
    return int(rows[0][0])


def space_of(sql: Statements, thread: int, ns: str) -> Operation[int | None]:
    """Return the number of a namespace, whatever the branch; `None` if it holds nothing."""
    rows = SPACE.of((yield Execute(sql.find_space, (thread, ns))))
    return int(rows[0][0]) if rows else None


def name_tip(sql: Statements, thread: int, ns: str, head: tuple[int, int, str]) -> Operation[None]:
    """Give a tip that was left behind an automatic name, unless it can be reached as it is.

    Args:
        sql: The statements.
        thread: The thread.
        ns: The namespace.
        head: The namespace's number, and the tip's sequence number and id.
    """
    space, seq, tip = head
    if (yield Execute(sql.has_child, (thread, seq))):
        return
    here = [row for row in HEAD.of((yield Execute(sql.list_heads, (thread,)))) if row[0] == ns]
    if any(row[3] == seq for row in here):
        return
    name, taken = f"fork-{seq}", {row[1] for row in here}
    while name in taken:
        name += "+"
    yield Execute(sql.create_head, (thread, ns, name, space, seq, tip, True))
