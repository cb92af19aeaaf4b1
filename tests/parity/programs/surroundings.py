"""What a node is handed beside the state: config, context, store, and the run's options."""

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from typing_extensions import TypedDict

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}


class Note(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


@dataclass
class Caller:
    user: str
    level: int = 1


@program()
async def a_config_reaches_its_nodes(t: Trace) -> None:
    seen: list[Any] = []

    def by_parameter(state: Note, config: RunnableConfig) -> dict[str, Any]:
        seen.append(config)
        return {}

    def by_function(state: Note) -> dict[str, Any]:
        seen.append(t.lib.get_config())
        return {}

    graph = t.lib.StateGraph(Note).add_sequence([by_parameter, by_function])
    graph.add_edge(t.lib.START, "by_parameter")
    app = graph.compile(checkpointer=await t.saver())
    config = {
        "configurable": {"thread_id": "here", "model": "small"},
        "metadata": {"team": "red"},
        "tags": ["tagged"],
    }
    await t.call(app, "invoke", {"text": "x"}, config)
    for found in seen:
        t.note("thread", found["configurable"]["thread_id"])
        t.note("model", found["configurable"]["model"])
        t.note("tags", found["tags"])
        t.note("team", found["metadata"]["team"])
        t.note("node", found["metadata"]["langgraph_node"])
        t.note("step", found["metadata"]["langgraph_step"])


@program(savers=("memory",))
async def the_namespace_in_a_node(t: Trace) -> None:
    seen: list[str] = []

    def look(state: Note, config: RunnableConfig) -> dict[str, Any]:
        seen.append(config["configurable"]["checkpoint_ns"])
        return {}

    child = t.lib.StateGraph(Note).add_node(look).add_edge(t.lib.START, "look").compile()
    graph = t.lib.StateGraph(Note).add_node(look).add_node("child", child)
    graph.add_edge(t.lib.START, "look").add_edge("look", "child")
    app = graph.compile(checkpointer=await t.saver())
    await t.call(app, "invoke", {"text": "x"}, HERE)
    root, inner = seen
    t.differs("in the root", root.split(":")[0], ours="", theirs="look")
    t.note("in a sub-graph", inner.split(":")[0])


@program()
async def a_context_travels_with_the_run(t: Trace) -> None:
    def greet(state: Note, runtime: t.lib.Runtime[Caller]) -> dict[str, Any]:
        caller = runtime.context
        return {"log": [f"{type(caller).__name__} {caller.user} {caller.level}"]}

    def again(state: Note) -> dict[str, Any]:
        return {"log": [t.lib.get_runtime(Caller).context.user]}

    child = t.lib.StateGraph(Note, context_schema=Caller).add_node(again)
    graph = t.lib.StateGraph(Note, context_schema=Caller).add_node(greet)
    graph.add_node("child", child.add_edge(t.lib.START, "again").compile())
    graph.add_edge(t.lib.START, "greet").add_edge("greet", "child")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"text": "x"}, HERE, context=Caller("ada", 3))
    await t.invoke(app, {"text": "x"}, HERE, context={"user": "bob"})


@program(savers=("memory",))
async def a_runtime_without_anything(t: Trace) -> None:
    def look(state: Note, runtime: t.lib.Runtime) -> dict[str, Any]:
        t.note("empty", (runtime.context, runtime.store, runtime.previous))
        runtime.stream_writer("into the void")
        return {}

    app = t.lib.StateGraph(Note).add_node(look).add_edge(t.lib.START, "look").compile()
    await t.invoke(app, {"text": "x"})


@program(savers=("memory",))
async def outside_a_node_there_is_no_config(t: Trace) -> None:
    for name in ("get_config", "get_store", "get_stream_writer"):
        try:
            getattr(t.lib, name)()
        except Exception as error:
            t.note(name, isinstance(error, RuntimeError | ValueError))


