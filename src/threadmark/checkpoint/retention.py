"""Which checkpoints of a thread are kept. Pure functions over the thread's tree.

A checkpoint of a sub-graph's run belongs to the checkpoint of the graph around it that started the
run, and goes with it. A namespace without a task id in it belongs to a sub-graph that keeps its state
from run to run; it is pruned like the root.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from threadmark._checks import shown
from threadmark.checkpoint.address import MAIN
from threadmark.errors import InvalidArgumentError

__all__ = ["LATEST", "HeadNode", "Node", "Plan", "Rule", "kept_for_runs", "plan", "rule_of"]


class Node(NamedTuple):
    """A checkpoint in the tree of its thread.

    Attributes:
        seq: Its sequence number, which is greater than its parent's.
        ns: Its namespace.
        id: Its id.
        parent: The parent's sequence number.
        created: When it was saved, in milliseconds.
        parents: The checkpoints of the graphs around it, by namespace.
        run_id: The run that saved it.
    """

    seq: int
    ns: str
    id: str
    parent: int | None
    created: int
    parents: Mapping[str, str]
    run_id: str | None


class HeadNode(NamedTuple):
    """A branch in the tree."""

    ns: str
    branch: str
    seq: int
    automatic: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """Which checkpoints to keep of every branch.

    Attributes:
        last: How many from the tip on.
        automatic: Whether branches that nobody named count.
        since: Keep what is as new as this age as well, in milliseconds.
    """

    last: int = 1
    automatic: bool = True
    since: int | None = None


LATEST = Rule(automatic=False)

ON_ITS_WAY = 60_000
"""For how many milliseconds the first checkpoint of a sub-graph's run may be stored before the one that it
started from."""


class Plan(NamedTuple):
    """What is to be done with a thread's tree.

    Attributes:
        dropped: The checkpoints that go.
        parents: New parents, by sequence number, where the old one goes.
        heads: Where branches end from now on, when that changes; `None` when they go.
    """

    dropped: Sequence[Node]
    parents: Mapping[int, int | None]
    heads: Mapping[HeadNode, Node | None]


def rule_of(
    strategy: str | None, keep: str | None, keep_last: int | None, older_than: timedelta | None
) -> Rule | None:
    """Return the rule that the arguments of `prune` mean, `None` for "delete the threads".

    Raises:
        InvalidArgumentError: They mean more than one, or nothing.
    """
    given = [value for value in (strategy, keep, keep_last, older_than) if value is not None]
    if len(given) > 1:
        raise InvalidArgumentError("prune takes one of strategy, keep, keep_last and older_than.")
    if strategy == "delete":
        return None
    if keep_last is not None:
        if not isinstance(keep_last, int) or isinstance(keep_last, bool) or keep_last < 1:
            raise InvalidArgumentError(f"keep_last is a whole number from 1 on, not {shown(keep_last)}.")
        return Rule(last=keep_last)
    if older_than is not None:
        if not isinstance(older_than, timedelta) or older_than < timedelta():
            raise InvalidArgumentError(f"older_than is a timedelta, not {shown(older_than)}.")
        return Rule(since=round(older_than.total_seconds() * 1000))
    if given and given not in (["latest"], ["keep_latest"]):
        raise InvalidArgumentError(
            f"prune knows keep='latest', strategy='keep_latest' and strategy='delete', not {shown(given[0])}."
        )
    return LATEST


def plan(nodes: Sequence[Node], heads: Sequence[HeadNode], rule: Rule, now: int) -> Plan:
    """Decide what a rule does to a thread."""
    by_seq = {node.seq: node for node in nodes}
    named = {head.ns for head in heads if not head.automatic}
    tips = [head for head in heads if rule.automatic or not head.automatic or head.ns not in named]
    kept = {node.seq for head in tips for node in _line(by_seq, head.seq, rule.last)}
    if rule.since is not None:
        kept |= {seq for seq, node in by_seq.items() if node.created >= now - rule.since}
    return _plan(by_seq, heads, kept)


def kept_for_runs(nodes: Sequence[Node], heads: Sequence[HeadNode], run_ids: Collection[str]) -> Plan:
    """Decide what deleting the checkpoints of runs does to a thread."""
    by_seq = {node.seq: node for node in nodes}
    return _plan(by_seq, heads, {seq for seq, node in by_seq.items() if node.run_id not in run_ids})


def _plan(by_seq: Mapping[int, Node], heads: Sequence[HeadNode], kept: set[int]) -> Plan:
    _drop_orphans(by_seq, kept)
    parents = {
        seq: _nearest(by_seq, kept, node.parent)
        for seq, node in by_seq.items()
        if seq in kept and node.parent is not None and node.parent not in kept
    }
    ends: dict[HeadNode, Node | None] = {}
    for head in heads:
        if head.seq not in kept:
            nearest = _nearest(by_seq, kept, head.seq)
            ends[head] = None if nearest is None or head.automatic else by_seq[nearest]
    _keep_a_head(by_seq, heads, kept, ends)
    return Plan([node for seq, node in by_seq.items() if seq not in kept], parents, ends)


def _keep_a_head(
    by_seq: Mapping[int, Node], heads: Sequence[HeadNode], kept: set[int], ends: dict[HeadNode, Node | None]
) -> None:
    """See to it that a namespace of which something is left has a branch, which ends with the newest."""
    left = {head.ns for head in heads if ends.get(head, head) is not None}
    newest = {by_seq[seq].ns: by_seq[seq] for seq in sorted(kept)}
    for ns in newest.keys() - left:
        last = min((head for head in heads if head.ns == ns), key=lambda head: (head.branch != MAIN, head))
        ends[last] = newest[ns]


def _line(by_seq: Mapping[int, Node], seq: int | None, length: int) -> Iterable[Node]:
    """Yield a checkpoint and those that it follows."""
    while seq is not None and seq in by_seq and length > 0:
        yield by_seq[seq]
        seq, length = by_seq[seq].parent, length - 1


def _nearest(by_seq: Mapping[int, Node], kept: set[int], seq: int | None) -> int | None:
    while seq is not None and seq not in kept:
        seq = by_seq[seq].parent if seq in by_seq else None
    return seq


def _drop_orphans(by_seq: Mapping[int, Node], kept: set[int]) -> None:
    """Drop the checkpoints of sub-graph runs whose starting checkpoint is not kept. One that is not stored
    may still be on its way, unless the sub-graph's checkpoint has been waiting for it for long.
    """
    stored = {(node.ns, node.id) for node in by_seq.values()}
    recent = max((node.created for node in by_seq.values()), default=0) - ON_ITS_WAY
    alive = {(by_seq[seq].ns, by_seq[seq].id) for seq in kept}
    outermost_first: Callable[[int], int] = lambda seq: by_seq[seq].ns.count("|")  # noqa: E731
    for seq in sorted(kept, key=outermost_first):
        node = by_seq[seq]
        missed = [parent for parent in node.parents.items() if parent not in alive]
        if ":" in node.ns and any(parent in stored or node.created < recent for parent in missed):
            kept.discard(seq)
            alive.discard((node.ns, node.id))
