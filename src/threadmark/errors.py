"""Every error that threadmark raises, in one family.

All derive from `ThreadmarkError`. An error carries its facts as attributes and its message names the
remedy. The names that users of the graph API know are kept, and keep the built-in classes that they
were caught as (`ValueError`, `RecursionError`). This module knows nothing of the rest of the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

__all__ = [
    "CheckpointNotFoundError",
    "EmbeddingError",
    "EmptyChannelError",
    "EmptyInputError",
    "EncryptionError",
    "GraphBubbleUp",
    "GraphChangedError",
    "GraphError",
    "GraphInterrupt",
    "GraphMismatchError",
    "GraphRecursionError",
    "InvalidArgumentError",
    "InvalidNamespaceError",
    "InvalidUpdateError",
    "LeaseLostError",
    "MissingDependencyError",
    "MultipleInterruptsError",
    "NodeCancelledError",
    "NodeError",
    "NodeInterrupt",
    "NodeTimeoutError",
    "NotOfferedError",
    "ParentCommand",
    "SerializationError",
    "StorageBusyError",
    "StorageCorruptError",
    "StorageError",
    "StorageFormatError",
    "StorageFullError",
    "StorageReadOnlyError",
    "StorageUnavailableError",
    "StoreConflictError",
    "StoredError",
    "TaskNotFound",
    "ThreadConflictError",
    "ThreadDeletedError",
    "ThreadmarkError",
    "UnknownInterruptError",
    "UnknownTypeError",
    "ValueTooLargeError",
]


class ThreadmarkError(Exception):
    """The base of every error that threadmark raises."""


class InvalidArgumentError(ThreadmarkError, ValueError):
    """An argument is refused before anything was read or written."""


class InvalidNamespaceError(InvalidArgumentError):
    """A store's namespace is not a tuple of texts, or too long."""


class MissingDependencyError(ThreadmarkError, ImportError):
    """A feature needs a package that is not installed; the message says which extra to install."""


class NotOfferedError(ThreadmarkError, NotImplementedError):
    """A saver or store does not have what was asked of it.

    Attributes:
        who: The class that was asked.
        what: The method that it does not have.
    """

    def __init__(self, who: str, what: str) -> None:
        super().__init__(f"{who} does not offer {what}(). Define it there, or use one of threadmark's own.")
        self.who = who
        self.what = what


# Building and running a graph


class GraphError(ThreadmarkError, ValueError):
    """A graph is built wrongly: the message names the node, edge or key."""


class InvalidUpdateError(ThreadmarkError):
    """A node returned something that cannot be applied to the state."""


class GraphRecursionError(ThreadmarkError, RecursionError):
    """A run took more supersteps than `recursion_limit` allows."""


class EmptyInputError(ThreadmarkError):
    """A run was started with an input that writes to no channel."""


class EmptyChannelError(ThreadmarkError):
    """A channel was read that holds no value yet."""


class TaskNotFound(ThreadmarkError):
    """A task that a saved checkpoint speaks of does not exist in this graph."""


@dataclass(frozen=True, slots=True)
class NodeError:
    """What a node's error handler is told. Not an exception itself.

    Attributes:
        node: The node that failed.
        error: What it raised on its last attempt.
    """

    node: str
    error: BaseException


class NodeTimeoutError(ThreadmarkError, TimeoutError):
    """A node took longer than its timeout.

    Attributes:
        node: The node's name.
        timeout: The limit that was passed, in seconds.
    """

    def __init__(self, node: str, timeout: float) -> None:
        super().__init__(
            f"Node {node!r} did not finish within {timeout:g} s. Raise its timeout, or make it faster."
        )
        self.node = node
        self.timeout = timeout


class NodeCancelledError(ThreadmarkError):
    """A task was cancelled because the run was, or because another task of its step failed."""


class GraphBubbleUp(ThreadmarkError):
    """The base of what passes through nodes on its way to the engine. Never swallow it."""


