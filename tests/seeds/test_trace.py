"""One run of a graph with one node leaves exactly the rows that users know from descriptions of the saver."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Literal, TypedDict

import ormsgpack
import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.graph import StateGraph
from threadmark.graph.state import END, START
from threadmark.store.memory import InMemoryStore
from threadmark.types import Command

FIRST, SECOND, THIRD = (f"{n:032}" for n in (1, 2, 3))
START_WRITE, NODE_WRITE = "~__pregel_pull, __start__", "~__pregel_pull, get_address"


class GraphState(TypedDict):
    name: str
    address: str


def get_address(state: GraphState) -> Command[Literal["__end__"]]:
    return Command(update={"name": "pavaneeshwar", "address": "Hyderabad residency"})


def traced(mode: str) -> InMemorySaver:
    """Return the saver after the run."""
    graph = StateGraph(GraphState)
    graph.add_node("get_address", get_address)
    graph.add_edge(START, "get_address")
    graph.add_edge("get_address", END)
    app = graph.compile(checkpointer=InMemorySaver(), store=InMemoryStore())
    config = {"configurable": {"thread_id": "12345"}}
    if mode == "sync":
        app.invoke({}, config=config)
    else:
        asyncio.run(app.ainvoke({}, config=config))
    assert isinstance(app.checkpointer, InMemorySaver)
    return app.checkpointer


@pytest.fixture(scope="module", params=["sync", "async"])
def saver(request: pytest.FixtureRequest) -> InMemorySaver:
    return traced(request.param)


def shortened(value: Any) -> Any:
    """Return a value with the random part of each version cut off, after a look at it."""
    if isinstance(value, dict):
        return {k: shortened(v) for k, v in value.items()}
    if isinstance(value, str) and re.match(r"^\d{32}\.", value):
        assert re.fullmatch(r"\d{32}\.0\.\d+(e-\d+)?", value)
        return value.partition(".")[0]
    return value


def checkpoints(saver: InMemorySaver) -> list[tuple[str, dict[str, Any], dict[str, Any], str | None]]:
    """Return id, checkpoint, metadata and parent of each checkpoint, oldest first."""
    found = []
    for identifier, (checkpoint, metadata, parent) in saver.storage["12345"][""].items():
        assert checkpoint[0] == metadata[0] == "msgpack"
        found.append((identifier, ormsgpack.unpackb(checkpoint[1]), ormsgpack.unpackb(metadata[1]), parent))
    return found


def test_the_saver_has_five_attributes(saver: InMemorySaver) -> None:
    assert list(saver.__dict__.keys()) == ["serde", "storage", "writes", "blobs", "stack"]


def test_three_checkpoints_are_linked(saver: InMemorySaver) -> None:
    assert list(saver.storage) == ["12345"]
    assert list(saver.storage["12345"]) == [""]
    found = checkpoints(saver)
    ids = [identifier for identifier, *_ in found]
    assert [parent for *_, parent in found] == [None, ids[0], ids[1]]
    assert ids == sorted(ids)
    assert [identifier.split("-")[3] for identifier in ids] == ["bfff", "8000", "8001"]
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-6[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", i) for i in ids)
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00"
    assert all(re.fullmatch(moment, checkpoint["ts"]) for _, checkpoint, _, _ in found)


CHECKPOINTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {
            "v": 4,
            "channel_versions": {"__start__": FIRST},
            "versions_seen": {"__input__": {}},
            "updated_channels": ["__start__"],
        },
        {"source": "input", "step": -1, "parents": {}},
    ),
    (
        {
            "v": 4,
            "channel_versions": {"__start__": SECOND, "branch:to:get_address": SECOND},
            "versions_seen": {"__input__": {}, "__start__": {"__start__": FIRST}},
            "updated_channels": ["branch:to:get_address"],
        },
        {"source": "loop", "step": 0, "parents": {}},
    ),
    (
        {
            "v": 4,
            "channel_versions": {
                "__start__": SECOND,
                "branch:to:get_address": THIRD,
                "name": THIRD,
                "address": THIRD,
            },
            "versions_seen": {
                "__input__": {},
                "__start__": {"__start__": FIRST},
                "get_address": {"branch:to:get_address": SECOND},
            },
            "updated_channels": ["address", "name"],
        },
        {"source": "loop", "step": 1, "parents": {}},
    ),
]


@pytest.mark.parametrize("number", range(3))
def test_each_checkpoint_holds_these_keys_in_this_order(saver: InMemorySaver, number: int) -> None:
    identifier, checkpoint, metadata, _ = checkpoints(saver)[number]
    expected, expected_metadata = CHECKPOINTS[number]
    assert list(checkpoint) == ["v", "ts", "id", "channel_versions", "versions_seen", "updated_channels"]
    assert checkpoint.pop("id") == identifier
    del checkpoint["ts"]
    assert shortened(checkpoint) == expected
    assert list(metadata.items()) == list(expected_metadata.items())


def test_each_task_left_its_writes_under_the_checkpoint_it_ran_from(saver: InMemorySaver) -> None:
    first, second, _ = [identifier for identifier, *_ in checkpoints(saver)]
    assert list(saver.writes) == [("12345", "", first), ("12345", "", second)]
    started, ran = (list(rows.items()) for rows in saver.writes.values())
    (key, row) = started[0]
    assert len(started) == 1
    assert key[1] == 0
    assert row == (key[0], "branch:to:get_address", ("null", b""), START_WRITE)
    (name_key, name), (address_key, address) = ran
    assert (name_key[1], address_key[1]) == (0, 1)
    assert name_key[0] == address_key[0] != key[0]
    assert name == (name_key[0], "name", ("msgpack", b"\xacpavaneeshwar"), NODE_WRITE)
    assert address == (name_key[0], "address", ("msgpack", b"\xb3Hyderabad residency"), NODE_WRITE)
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", k[0]) for k in (key, name_key))


def test_each_version_of_a_channel_left_its_value_once(saver: InMemorySaver) -> None:
    rows = {(*key[:3], shortened(key[3])): value for key, value in saver.blobs.items()}
    assert rows == {
        ("12345", "", "__start__", FIRST): ("msgpack", b"\x80"),
        ("12345", "", "__start__", SECOND): ("empty", b""),
        ("12345", "", "branch:to:get_address", SECOND): ("null", b""),
        ("12345", "", "branch:to:get_address", THIRD): ("empty", b""),
        ("12345", "", "name", THIRD): ("msgpack", b"\xacpavaneeshwar"),
        ("12345", "", "address", THIRD): ("msgpack", b"\xb3Hyderabad residency"),
    }
    versions = {key[3] for key in saver.blobs}
    assert len(versions) == 3, "the channels of a superstep share its version"
