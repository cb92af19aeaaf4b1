"""One face for the sync and the async methods of a saver, and what the checks build their data with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from threadmark.checkpoint.base import (
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointTuple,
    Commit,
    Head,
    Kept,
    Loaded,
    TaskCommit,
    TaskWrites,
    empty_checkpoint,
)
from threadmark.config import RunnableConfig
from threadmark.testing.kit import Check

__all__ = ["AsyncFace", "Chain", "Checks", "Face", "SyncFace", "at", "checkpoint", "raises"]

_LISTS = ("list",)


class Face(Protocol):
    """A saver whose methods are awaited, whichever they are."""

    saver: BaseCheckpointSaver[Any]

    def call(self, name: str, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call a method by its sync name. Iterators come back as lists."""
        ...


class SyncFace:
    """Calls the sync methods."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self.saver = saver

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method by its sync name. Iterators come back as lists."""
        result = getattr(self.saver, name)(*args, **kwargs)
        return list(result) if name in _LISTS else result


class AsyncFace:
    """Calls the async twins."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self.saver = saver

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method by its sync name. Iterators come back as lists."""
        if name in _LISTS:
            return [item async for item in getattr(self.saver, f"a{name}")(*args, **kwargs)]
        return await getattr(self.saver, f"a{name}")(*args, **kwargs)


class Checks(list[Check]):
    """Collects the checks of one group."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self._group = group

    def __call__(self, run: Callable[[Face], Awaitable[None]]) -> Callable[[Face], Awaitable[None]]:
        """Add a check; its docstring is the promise."""
        self.append(Check((run.__doc__ or run.__name__).strip(), self._group, run))
        return run


def at(thread_id: Any, ns: str = "", checkpoint_id: str | None = None, **more: Any) -> RunnableConfig:
    """Return a config."""
    configurable = {"thread_id": thread_id, "checkpoint_ns": ns, **more}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


def checkpoint(checkpoint_id: str, values: Mapping[str, Any], versions: Mapping[str, Any]) -> Checkpoint:
    """Return a checkpoint."""
    return {
        **empty_checkpoint(),
        "id": checkpoint_id,
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": dict(versions),
    }


class raises:
    """A block that must raise an error."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self.kinds = kinds
        self.error: Any = None

    def __enter__(self) -> raises:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        self.error = error
        assert error is not None, f"{' or '.join(k.__name__ for k in self.kinds)} was not raised"
        return isinstance(error, self.kinds)


class Chain:
    """A thread that grows by one checkpoint after the other, through `put` or through `commit`."""

    def __init__(self, face: Face, thread_id: str = "t", ns: str = "", *, classic: bool = False) -> None:
        self.face = face
        self.thread_id = thread_id
        self.ns = ns
        self.classic = classic
        self.tip: str | None = None
        self.head: Head | None = None
        self.memo: Any = None
        self.values: dict[str, Any] = {}
        self.versions: dict[str, Any] = {}
        self.count = 0
        self.name = "c"

    async def load(self, checkpoint_id: str | None = None, **more: Any) -> Loaded:
        """Start from what is stored, as a run does."""
        loaded: Loaded = await self.face.call("load", at(self.thread_id, self.ns, checkpoint_id, **more))
        self.head, self.memo = loaded.head, loaded.memo
        if loaded.saved is not None:
            self.tip = loaded.saved.checkpoint["id"]
            self.count = int(self.tip[-4:])
            self.values = dict(loaded.saved.checkpoint["channel_values"])
            self.versions = dict(loaded.saved.checkpoint["channel_versions"])
        return loaded

    def next(
        self, changes: Mapping[str, Any], cleared: Sequence[str] = ()
    ) -> tuple[Checkpoint, dict[str, Any]]:
        """Make the next checkpoint and its new versions."""
        version = self.face.saver.get_next_version(max(self.versions.values(), default=None), None)
        new = dict.fromkeys([*changes, *cleared], version)
        self.values = {k: v for k, v in {**self.values, **changes}.items() if k not in cleared}
        self.versions.update(new)
        self.count += 1
        return checkpoint(f"{self.name}{self.count:04}", self.values, self.versions), new

    async def add(
        self,
        changes: Mapping[str, Any],
        *,
        cleared: Sequence[str] = (),
        writes: Sequence[TaskWrites] = (),
        metadata: Mapping[str, Any] | None = None,
        kept: Mapping[str, Kept] | None = None,
        **more: Any,
    ) -> str:
        """Save one more checkpoint and return its id."""
        saved, new = self.next(changes, cleared)
        about: Any = {"step": self.count, **(metadata or {})}
        if self.classic:
            await self.face.call("put", at(self.thread_id, self.ns, self.tip), saved, about, new)
        else:
            work = self.work(saved, about, new, writes, kept, cleared, **more)
            self.head = await self.face.call("commit", self.face.saver.prepare(work))
        self.tip = saved["id"]
        return saved["id"]

    def work(
        self,
        saved: Checkpoint,
        about: Any,
        new: dict[str, Any],
        writes: Sequence[TaskWrites] = (),
        kept: Mapping[str, Kept] | None = None,
        cleared: Sequence[str] = (),
        **more: Any,
    ) -> Commit:
        """Return the commit of a checkpoint that follows the tip."""
        return Commit(
            self.thread_id,
            self.ns,
            self.tip,
            saved,
            about,
            new,
            writes,
            self.head,
            kept or {},
            cleared,
            memo=self.memo,
            **more,
        )

    def get_in_line(
        self,
        changes: Mapping[str, Any],
        *,
        cleared: Sequence[str] = (),
        writes: Sequence[TaskWrites] = (),
        kept: Mapping[str, Kept] | None = None,
    ) -> tuple[str, Any]:
        """Prepare one more checkpoint, as a run does that does not wait for it; return its id and what was
        prepared.
        """
        saved, new = self.next(changes, cleared)
        about: Any = {"step": self.count}
        prepared = self.face.saver.prepare(self.work(saved, about, new, writes, kept, cleared))
        self.tip = saved["id"]
        if self.head is not None:
            self.head = Head(self.head.incarnation, saved["id"], self.head.branch)
        return saved["id"], prepared

    async def save(self, *writes: TaskWrites) -> None:
        """Save writes of tasks that ran from the tip."""
        work = TaskCommit(self.thread_id, self.ns, self.tip or "", writes, self.head)
        await self.face.call("commit", self.face.saver.prepare(work))

    async def read(self, checkpoint_id: str | None = None) -> CheckpointTuple:
        """Return a stored checkpoint, which must be there."""
        found = await self.face.call("get_tuple", at(self.thread_id, self.ns, checkpoint_id))
        assert found is not None, f"checkpoint {checkpoint_id or 'at the head'} is not there"
        return found  # type: ignore[no-any-return]

    async def stored(self, checkpoint_id: str | None = None) -> dict[str, Any]:
        """Return the stored values."""
        return (await self.read(checkpoint_id)).checkpoint["channel_values"]
