"""Threads, checkpoints and what reading them shows."""

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}
THERE = {"configurable": {"thread_id": "there"}}


class Trip(TypedDict):
    city: str
    stops: Annotated[list[str], operator.add]


def pick(state: Trip) -> dict[str, Any]:
    return {"city": "Rome", "stops": ["Rome"]}


def extend(state: Trip) -> dict[str, Any]:
    return {"city": "Bari", "stops": ["Bari"]}


async def trip(t: Trace, **options: Any) -> Any:
    graph = t.lib.StateGraph(Trip).add_node(pick).add_node(extend)
    graph.add_edge(t.lib.START, "pick").add_edge("pick", "extend").add_edge("extend", t.lib.END)
    return graph.compile(checkpointer=await t.saver(), **options)


@program()
async def a_run_leaves_one_checkpoint_per_step(t: Trace) -> None:
    app = await trip(t)
    await t.invoke(app, {"city": "", "stops": []}, HERE)
    await t.state(app, HERE)
    await t.history(app, HERE)


@program()
async def a_thread_continues_where_it_stood(t: Trace) -> None:
    app = await trip(t)
    await t.invoke(app, {"city": "", "stops": []}, HERE)
    await t.invoke(app, {"city": "Oslo"}, HERE)
    await t.stream(app, {"stops": ["by ferry"]}, HERE, stream_mode="values")
    await t.invoke(app, {"city": "Paris", "stops": ["Lyon"]}, THERE)
    await t.history(app, HERE)
    await t.history(app, THERE)


@program()
async def a_finished_thread_has_nothing_to_resume(t: Trace) -> None:
    app = await trip(t)
    await t.invoke(app, {"city": "", "stops": []}, HERE)
    await t.stream(app, None, HERE, stream_mode=["values", "updates"])
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program()
async def an_unknown_thread_is_empty_and_stays_so(t: Trace) -> None:
    app = await trip(t)
    await t.state(app, HERE)
    await t.history(app, HERE)
    await t.invoke(app, None, HERE)
    await t.state(app, HERE)


@program()
async def a_history_can_be_narrowed(t: Trace) -> None:
    app = await trip(t)
    for city in ("one", "two"):
        await t.invoke(app, {"city": city, "stops": []}, HERE)
    full = await t.history(app, HERE)
    await t.history(app, HERE, limit=3)
    await t.history(app, HERE, filter={"source": "input"})
    await t.history(app, HERE, filter={"source": "loop", "step": 1})
    await t.history(app, HERE, before=full[4].config)
    await t.history(app, HERE, before=full[4].config, limit=2, filter={"source": "loop"})
    await t.state(app, full[3].config)


@program()
async def durability_decides_how_much_history_there_is(t: Trace) -> None:
    app = await trip(t)
    for durability in ("sync", "async", "exit"):
        config = {"configurable": {"thread_id": durability}}
        await t.invoke(app, {"city": "", "stops": []}, config, durability=durability)
        await t.history(app, config)
    await t.invoke(app, {"city": "again"}, {"configurable": {"thread_id": "exit"}}, durability="exit")
    await t.history(app, {"configurable": {"thread_id": "exit"}})


@program()
async def metadata_of_a_run_is_kept_with_its_checkpoints(t: Trace) -> None:
    app = await trip(t)
    config = {**HERE, "metadata": {"tenant": "blue", "attempt": 2}}
    await t.invoke(app, {"city": "", "stops": []}, config)
    await t.history(app, HERE, filter={"tenant": "blue"}, limit=1)
    await t.history(app, HERE, filter={"tenant": "red"})


@program()
async def a_secret_among_the_configurables_is_not_stored(t: Trace) -> None:
    app = await trip(t)
    config = {"configurable": {"thread_id": "here", "api_key": "s3cret"}}
    await t.call(app, "invoke", {"city": "", "stops": []}, config)
    state = await t.call(app, "get_state", HERE)
    kept = state.metadata.get("api_key")
    t.differs("configurable in metadata", kept, ours=None, theirs="s3cret")


@program()
async def the_metadata_tells_what_each_step_wrote(t: Trace) -> None:
    app = await trip(t)
    await t.call(app, "invoke", {"city": "", "stops": []}, HERE)
    states = await t.collect(app, "get_state_history", HERE)
    t.differs(
        "metadata['writes']",
        [state.metadata.get("writes", "absent") for state in states],
        ours=[
            {"extend": {"city": "Bari", "stops": ["Bari"]}},
            {"pick": {"city": "Rome", "stops": ["Rome"]}},
            None,
            {"city": ""},
        ],
        theirs=["absent"] * 4,
    )


@program()
async def a_run_needs_an_input_and_a_thread(t: Trace) -> None:
    app = await trip(t)
    await t.invoke(app, {"city": "x"})
    await t.invoke(app, {"city": "x"}, {"configurable": {}})
    await t.invoke(app, {}, THERE)
    await t.invoke(app, 5, HERE)
    state = await t.call(app, "get_state", HERE)
    t.differs("left by a refused input", state.next, ours=(), theirs=("__start__",))


@program(savers=("memory",))
async def without_a_saver_nothing_is_kept(t: Trace) -> None:
    graph = t.lib.StateGraph(Trip).add_node(pick).add_edge(t.lib.START, "pick")
    app = graph.compile()
    await t.invoke(app, {"city": "", "stops": []})
    await t.invoke(app, {"city": "", "stops": []}, HERE)
    await t.state(app, HERE)
    await t.update(app, HERE, {"city": "x"})


@program(modes=("sync",), savers=("memory",))
async def the_memory_saver_shows_what_it_stores(t: Trace) -> None:
    class Person(TypedDict):
        name: str
        address: str

    def get_address(state: Person) -> Any:
        return t.lib.Command(update={"name": "Ada", "address": "Hyderabad"})

    graph = t.lib.StateGraph(Person).add_node("get_address", get_address)
    graph.add_edge(t.lib.START, "get_address").add_edge("get_address", t.lib.END)
    saver = t.lib.InMemorySaver()
    graph.compile(checkpointer=saver).invoke({}, {"configurable": {"thread_id": "12345"}})

    def short(version: Any) -> Any:
        return version.split(".")[0] if isinstance(version, str) else version

    t.note("attributes", list(vars(saver)))
    stored = []
    for checkpoint, metadata, parent in saver.storage["12345"][""].values():
        found = saver.serde.loads_typed(checkpoint)
        found["channel_versions"] = {k: short(v) for k, v in found["channel_versions"].items()}
        found["versions_seen"] = {
            node: {k: short(v) for k, v in seen.items()} for node, seen in found["versions_seen"].items()
        }
        stored.append((list(found), found, saver.serde.loads_typed(metadata), parent))
    t.note("storage", stored)
    t.note("writes", [(key, list(writes.items())) for key, writes in saver.writes.items()])
    t.note("blobs", [(*key[:3], short(key[3]), *blob) for key, blob in saver.blobs.items()])
