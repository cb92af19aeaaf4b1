"""Deletion, pruning, copying and sweeping, for the memory saver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from threadmark.checkpoint.address import each_of, thread_id_of
from threadmark.checkpoint.memory.parts import BlobKey, Space, StoredList, Thread, moved, trimmed
from threadmark.checkpoint.memory.shelf import Shelf
from threadmark.checkpoint.records import Checkpoint
from threadmark.checkpoint.retention import HeadNode, Node, Plan, Rule, kept_for_runs, plan, rule_of
from threadmark.checkpoint.rows import value_row, write_row
from threadmark.checkpoint.serde.base import Encoded, Row
from threadmark.checkpoint.upkeep import batch_of, resealer
from threadmark.errors import InvalidArgumentError

__all__ = ["Tending"]


class Tending(Shelf):
    """See `threadmark.checkpoint.upkeep.Upkeep`."""

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread. A late write of a run under way cannot bring it back."""
        thread_id = thread_id_of(thread_id)
        with self._lock:
            self._drop_thread(thread_id)
            self._leases.pop(thread_id, None)

    def sweep(self, batch: int = 100) -> int:
        """Delete threads that have expired."""
        batch_of(batch)
        with self._lock:
            expired = [thread_id for thread_id in self.storage if self._thread(thread_id) is None]
            for thread_id in expired:
                self._drop_thread(thread_id)
        return len(expired)

    def prune(self, thread_ids: Sequence[str], **rules: Any) -> None:
        """Delete old checkpoints of threads. What is kept stays readable to the last value."""
        rule = rule_of(**{**_NO_RULES, **rules})
        for thread_id in map(thread_id_of, each_of("thread_ids", thread_ids)):
            with self._lock:
                if rule is None:
                    self.delete_thread(thread_id)
                else:
                    self._prune(thread_id, rule)

    def _prune(self, thread_id: str, rule: Rule) -> None:
        self._keep(thread_id, lambda nodes, heads: plan(nodes, heads, rule, self._options.now()))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that runs saved, by the `run_id` in their metadata."""
        wanted = {str(run_id) for run_id in each_of("run_ids", run_ids)}
        with self._lock:
            for thread_id in [i for i, thread in self.storage.items() if _ran(thread, wanted)]:
                self._keep(thread_id, lambda nodes, heads: kept_for_runs(nodes, heads, wanted))
                if not any(self.storage[thread_id].values()):
                    self._drop_thread(thread_id)

    def _keep(self, thread_id: str, decide: Callable[[Sequence[Node], Sequence[HeadNode]], Plan]) -> None:
        """Delete what is decided, and what nobody needs then."""
        thread = self.storage.get(thread_id)
        if thread is None:
            return
        nodes = _nodes(thread)
        names = {node.seq: node.id for node in nodes}
        decided = decide(nodes, _heads(thread))
        for head, end in decided.heads.items():
            if end is None:
                thread[head.ns].drop_head(head.branch)
            else:
                thread[head.ns].heads[head.branch] = end.id
        for node in nodes:
            if node.seq in decided.parents:
                space, parent = thread[node.ns], decided.parents[node.seq]
                space[node.id] = (*space[node.id][:2], None if parent is None else names[parent])
        for node in decided.dropped:
            del thread[node.ns][node.id], thread[node.ns].facts[node.id]
            self.writes.pop((thread_id, node.ns, node.id), None)
        if decided.dropped:
            thread.last = max(
                (fact.seq for space in thread.values() for fact in space.facts.values()), default=0
            )
            self._collect(thread_id, thread)

    def _collect(self, thread_id: str, thread: Thread) -> None:
        """Delete the values that no checkpoint names, and the items that no list holds."""
        for ns in [ns for ns, space in thread.items() if not space]:
            for key in thread.pop(ns).blobs:
                self.blobs.pop(key, None)
        lists: dict[BlobKey, StoredList] = {}
        for ns, space in thread.items():
            needed = self._named(thread_id, ns, space)
            for key in space.blobs - needed:
                self.blobs.pop(key, None)
            space.blobs &= needed
            for key in space.blobs:
                stored = self.blobs.stored(key)
                if isinstance(stored, StoredList):
                    lists[key] = stored
        logs = trimmed(lists.values())
        for key, stored in lists.items():
            self.blobs.keep(key, moved(stored, logs))

    def _named(self, thread_id: str, ns: str, space: Space) -> set[BlobKey]:
        """Return the keys of the values that checkpoints name."""
        needed: set[BlobKey] = set()
        for checkpoint_id, entry in space.items():
            row = Row("checkpoint", thread_id, ns, checkpoint_id)
            checkpoint: Checkpoint = self._codec.loads(row, entry[0])
            needed.update((thread_id, ns, c, v) for c, v in checkpoint["channel_versions"].items())
        return needed

    def rotate(self, thread_ids: Sequence[str] | None = None) -> int:
        """Encrypt threads with the serializer's current key, whatever they were stored with."""
        reseal = resealer(self._codec.serde)
        count = 0
        for thread_id in map(thread_id_of, list(self.storage) if thread_ids is None else thread_ids):
            with self._lock:
                renewed = self._resealed(thread_id, reseal)
                for holder, key, data in renewed:
                    holder[key] = data
                count += len(renewed)
        return count

    def _resealed(
        self, thread_id: str, reseal: Callable[[Row, Encoded], Encoded | None]
    ) -> list[tuple[Any, Any, Any]]:
        """Return what is to be replaced, where: a dict, a key, and the value. Nothing is changed yet."""
        found: list[tuple[Any, Any, Any]] = []
        for ns, space in self.storage.get(thread_id, Thread(0, 0, None)).items():
            for name, (body, metadata, parent) in space.items():
                address = (thread_id, ns, name)
                new = (reseal(Row("checkpoint", *address), body), reseal(Row("metadata", *address), metadata))
                found += [(space, name, (new[0] or body, new[1] or metadata, parent))] if any(new) else []
                written = self.writes.get(address, {})
                for (task_id, idx), (_, channel, data, path) in written.items():
                    anew = reseal(write_row(address, channel, task_id, idx), data)
                    if anew is not None:
                        found.append((written, (task_id, idx), (task_id, channel, anew, path)))
            for key in space.blobs:
                stored = self.blobs.stored(key)
                if stored is None or isinstance(stored, StoredList):
                    continue
                anew = reseal(value_row(*key), stored)
                if anew is not None:
                    found.append((self.blobs, key, anew))
        return found

    # Copies

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history to an id that is free."""
        source, target = thread_id_of(source_thread_id), thread_id_of(target_thread_id)
        with self._lock:
            old = self._thread(source)
            if old is None:
                raise InvalidArgumentError(f"There is no thread {source!r} to copy.")
            if self._thread(target) is not None:
                raise InvalidArgumentError(f"Thread {target!r} exists already. Copy to an id that is free.")
            self._drop_thread(target)
            new = Thread(next(self._numbers), self._options.now(), None)
            new.last, new.status, new.about = old.last, old.status, dict(old.about)
            new.ttl, new.expires = old.ttl, old.expires
            for ns, space in old.items():
                new[ns] = self._copied_space(source, target, ns, space)
            self._copy_values(source, target, old, new)
            self.storage[target] = new

    def _copied_space(self, source: str, target: str, ns: str, space: Space) -> Space:
        new = Space()
        new.heads, new.automatic, new.facts = dict(space.heads), set(space.automatic), dict(space.facts)
        for name, (body, metadata, parent) in space.items():
            new[name] = (
                self._moved(Row("checkpoint", source, ns, name), target, body),
                self._moved(Row("metadata", source, ns, name), target, metadata),
                parent,
            )
            written = self.writes.get((source, ns, name))
            if written is not None:
                self.writes[target, ns, name] = {
                    (task_id, idx): (
                        task_id,
                        channel,
                        self._moved(write_row((source, ns, name), channel, task_id, idx), target, data),
                        path,
                    )
                    for (task_id, idx), (_, channel, data, path) in written.items()
                }
        return new

    def _copy_values(self, source: str, target: str, old: Thread, new: Thread) -> None:
        found = {key: self.blobs.stored(key) for space in old.values() for key in space.blobs}
        logs = trimmed(stored for stored in found.values() if isinstance(stored, StoredList))
        for (_, ns, channel, version), stored in found.items():
            if stored is None:
                continue
            if isinstance(stored, StoredList):
                copy: Encoded | StoredList = moved(stored, logs)
            else:
                copy = self._moved(value_row(source, ns, channel, version), target, stored)
            key = (target, ns, channel, version)
            self.blobs.keep(key, copy)
            new[ns].blobs.add(key)

    def _moved(self, row: Row, target: str, data: Encoded) -> Encoded:
        """Protect data for where it is now."""
        if not self._codec.seals:
            return data
        return self._codec.seal(row._replace(thread_id=target), self._codec.open(row, data))


_NO_RULES = {"strategy": None, "keep": None, "keep_last": None, "older_than": None}


def _ran(thread: Thread, run_ids: set[str]) -> bool:
    return any(fact.run_id in run_ids for space in thread.values() for fact in space.facts.values())


def _nodes(thread: Thread) -> list[Node]:
    return [
        Node(
            fact.seq,
            ns,
            name,
            space.facts[parent].seq if (parent := space[name][2]) is not None else None,
            fact.created,
            fact.parents,
            fact.run_id,
        )
        for ns, space in thread.items()
        for name, fact in space.facts.items()
    ]


def _heads(thread: Thread) -> list[HeadNode]:
    return [
        HeadNode(ns, branch, space.facts[tip].seq, branch in space.automatic)
        for ns, space in thread.items()
        for branch, tip in space.heads.items()
    ]