@program()
async def several_inputs_at_once(t: Trace) -> None:
    graph = t.lib.StateGraph(Note).add_node("n", lambda s: {"log": [s["text"]]})
    app = graph.add_edge(t.lib.START, "n").compile(checkpointer=await t.saver())
    configs = [{"configurable": {"thread_id": str(i)}} for i in range(3)]
    inputs = [{"text": f"t{i}"} for i in range(3)]
    t.note("batch", await t.call(app, "batch", inputs, configs))
    results = await t.call(app, "batch", [inputs[0], 5], configs[:2], return_exceptions=True)
    t.note("with errors", results)
    t.note("refused", await t.call(app, "batch", [5], configs[:1]))
    await t.state(app, configs[2])


@program()
async def a_config_can_be_bound(t: Trace) -> None:
    graph = t.lib.StateGraph(Note).add_node("n", lambda s: {"log": [s["text"]]})
    app = graph.add_edge(t.lib.START, "n").compile(checkpointer=await t.saver())
    await t.invoke(app.with_config(HERE), {"text": "bound"})
    await t.state(app, HERE)


@program(modes=("async",), savers=("memory",))
async def concurrency_can_be_limited(t: Trace) -> None:
    running, most = [0], [0]

    async def work(task: dict[str, Any]) -> dict[str, Any]:
        running[0] += 1
        most[0] = max(most[0], running[0])
        for _ in range(3):
            await asyncio.sleep(0)
        running[0] -= 1
        return {"log": [str(task["n"])]}

    graph = t.lib.StateGraph(Note).add_node("work", work)
    graph.add_conditional_edges(
        t.lib.START, lambda s: [t.lib.Send("work", {"n": n}) for n in range(5)], ["work"]
    )
    await t.invoke(graph.compile(), {"text": "x"}, {"max_concurrency": 2})
    t.note("at most", most[0] <= 2)


@program(modes=("async",), savers=("memory",))
async def a_sync_node_does_not_block_the_loop(t: Trace) -> None:
    import threading

    loop_is_free = threading.Event()

    def sync_node(state: Note) -> dict[str, Any]:
        return {"log": [f"loop was free: {loop_is_free.wait(timeout=30)}"]}

    async def async_node(state: Note) -> dict[str, Any]:
        loop_is_free.set()
        return {}

    graph = t.lib.StateGraph(Note).add_node(sync_node).add_node(async_node)
    graph.add_edge(t.lib.START, "sync_node").add_edge(t.lib.START, "async_node")
    await t.invoke(graph.compile(), {"text": "x"})


@program(savers=("memory",), modes=("sync",))
async def a_compiled_graph_knows_its_subgraphs(t: Trace) -> None:
    leaf = t.lib.StateGraph(Note).add_node("n", lambda s: {}).add_edge(t.lib.START, "n").compile()
    middle = t.lib.StateGraph(Note).add_node("leaf", leaf).add_edge(t.lib.START, "leaf").compile()
    app = t.lib.StateGraph(Note).add_node("middle", middle).add_edge(t.lib.START, "middle").compile()
    t.note("direct", [name for name, _ in app.get_subgraphs()])
    t.note("all", [name for name, _ in app.get_subgraphs(recurse=True)])
    t.note("one", [name for name, _ in app.get_subgraphs(namespace="middle|leaf", recurse=True)])
    t.differs("name", app.name, ours="graph", theirs="LangGraph")


@program(savers=("memory",), modes=("sync",))
async def a_graph_can_be_drawn(t: Trace) -> None:
    graph = t.lib.StateGraph(Note)
    for name in ("a", "b", "c"):
        graph.add_node(name, lambda s: {})
    graph.add_edge(t.lib.START, "a").add_edge("c", t.lib.END)
    graph.add_conditional_edges("a", lambda s: "yes", {"yes": "b", "no": t.lib.END})
    graph.add_conditional_edges("b", lambda s: "c", ["c"])
    drawing = graph.compile().get_graph()
    t.note("nodes", list(drawing.nodes))
    t.note("edges", sorted((e.source, e.target, e.data, e.conditional) for e in drawing.edges))