class GraphInterrupt(GraphBubbleUp):
    """Raised inside a node by `interrupt()`; the engine turns it into a pause.

    Attributes:
        interrupts: The questions that the node asked.
    """

    def __init__(self, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(interrupts)
        self.interrupts = tuple(interrupts)


class NodeInterrupt(GraphInterrupt):
    """Raised by a node itself to pause the run with a value.

    Args:
        value: What to show to the person who decides.
        id: The interrupt's id, when the node keeps its own.
    """

    def __init__(self, value: Any, id: str | None = None) -> None:
        from threadmark.types import Interrupt

        super().__init__([Interrupt(value=value) if id is None else Interrupt(value=value, id=id)])


class ParentCommand(GraphBubbleUp):
    """Carries a `Command(graph=Command.PARENT)` out of a sub-graph to the graph that holds it.

    Attributes:
        command: The command for the parent.
    """

    def __init__(self, command: Any) -> None:
        super().__init__(command)
        self.command = command


class UnknownInterruptError(ThreadmarkError, ValueError):
    """An answer names an interrupt that is not pending.

    Attributes:
        unknown: The ids that are not pending.
        pending: The ids that are.
    """

    def __init__(self, unknown: Sequence[str], pending: Sequence[str]) -> None:
        if unknown:
            names, known = ", ".join(map(repr, unknown)), ", ".join(map(repr, pending)) or "none"
            message = f"No pending interrupt has the id {names}. Pending: {known}."
        else:
            message = "Nothing waits for an answer."
        super().__init__(f"{message} Read what is pending from get_state(config).interrupts.")
        self.unknown = tuple(unknown)
        self.pending = tuple(pending)


class MultipleInterruptsError(ThreadmarkError, RuntimeError):
    """One answer was given while several interrupts are pending.

    Attributes:
        pending: The ids of the pending interrupts.
    """

    def __init__(self, pending: Sequence[str]) -> None:
        super().__init__(
            f"{len(pending)} interrupts are pending, so one answer is ambiguous. Answer by id: "
            f"Command(resume={{{', '.join(f'{i!r}: ...' for i in pending)}}})."
        )
        self.pending = tuple(pending)


class GraphChangedError(ThreadmarkError):
    """A saved thread waits for a node or a join that the graph no longer has.

    Attributes:
        nodes: The names of nodes that are missing.
        joins: The joins that are missing and partly done: the nodes that each waits for, and the one after.
    """

    def __init__(self, nodes: Sequence[str], joins: Sequence[tuple[Sequence[str], str]] = ()) -> None:
        names = ", ".join(map(repr, nodes))
        edges = ", ".join(f"add_edge({list(starts)!r}, {end!r})" for starts, end in joins)
        super().__init__(
            f"The thread waits for {names}, which this graph does not have. Bring the node back, or map "
            f"it with compile(renames={{{nodes[0]!r}: 'new_name'}})."
            if nodes
            else f"The thread has done a part of {edges}, which this graph does not have. Bring the edge "
            f"back until the thread has come to its end, or begin anew with an input."
        )
        self.nodes = tuple(nodes)
        self.joins = tuple((tuple(starts), end) for starts, end in joins)


class GraphMismatchError(ThreadmarkError):
    """A thread belongs to a graph of another name.

    Attributes:
        thread_id: The thread.
        expected: The name of the graph that was run.
        found: The name of the graph that the thread belongs to.
    """

    def __init__(self, thread_id: str, expected: str, found: str) -> None:
        super().__init__(
            f"Thread {thread_id!r} belongs to the graph {found!r}, not {expected!r}. Use another thread_id."
        )
        self.thread_id = thread_id
        self.expected = expected
        self.found = found


# Threads and checkpoints


class ThreadConflictError(ThreadmarkError):
    """Another run moved the thread on; what it saved stands, and this commit was refused.

    Attributes:
        thread_id: The thread.
        checkpoint_ns: The namespace inside it.
        expected: The checkpoint that this run took for the head, or `None` for an empty thread.
        found: The checkpoint that is the head.
    """

    def __init__(self, thread_id: str, checkpoint_ns: str, expected: str | None, found: str | None) -> None:
        super().__init__(
            f"Another run moved thread {thread_id!r} (namespace {checkpoint_ns!r}) from {expected} to "
            f"{found}. Run again from the new state, or compile with on_conflict='wait'."
        )
        self.thread_id = thread_id
        self.checkpoint_ns = checkpoint_ns
        self.expected = expected
        self.found = found


class ThreadDeletedError(ThreadmarkError):
    """The thread was deleted, or expired, while a run was under way; the late commit was refused.

    Attributes:
        thread_id: The thread.
        expired: Its time to live was over; nobody deleted it.
    """

    def __init__(self, thread_id: str, expired: bool = False) -> None:
        super().__init__(
            f"Thread {thread_id!r} expired while a run was under way: its time to live (ttl) was over. "
            f"Nothing was written. Give threads a longer ttl, keep refresh_ttl=True, or extend this one with "
            f"threads.update(thread_id, ttl=...)."
            if expired
            else f"Thread {thread_id!r} was deleted, or swept after it had expired, or never held the "
            f"checkpoint that this write follows. Nothing was written; start a new run to begin afresh."
        )
        self.thread_id = thread_id
        self.expired = expired


class LeaseLostError(ThreadmarkError):
    """A run held a lease on its thread, it ended, and somebody else has it now.

    Attributes:
        thread_id: The thread.
    """

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"The lease on thread {thread_id!r} ended before the run did, and another run has it now. "
            f"Nothing was written; run again, and renew the lease in time."
        )
        self.thread_id = thread_id


class CheckpointNotFoundError(ThreadmarkError, LookupError):
    """A checkpoint that was asked for by id is not stored.

    Attributes:
        thread_id: The thread.
        checkpoint_id: The id that is not there.
    """

    def __init__(self, thread_id: str, checkpoint_id: str) -> None:
        super().__init__(
            f"Thread {thread_id!r} has no checkpoint {checkpoint_id!r}; it may have been pruned. List "
            f"what is there with get_state_history."
        )
        self.thread_id = thread_id
        self.checkpoint_id = checkpoint_id


