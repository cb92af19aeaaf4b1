"""The memory saver shows its users what they know: five attributes, in the documented shapes."""

from __future__ import annotations

import copy
import pickle
from contextlib import closing
from typing import Any

from threadmark.checkpoint.base import TaskWrites
from threadmark.checkpoint.memory import InMemorySaver, MemorySaver

from .helpers import Run, config, fill, shown


def seed() -> InMemorySaver:
    """Commit what the first example of the documents commits."""
    saver = InMemorySaver()
    run = Run(saver, "12345")
    run.step("id0", __start__={})
    start = TaskWrites("task0", "~__pregel_pull, __start__", [("branch:to:get_address", None)])
    second = run.work("id1", writes=[start], **{"__start__": None, "branch:to:get_address": None})
    del second.checkpoint["channel_values"]["__start__"]
    second.cleared = ["__start__"]
    run.commit(second)
    written = [("name", "pavaneeshwar"), ("address", "Hyderabad residency")]
    node = TaskWrites("task1", "~__pregel_pull, get_address", written)
    run.step("id2", writes=[node], changes=dict(written))
    return saver


def test_the_attributes_are_the_documented_ones() -> None:
    assert list(vars(seed())) == ["serde", "storage", "writes", "blobs", "stack"]
    assert MemorySaver is InMemorySaver


def test_storage_has_checkpoint_metadata_and_parent() -> None:
    saver = seed()
    (space,) = saver.storage["12345"].values()
    assert list(space) == ["id0", "id1", "id2"]
    assert [entry[2] for entry in space.values()] == [None, "id0", "id1"]
    for (tag, data), (metadata_tag, _), _ in space.values():
        assert (tag, metadata_tag) == ("msgpack", "msgpack")
        bare = saver.serde.loads_typed((tag, data))
        assert list(bare) == ["v", "ts", "id", "channel_versions", "versions_seen", "updated_channels"]


def test_writes_are_kept_under_the_checkpoint_that_their_task_ran_from() -> None:
    path = "~__pregel_pull, get_address"
    assert seed().writes == {
        ("12345", "", "id0"): {
            ("task0", 0): ("task0", "branch:to:get_address", ("null", b""), "~__pregel_pull, __start__"),
        },
        ("12345", "", "id1"): {
            ("task1", 0): ("task1", "name", ("msgpack", b"\xacpavaneeshwar"), path),
            ("task1", 1): ("task1", "address", ("msgpack", b"\xb3Hyderabad residency"), path),
        },
    }


def test_blobs_hold_each_value_once_with_its_tag() -> None:
    shapes = [(key[:3], value) for key, value in seed().blobs.items()]
    assert shapes == [
        (("12345", "", "__start__"), ("msgpack", b"\x80")),
        (("12345", "", "__start__"), ("empty", b"")),
        (("12345", "", "branch:to:get_address"), ("null", b"")),
        (("12345", "", "name"), ("msgpack", b"\xacpavaneeshwar")),
        (("12345", "", "address"), ("msgpack", b"\xb3Hyderabad residency")),
    ]


def test_lists_look_like_any_other_value() -> None:
    saver = InMemorySaver()
    run = Run(saver)
    for n in range(3):
        run.step(f"c{n}", l=list(range(n)))
    blobs: Any = saver.blobs
    wanted = [("msgpack", b"\x90"), ("msgpack", b"\x91\x00"), ("msgpack", b"\x92\x00\x01")]
    keys = list(blobs)
    assert blobs.values() == wanted
    assert [blobs[key] for key in keys] == wanted
    assert [blobs.get(key) for key in keys] == wanted
    assert blobs.get(("t", "", "l", "unknown"), 7) == 7
    assert list(dict(blobs).values()) == list({**blobs}.values()) == list(blobs.copy().values()) == wanted
    assert blobs == dict(blobs)
    assert repr(blobs) == repr(dict(blobs))
    assert list(copy.deepcopy(dict(blobs)).values()) == wanted
    assert pickle.loads(pickle.dumps(dict(blobs))) == blobs


def test_a_list_that_grows_costs_its_new_items() -> None:
    saver = InMemorySaver()
    run = Run(saver)
    items: list[str] = []
    for n in range(200):
        items = [*items, f"item {n}" * 10]
        run.step(f"c{n}", l=items)
    logs = {
        id(log): sum(map(len, log))
        for key in saver.blobs
        for log, _, _ in saver.blobs.stored(key).slices  # type: ignore[union-attr]
    }
    assert sum(logs.values()) < 2 * sum(len(item) + 2 for item in items)


def test_pruning_lets_go_of_what_was_trimmed() -> None:
    saver = InMemorySaver()
    run = Run(saver)
    items: list[str] = []
    for n in range(100):
        items = [*items[-2:], f"item {n}"]
        run.step(f"c{n}", l=items)
    saver.prune(["t"], keep="latest")
    (stored,) = (saver.blobs.stored(key) for key in saver.blobs)
    assert sum(len(log) for log in {id(s[0]): s[0] for s in stored.slices}.values()) == 3  # type: ignore[union-attr]
    assert Run(saver).values == {"l": items}


def test_nothing_is_left_of_deleted_threads() -> None:
    saver = InMemorySaver()
    fill(saver)
    saver.delete_thread("t")
    assert (saver.storage, saver.writes, dict(saver.blobs)) == ({}, {}, {})
    fill(saver)
    saver.delete_for_runs([f"t-{run}" for run in ("run0", "run1", "run2", "fork")])
    assert (saver.storage, saver.writes, dict(saver.blobs)) == ({}, {}, {})


def test_dicts_that_a_user_empties_are_empty() -> None:
    saver = seed()
    del saver.storage["12345"]
    assert saver.get_tuple(config("12345")) is None
    Run(saver, "12345").step("new", n=1)
    assert [found.checkpoint["id"] for found in saver.list(None)] == ["new"]


def test_the_stack_closes_what_was_put_on_it() -> None:
    closed = []

    class Resource:
        def close(self) -> None:
            closed.append(True)

    with InMemorySaver() as saver:
        saver.stack.enter_context(closing(Resource()))
    assert closed == [True]


def test_history_latest_keeps_nothing_else() -> None:
    saver = InMemorySaver(history="latest")
    run = Run(saver)
    for n in range(5):
        run.step(f"c{n}", writes=[TaskWrites("t", "", [("n", n)])], l=list(range(n)), n=n)
    assert list(saver.storage["t"][""]) == ["c4"]
    assert len(saver.blobs) == 2
    assert not saver.writes
    assert shown(saver)[0][2]["channel_values"] == {"l": [0, 1, 2, 3], "n": 4}
