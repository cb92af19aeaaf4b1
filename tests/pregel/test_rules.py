"""The rules of a superstep, as tables: which tasks run next, what their writes do, when to pause."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest

from pregel.plans import SEED, checkpoint_of, live, plan_of, task_of
from threadmark.channels.base import MISSING
from threadmark.checkpoint.base import Checkpoint
from threadmark.constants import ERROR, INTERRUPT, NO_WRITES, NULL_TASK_ID, RESUME, TASKS
from threadmark.errors import GraphChangedError, InvalidUpdateError
from threadmark.pregel.plan import Channels
from threadmark.pregel.rules import Task, apply_writes, match_writes, next_tasks, path_text, pauses, preview
from threadmark.types import Interrupt, Send

PLAN = plan_of()
BOTH = {"a", "b"}


def applied(checkpoint: Checkpoint, channels: Channels, tasks: Sequence[Task]) -> set[str]:
    """Apply the writes of tasks as version 2, and return what changed."""
    holding = {name for name in PLAN.forgets if channels[name].value is not MISSING}
    changed, _ = apply_writes(PLAN, checkpoint, channels, tasks, 2, holding)
    assert holding == {name for name in PLAN.forgets if channels[name].value is not MISSING}
    return changed


NEXT = [
    ("nothing is awake on an empty thread", {}, {}, {}, []),
    ("a value that nobody saw wakes its node", {"wake:a": None}, {"wake:a": 1}, {}, ["a", "e"]),
    ("a value that was seen does not", {"wake:a": 0}, {"wake:a": 1}, {"a": {"wake:a": 1}}, ["e"]),
    ("a newer version does again", {"wake:b": 0}, {"wake:b": 3}, {"b": {"wake:b": 2}}, ["b"]),
    ("a version without a value wakes nobody", {}, {"wake:b": 3}, {"b": {"wake:b": 2}}, []),
    ("a value without a version wakes nobody", {"wake:b": 0}, {}, {}, []),
    ("half a join wakes nobody", {"both": {"a"}}, {"both": 4}, {}, []),
    ("a whole join wakes all who wait for it", {"both": BOTH}, {"both": 4}, {}, ["d", "e"]),
    ("pulled tasks come in the order of names", {"wake:b": 0, "wake:a": 0}, {"wake:b": 1, "wake:a": 1}, {},
     ["a", "b", "e"]),
    ("what was sent comes first, in its order", {TASKS: [Send("b", 1), Send("a", 2)], "wake:b": 0},
     {"wake:b": 1}, {}, ["b", "a", "b"]),
    ("a state key wakes nobody", {"plain": "x", "list": [1]}, {"plain": 9, "list": 9}, {}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "versions", "seen", "names"), [row[1:] for row in NEXT], ids=[r[0] for r in NEXT]
)
def test_which_tasks_run_next(
    values: Mapping[str, Any], versions: Mapping[str, int], seen: Any, names: list[str]
) -> None:
    tasks = next_tasks(PLAN, checkpoint_of(versions, seen), live(values), SEED)
    assert [task.name for task in tasks] == names


@pytest.mark.parametrize(
    ("values", "versions", "seen", "names"), [row[1:] for row in NEXT], ids=[r[0] for r in NEXT]
)
def test_knowing_what_is_new_changes_only_the_work(
    values: Mapping[str, Any], versions: Mapping[str, int], seen: Any, names: list[str]
) -> None:
    checkpoint, channels = checkpoint_of(versions, seen), live(values)
    tasks = next_tasks(PLAN, checkpoint, channels, SEED, news=set(versions))
    assert [task.name for task in tasks] == names


def test_the_id_of_a_task_depends_on_its_checkpoint_and_place_alone() -> None:
    channels = live({TASKS: [Send("a", 1), Send("a", 1)], "wake:a": 0})
    checkpoint = checkpoint_of({"wake:a": 1}, {})
    first = [task.id for task in next_tasks(PLAN, checkpoint, channels, SEED)]
    assert first == [task.id for task in next_tasks(PLAN, checkpoint, channels, SEED)]
    others = [("other", "", 3), (SEED[0], "ns", 3), (SEED[0], "", 4)]
    everywhere = [task.id for seed in others for task in next_tasks(PLAN, checkpoint, channels, seed)]
    assert len({*first, *everywhere}) == len(first) * 4


def test_a_send_to_a_node_that_is_gone_is_refused_or_mapped() -> None:
    channels = live({TASKS: [Send("old", 1)]})
    with pytest.raises(GraphChangedError) as caught:
        next_tasks(PLAN, checkpoint_of({}, {}), channels, SEED)
    assert caught.value.nodes == ("old",)
    (task,) = next_tasks(plan_of({"old": "b"}), checkpoint_of({}, {}), channels, SEED)
    assert task.name == "b"


WRITES = [
    # what, values before, writes by node, values after, new, woken
    ("a plain key takes the value", {}, {"a": [("plain", "x")]}, {"plain": "x"}, {"plain"}, set()),
    ("a reducer takes writes in the order of names", {"list": [0]},
     {"b": [("list", [2])], "a": [("list", [1])]}, {"list": [0, 1, 2]}, {"list"}, set()),
    ("a trigger is consumed", {"wake:a": 0}, {"a": [("plain", "x")]}, {"plain": "x"}, {"plain"}, {"wake:a"}),
    ("a trigger may be set again", {"wake:a": 0}, {"a": [("wake:a", 1)]}, {"wake:a": 1}, {"wake:a"}, set()),
    ("half a join waits", {}, {"a": [("both", "a")]}, {}, {"both"}, set()),
    ("a whole join wakes", {}, {"a": [("both", "a")], "b": [("both", "b")]}, {"both": None}, {"both"}, set()),
    ("what was sent is there for one step", {TASKS: [Send("a", 1)]}, {"b": []}, {}, set(), {TASKS}),
    ("what waits for the end waits while something wakes", {}, {"a": [("late", 1), ("wake:b", 0)]},
     {"wake:b": 0}, {"late", "wake:b"}, set()),
    ("and comes when nothing does", {}, {"a": [("late", 1)]}, {"late": 1}, {"late"}, set()),
    ("words about the task are no state", {}, {"a": [(NO_WRITES, None), (RESUME, [1])]}, {}, set(), set()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "writes", "after", "new", "gone"), [r[1:] for r in WRITES], ids=[r[0] for r in WRITES]
)
def test_what_writes_do(
    before: Mapping[str, Any], writes: Mapping[str, Any], after: Mapping[str, Any], new: Any, gone: Any
) -> None:
    results = []
    for order in permutations(task_of(PLAN, name, *given) for name, given in writes.items()):
        checkpoint, channels = checkpoint_of(dict.fromkeys(before, 1), {}), live(before)
        changed = applied(checkpoint, channels, order)
        held = {k: c.value for k, c in channels.items() if c.value is not MISSING and c.value != []}
        results.append((held, changed, checkpoint["channel_versions"], checkpoint["versions_seen"]))
    held, changed, versions, seen = results[0]
    assert all(result == results[0] for result in results), "the order in which tasks finish does not matter"
    assert held == after
    assert new <= changed
    assert gone <= changed
    assert versions == {**dict.fromkeys(before, 1), **dict.fromkeys(changed, 2)}
    assert seen == {n: {t: 1 for t in PLAN.nodes[n].triggers if t in before} for n in writes}


def test_the_order_in_which_versions_are_listed_depends_on_the_writes_alone() -> None:
    checkpoint, channels = checkpoint_of({}, {}), live({"wake:b": 0, "wake:a": 0, TASKS: [Send("a", 1)]})
    applied(checkpoint, channels, [task_of(PLAN, "b", ("plain", "x"), ("late", 1)), task_of(PLAN, "a")])
    assert list(checkpoint["channel_versions"]) == ["plain", "late", TASKS, "wake:a", "wake:b"]


def test_pushed_tasks_are_ordered_by_number_not_by_text() -> None:
    tasks = [task_of(PLAN, "a", ("list", [i]), path=("__pregel_push", i, False)) for i in range(12)]
    channels = live({})
    applied(checkpoint_of({}, {}), channels, tasks[::-1])
    assert channels["list"].value == list(range(12))


REFUSED = [
    ("two writes to a plain key", {"a": [("plain", 1)], "b": [("plain", 2)]}, "plain.*Written by: a, b"),
    ("a channel that is not there", {"a": [("nowhere", 1)]}, "'nowhere' does not exist"),
    ("a name that a join does not wait for", {"a": [("both", "x")]}, "join waits for.*Written by: a"),
]


@pytest.mark.parametrize(("writes", "message"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_writes_that_cannot_be_applied_name_key_and_node(writes: Mapping[str, Any], message: str) -> None:
    tasks = [task_of(PLAN, name, *given) for name, given in writes.items()]
    with pytest.raises(InvalidUpdateError) as caught:
        applied(checkpoint_of({}, {}), live({}), tasks)
    assert re.search(message, str(caught.value), re.DOTALL)


def test_a_preview_leaves_the_channels_as_they_are() -> None:
    channels = live({"plain": "x", "list": [1]})
    shown = preview(
        channels, [("plain", "y"), ("list", [2]), ("list", [3]), (TASKS, Send("a", 1)), ("no", 1)]
    )
    assert (shown["plain"].value, shown["list"].value) == ("y", [1, 2, 3])
    assert (channels["plain"].value, channels["list"].value) == ("x", [1])
    assert shown[TASKS] is channels[TASKS]


PAUSES = [
    ("a named node", {"k": 2}, {}, {"a"}, ["a"]),
    ("another node", {"k": 2}, {}, {"b"}, []),
    ("any node", {"k": 2}, {}, "*", ["a"]),
    ("nothing changed since the last stop", {"k": 2}, {"k": 2}, "*", []),
    ("something changed since", {"k": 3}, {"k": 2}, "*", ["a"]),
    ("something is new since", {"k": 2, "l": 1}, {"k": 2}, "*", ["a"]),
]


@pytest.mark.parametrize(
    ("versions", "stopped", "names", "expected"), [r[1:] for r in PAUSES], ids=[r[0] for r in PAUSES]
)
def test_when_a_breakpoint_stops(versions: Any, stopped: Any, names: Any, expected: list[str]) -> None:
    checkpoint = checkpoint_of(versions, {INTERRUPT: stopped} if stopped else {})
    assert [task.name for task in pauses(checkpoint, names, [task_of(PLAN, "a")])] == expected


def test_saved_writes_find_their_tasks() -> None:
    a, b, d = (task_of(PLAN, name) for name in "abd")
    for task in (a, b, d):
        task.writes = None
    question, error = Interrupt("?", a.question_id(0)), ValueError("no")
    saved = [
        (a.id, INTERRUPT, [question]),
        (a.id, RESUME, ["yes"]),
        (b.id, "list", [1]),
        (b.id, "plain", "x"),
        (d.id, ERROR, error),
        (NULL_TASK_ID, "plain", "y"),
        ("somebody else", "plain", "z"),
    ]
    assert match_writes([a, b, d], saved) == [("plain", "y")]
    assert (a.interrupts, a.answers, a.writes, a.unanswered()) == ((question,), ["yes"], None, [])
    assert (b.writes, b.cached) == ([("list", [1]), ("plain", "x")], True)
    assert (d.error, d.writes, d.cached) == (error, None, False)


def test_a_task_that_wrote_nothing_is_finished_all_the_same() -> None:
    task = task_of(PLAN, "a")
    saved = task.saved_writes
    task.writes = None
    match_writes([task], [(saved.task_id, channel, value) for channel, value in saved.writes])
    assert task.writes == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("__pregel_pull", "node"), "~__pregel_pull, node"),
        (("__pregel_push", 7, False), "~__pregel_push, 0000000007, 0000000000"),
        (("__pregel_push", ("__pregel_pull", "n"), 1), "~__pregel_push, ~__pregel_pull, n, 0000000001"),
    ],
)
def test_how_a_path_is_saved(path: Any, text: str) -> None:
    assert path_text(path) == text