class ValueTooLargeError(ThreadmarkError):
    """A value is larger than the saver's limit; nothing was written.

    Attributes:
        channel: The channel that holds it.
        size: Its encoded size in bytes.
        limit: The limit in bytes.
    """

    def __init__(self, channel: str, size: int, limit: int) -> None:
        super().__init__(
            f"Channel {channel!r} holds {size} bytes, over the limit of {limit}. Keep large data outside "
            f"the state and store a reference, or raise the saver's max_value_bytes."
        )
        self.channel = channel
        self.size = size
        self.limit = limit


class StorageError(ThreadmarkError):
    """The database refused an operation; the message repeats what it said. Base of the kinds below."""


class StorageBusyError(StorageError):
    """The database stayed locked by others for longer than the busy timeout."""


class StorageUnavailableError(StorageError):
    """The database server could not be reached, or the connection to it was lost."""


class StorageFullError(StorageError):
    """The disk or the database is full; the transaction was rolled back."""


class StorageReadOnlyError(StorageError):
    """The file or its folder cannot be written."""


class StorageCorruptError(StorageError):
    """The file is damaged, or stored rows hold what was never written, contradict each other, or are gone.

    Attributes:
        thread_id: The thread, when known.
        table: The table, when known.
        column: The column, when known.
        checkpoint_id: The checkpoint, when known.
        channel: The channel, when known.
    """

    def __init__(
        self,
        message: str,
        *,
        thread_id: str | None = None,
        table: str | None = None,
        column: str | None = None,
        checkpoint_id: str | None = None,
        channel: str | None = None,
    ) -> None:
        if thread_id is not None:
            message += f" Restore a backup, or give the thread up with delete_thread({thread_id!r})."
        super().__init__(message)
        self.thread_id = thread_id
        self.table = table
        self.column = column
        self.checkpoint_id = checkpoint_id
        self.channel = channel


class StorageFormatError(StorageError):
    """The file is not one of ours, or was written by a newer version."""


class StoreConflictError(ThreadmarkError):
    """A conditional `put` found another version than it expected.

    Attributes:
        namespace: The item's namespace.
        key: The item's key.
        expected: The version that was expected, `None` for "absent".
        found: The version that is there, `None` when there is none.
    """

    def __init__(self, namespace: tuple[str, ...], key: str, expected: int | None, found: int | None) -> None:
        super().__init__(
            f"Item {key!r} in {namespace!r} is at version {found}, not {expected}. Read it again and retry."
        )
        self.namespace = namespace
        self.key = key
        self.expected = expected
        self.found = found


class EmbeddingError(ThreadmarkError, ValueError):
    """An embedding model returned something else than one vector of the right size for each text."""


# Serialization


class SerializationError(ThreadmarkError, TypeError):
    """A value cannot be stored, or stored bytes cannot be read.

    Attributes:
        path: Where inside the value, as `messages[3].args['fn']`.
        channel: The channel, when known.
        node: The node that wrote it, when known.
    """

    def __init__(
        self, message: str, *, path: str = "", channel: str | None = None, node: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.channel = channel
        self.node = node

    def __str__(self) -> str:
        where = []
        if self.channel is not None:
            where.append(f"channel {self.channel!r}")
        if self.node is not None:
            where.append(f"written by node {self.node!r}")
        if self.path:
            where.append(f"at {(self.channel or 'value') + self.path}")
        return f"{self.message} ({', '.join(where)})" if where else self.message

    def at(self, *, path: str | None = None, channel: str | None = None, node: str | None = None) -> Self:
        """Add where the value is, and return the error: `raise error.at(channel=..., node=...)`."""
        if path is not None:
            self.path = path
        if channel is not None:
            self.channel = channel
        if node is not None:
            self.node = node
        return self


class UnknownTypeError(SerializationError):
    """A value, or stored data, is of a type that the serializer was not told about. The data stays.

    Attributes:
        type_name: The type, as `package.module:QualifiedName`.
    """

    def __init__(self, type_name: str, **where: Any) -> None:
        super().__init__(
            f"The type {type_name} is not known to the serializer. Name it in the graph's schema, or "
            f"register it with serde.allow({type_name!r})",
            **where,
        )
        self.type_name = type_name


class StoredError(ThreadmarkError):
    """Stands for a stored exception of a class that is not known, or that held what cannot be kept.

    Attributes:
        type_name: The exception's class, as `package.module:QualifiedName`.
        text: What the exception said.
    """

    def __init__(self, type_name: str, text: str) -> None:
        super().__init__(f"{type_name.rpartition(':')[2]}: {text}" if text else type_name)
        self.type_name = type_name
        self.text = text

    def __repr__(self) -> str:
        name = self.type_name.rpartition(":")[2].rpartition(".")[2]
        return f"{name}({self.text!r})" if self.text else f"{name}()"


class EncryptionError(SerializationError):
    """Encrypted data could not be opened, or plaintext was found where encryption is on."""
