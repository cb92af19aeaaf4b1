"""Branches and the tree of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from threadmark._db.effects import Execute, Operation, Rows, Transaction
from threadmark.checkpoint._sql.read import Reading, bare
from threadmark.checkpoint._sql.shapes import CHECKPOINT, HEAD, SEQ
from threadmark.checkpoint._sql.standing import Standing, find_standing, name_tip, refuse_lost_head, space_of
from threadmark.checkpoint._sql.statements import Statements
from threadmark.checkpoint.address import MAIN, Address, branch_name
from threadmark.checkpoint.branches import Branch, CheckpointNode, unknown_branch
from threadmark.checkpoint.records import checkpoint_config
from threadmark.checkpoint.threads import moment
from threadmark.errors import CheckpointNotFoundError, InvalidArgumentError

__all__ = ["Place", "branches", "create_branch", "delete_branch", "rename_branch", "switch_branch", "tree"]

_NEWEST = 2**62
_PAGE = 1_000


@dataclass(slots=True)
class Place:
    """A namespace of a thread whose branches are meant."""

    reading: Reading
    address: Address

    @property
    def sql(self) -> Statements:
        """The statements."""
        return self.reading.sql


# Reading


def branches(place: Place) -> Operation[list[Branch]]:
    """Return the branches, `main` first and then by name."""
    found: list[Branch] = yield Transaction(_branches(place), read_only=True)
    return found


def _branches(place: Place) -> Operation[list[Branch]]:
    at = yield from _standing(place)
    yield from refuse_lost_head(place.sql, at, place.address)
    heads = (yield from _heads(place, at)) if at.thread is not None else []
    found = [
        Branch(branch, checkpoint_id, bool(automatic))
        for ns, branch, _, _, checkpoint_id, automatic in heads
        if ns == place.address.ns
    ]
    return sorted(found, key=lambda branch: (branch.name != MAIN, branch.name))


def tree(place: Place) -> Operation[list[CheckpointNode]]:
    """Return the checkpoints, newest first, without reading any values."""
    found: list[CheckpointNode] = yield Transaction(_tree(place), read_only=True)
    return found


def _tree(place: Place) -> Operation[list[CheckpointNode]]:
    at = yield from _standing(place)
    if at.thread is None:
        return []
    tips: dict[str, list[str]] = {}
    for branch in (yield from _branches(place)):
        tips.setdefault(branch.checkpoint_id, []).append(branch.name)
    nodes: list[CheckpointNode] = []
    seq = _NEWEST
    while True:
        rows = yield Execute(place.sql.page_of_thread, (at.thread, seq, None, place.address.ns, _PAGE))
        nodes += [_node(place, row, tips) for row in CHECKPOINT.of(rows, place.address.thread_id)]
        if len(rows) < _PAGE:
            return nodes
        seq = rows[-1][0]


def _node(place: Place, row: Any, tips: dict[str, list[str]]) -> CheckpointNode:
    thread_id, ns = place.address.thread_id, place.address.ns
    found = bare(place.reading, thread_id, row)
    return CheckpointNode(
        checkpoint_config(thread_id, ns, found.id),
        checkpoint_config(thread_id, ns, found.parent_id) if found.parent_id else None,
        found.metadata,
        moment(found.created),
        tuple(tips.get(found.id, ())),
    )


# Changing


def create_branch(place: Place, name: str) -> Operation[Branch]:
    """Begin a branch."""
    made: Branch = yield Transaction(_create_branch(place, branch_name(name)))
    return made


def _create_branch(place: Place, name: str) -> Operation[Branch]:
    thread_id, ns, checkpoint_id, _ = place.address
    at = yield from _existing(place)
    wanted = checkpoint_id or at.tip
    space = yield from space_of(place.sql, at.thread or 0, ns)
    rows = SEQ.of((yield Execute(place.sql.find_number, (at.thread, space, wanted))), thread_id)
    if not rows:
        raise CheckpointNotFoundError(thread_id, wanted or "")
    yield from _free(place, at, name)
    yield Execute(place.sql.create_head, (at.thread, ns, name, space, rows[0][0], wanted, False))
    return Branch(name, wanted or "")


def rename_branch(place: Place, name: str, new_name: str) -> Operation[Branch]:
    """Give a branch another name."""
    made: Branch = yield Transaction(
        _rename_branch(place, branch_name(name), branch_name(new_name, "new_name"))
    )
    return made


def _rename_branch(place: Place, name: str, new_name: str) -> Operation[Branch]:
    at = yield from _existing(place)
    space, seq, tip, _ = yield from _other(place, at, name)
    if new_name != name:
        yield from _free(place, at, new_name)
    yield Execute(place.sql.drop_head, (at.thread, place.address.ns, name))
    yield Execute(place.sql.create_head, (at.thread, place.address.ns, new_name, space, seq, tip, False))
    return Branch(new_name, tip)


def switch_branch(place: Place, name: str) -> Operation[Branch]:
    """Move `main` to where another branch ends."""
    made: Branch = yield Transaction(_switch_branch(place, branch_name(name)))
    return made


def _switch_branch(place: Place, name: str) -> Operation[Branch]:
    ns = place.address.ns
    at = yield from _existing(place)
    space, seq, tip, automatic = yield from _other(place, at, name)
    main = yield from find_standing(place.sql, place.address.thread_id, ns, MAIN, place.reading.now)
    if main.seq is None:
        yield Execute(place.sql.create_head, (at.thread, ns, MAIN, space, seq, tip, False))
    else:
        yield Execute(place.sql.move_head, (seq, tip, at.thread, ns, MAIN))
    if automatic:
        yield Execute(place.sql.drop_head, (at.thread, ns, name))
    if main.seq is not None and main.seq != seq:
        yield from name_tip(place.sql, at.thread or 0, ns, (space, main.seq, main.tip or ""))
    return Branch(MAIN, tip)


def delete_branch(place: Place, name: str) -> Operation[None]:
    """Forget a branch's name."""
    yield Transaction(_delete_branch(place, branch_name(name)))


def _delete_branch(place: Place, name: str) -> Operation[None]:
    at = yield from _existing(place)
    yield from _other(place, at, name)
    yield Execute(place.sql.drop_head, (at.thread, place.address.ns, name))


def _standing(place: Place) -> Operation[Standing]:
    thread_id, ns, _, branch = place.address
    return (yield from find_standing(place.sql, thread_id, ns, branch, place.reading.now))


def _existing(place: Place) -> Operation[Standing]:
    at = yield from _standing(place)
    if at.thread is None:
        raise CheckpointNotFoundError(place.address.thread_id, place.address.checkpoint_id or "")
    return at


def _other(place: Place, at: Standing, name: str) -> Operation[tuple[int, int, str, bool]]:
    """Return the namespace's number, and tip and kind, of a branch that is not `main`."""
    if name == MAIN:
        raise InvalidArgumentError("The branch main stays where it is; switch or create another one.")
    for ns, branch, space, seq, tip, automatic in (yield from _heads(place, at)):
        if (ns, branch) == (place.address.ns, name):
            return space, seq, tip, bool(automatic)
    raise InvalidArgumentError(unknown_branch(name, place.address.thread_id))


def _free(place: Place, at: Standing, name: str) -> Operation[None]:
    heads = yield from _heads(place, at)
    if any((ns, branch) == (place.address.ns, name) for ns, branch, *_ in heads):
        raise InvalidArgumentError(f"The branch {name!r} exists already. Choose another name.")


def _heads(place: Place, at: Standing) -> Operation[Rows]:
    return HEAD.of((yield Execute(place.sql.list_heads, (at.thread,))), place.address.thread_id)
