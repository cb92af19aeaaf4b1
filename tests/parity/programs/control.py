"""What runs next: edges, joins, branches, sends, commands, deferred nodes and the recursion limit."""

import operator
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}
EVENTS = ["values", "updates", "tasks"]


class Work(TypedDict):
    items: list[str]
    done: Annotated[list[str], operator.add]


def step(name: str) -> Any:
    """A node that notes its name."""
    return lambda state: {"done": [name]}


async def graph_of(t: Trace, *names: str) -> Any:
    graph = t.lib.StateGraph(Work)
    for name in names:
        graph.add_node(name, step(name))
    return graph


@program()
async def parallel_nodes_write_in_the_order_of_their_names(t: Trace) -> None:
    graph = await graph_of(t, "zoe", "amy", "max", "end")
    for name in ("zoe", "amy", "max"):
        graph.add_edge(t.lib.START, name)
    graph.add_edge(["zoe", "amy", "max"], "end")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS, parallel=True)
    await t.history(app, HERE)


@program()
async def map_and_reduce_with_sends(t: Trace) -> None:
    def plan(state: Work) -> dict[str, Any]:
        return {"items": ["apple", "pear", "plum"]}

    def fan_out(state: Work) -> list[Any]:
        return [t.lib.Send("cook", {"item": item}) for item in state["items"]]

    def cook(task: dict[str, Any]) -> dict[str, Any]:
        return {"done": [f"{task['item']} pie"]}

    def serve(state: Work) -> dict[str, Any]:
        return {"done": [f"{len(state['done'])} pies served"]}

    graph = t.lib.StateGraph(Work).add_node(plan).add_node(cook).add_node(serve)
    graph.add_edge(t.lib.START, "plan").add_conditional_edges("plan", fan_out, ["cook"])
    graph.add_edge("cook", "serve")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"done": []}, HERE, stream_mode=[*EVENTS, "checkpoints"], parallel=True)
    await t.history(app, HERE)


@program()
async def sends_and_names_can_be_mixed(t: Trace) -> None:
    def route(state: Work) -> list[Any]:
        return ["plain", t.lib.Send("sent", {"n": 2}), t.lib.Send("sent", {"n": 1})]

    graph = await graph_of(t, "first", "plain")
    graph.add_node("sent", lambda task: {"done": [f"sent {task['n']}"]})
    graph.add_edge(t.lib.START, "first").add_conditional_edges("first", route)
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS, parallel=True)
    await t.history(app, HERE)


@program()
async def sends_from_the_start(t: Trace) -> None:
    graph = t.lib.StateGraph(Work)
    graph.add_node("each", lambda item: {"done": [item.upper()]})
    graph.add_conditional_edges(
        t.lib.START, lambda state: [t.lib.Send("each", item) for item in state["items"]], ["each"]
    )
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": ["a", "b"]}, HERE, stream_mode=EVENTS, parallel=True)
    await t.history(app, HERE)


@program()
async def branches_with_and_without_a_map(t: Trace) -> None:
    graph = await graph_of(t, "small", "large", "check", "report")
    graph.add_conditional_edges(t.lib.START, lambda s: len(s["items"]) > 1, {True: "large", False: "small"})

    def after(state: Work) -> Literal["check", "report"]:
        return "check" if "large" in state["done"] else "report"

    graph.add_conditional_edges("small", after).add_conditional_edges("large", after)
    graph.add_conditional_edges("check", lambda state: ["report", t.lib.END])
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": ["x"]}, HERE, stream_mode=EVENTS)
    await t.stream(app, {"items": ["x", "y"]}, {"configurable": {"thread_id": "2"}}, stream_mode=EVENTS)
    await t.history(app, HERE)


@program()
async def a_branch_sees_what_its_node_just_wrote(t: Trace) -> None:
    graph = await graph_of(t, "count")
    graph.add_edge(t.lib.START, "count")
    graph.add_conditional_edges("count", lambda state: t.lib.END if len(state["done"]) >= 3 else "count")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS)
    await t.history(app, HERE)


@program(modes=("async",), savers=("memory",))
async def branches_can_be_async(t: Trace) -> None:
    async def route(state: Work) -> str:
        return "b"

    graph = await graph_of(t, "a", "b")
    graph.add_edge(t.lib.START, "a").add_conditional_edges("a", route, ["b"])
    await t.stream(graph.compile(), {"items": []}, stream_mode=EVENTS)


@program()
async def commands_update_and_route(t: Trace) -> None:
    def decide(state: Work) -> Any:
        goto = ["b", t.lib.Send("c", {"from": "decide"})] if not state["done"] else t.lib.END
        return t.lib.Command(update={"done": ["decided"]}, goto=goto)

    graph = await graph_of(t, "b")
    graph.add_node("decide", decide, destinations=("b", "c"))
    graph.add_node("c", lambda task: {"done": [f"c from {task['from']}"]})
    graph.add_edge(t.lib.START, "decide").add_edge("b", "decide")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS, parallel=True)
    await t.history(app, HERE)


@program()
async def a_command_adds_to_the_edges(t: Trace) -> None:
    graph = await graph_of(t, "b", "c")
    graph.add_node("a", lambda s: t.lib.Command(goto="b"), destinations=("b",))
    graph.add_edge(t.lib.START, "a").add_edge("a", "c")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS, parallel=True)


@program()
async def a_node_returns_several_updates(t: Trace) -> None:
    def many(state: Work) -> list[Any]:
        return [
            t.lib.Command(update={"done": ["one"]}, goto="next"),
            {"done": ["two"]},
            t.lib.Command(update={"done": ["three"]}),
        ]

    graph = await graph_of(t, "next")
    graph.add_node("many", many, destinations=("next",)).add_edge(t.lib.START, "many")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=["values", "updates"])
    states = await t.collect(app, "get_state_history", HERE)
    t.differs(
        "a task's result",
        states[2].tasks[0].result,
        ours=[{"done": ["one"]}, {"done": ["two"]}, {"done": ["three"]}],
        theirs={"done": {"$writes": [["one"], ["two"], ["three"]]}},
    )


@program(savers=("memory",))
async def a_commands_update_can_be_pairs(t: Trace) -> None:
    update = [("done", ["one"]), ("items", ["x"]), ("done", ["two"])]
    graph = t.lib.StateGraph(Work).add_node("a", lambda s: t.lib.Command(update=update))
    await t.invoke(graph.add_edge(t.lib.START, "a").compile(), {"items": []})


@program()
async def a_deferred_node_waits_for_all_paths(t: Trace) -> None:
    graph = await graph_of(t, "split", "short", "long1", "long2")
    graph.add_node("gather", step("gather"), defer=True)
    graph.add_edge(t.lib.START, "split")
    graph.add_edge("split", "short").add_edge("split", "long1").add_edge("long1", "long2")
    graph.add_edge("short", "gather").add_edge("long2", "gather")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS, parallel=True)
    await t.history(app, HERE)


@program(peer_saver="memory")  # on SQLite the peer shows a spent join as waiting
async def joins_wait_and_work_again_in_a_loop(t: Trace) -> None:
    graph = await graph_of(t, "a", "b1", "b2", "c")
    graph.add_edge(t.lib.START, "a")
    graph.add_edge("a", "b1").add_edge("a", "b2").add_edge(["b1", "b2"], "c")
    graph.add_conditional_edges(
        "c", lambda s: "a" if s["done"].count("c") < 2 else t.lib.END, ["a", t.lib.END]
    )
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS, parallel=True)
    await t.history(app, HERE)


@program()
async def the_recursion_limit_stops_a_loop(t: Trace) -> None:
    graph = await graph_of(t, "again")
    graph.add_edge(t.lib.START, "again").add_edge("again", "again")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, {**HERE, "recursion_limit": 3}, stream_mode=EVENTS)
    await t.state(app, HERE)
    await t.call(app, "invoke", None, {**HERE, "recursion_limit": 2})
    state = await t.call(app, "get_state", HERE)
    t.differs("steps after a resume", len(state.values["done"]) - 3, ours=2, theirs=4)
    await t.invoke(app, {"items": []}, {**HERE, "recursion_limit": 0})


@program(savers=("memory",))
async def the_recursion_limit_counts_steps(t: Trace) -> None:
    graph = await graph_of(t, "a", "b", "c")
    graph.add_edge(t.lib.START, "a").add_edge("a", "b").add_edge("b", "c")
    app = graph.compile()
    await t.invoke(app, {"items": []}, {"recursion_limit": 4})
    await t.invoke(app, {"items": []}, {"recursion_limit": 3})
    await t.invoke(app, {"items": []}, {"recursion_limit": 2})


@program()
async def nodes_can_see_how_many_steps_remain(t: Trace) -> None:
    class Watched(TypedDict):
        seen: Annotated[list[Any], operator.add]
        remaining: t.lib.RemainingSteps
        last: t.lib.IsLastStep

    def look(state: Watched) -> dict[str, Any]:
        return {"seen": [(state["remaining"], state["last"])]}

    graph = t.lib.StateGraph(Watched).add_node(look).add_edge(t.lib.START, "look")
    graph.add_conditional_edges("look", lambda s: t.lib.END if s["remaining"] <= 1 or s["last"] else "look")
    app = graph.compile(checkpointer=await t.saver())
    result = await t.call(app, "invoke", {"seen": []}, {**HERE, "recursion_limit": 6})
    t.note("seen", [tuple(pair) for pair in result["seen"]])


@program()
async def an_overwrite_replaces_what_a_reducer_would_add(t: Trace) -> None:
    graph = await graph_of(t, "a", "c")
    graph.add_node("b", lambda s: {"done": t.lib.Overwrite(["fresh"])})
    graph.add_edge(t.lib.START, "a").add_edge("a", "b").add_edge("b", "c")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS)
    await t.history(app, HERE)


@program(savers=("memory",))
async def an_overwrite_wins_over_its_neighbours(t: Trace) -> None:
    graph = await graph_of(t, "a", "c")
    graph.add_node("b", lambda s: {"done": t.lib.Overwrite(["fresh"])})
    for name in "abc":
        graph.add_edge(t.lib.START, name)
    await t.stream(graph.compile(), {"items": []}, stream_mode=EVENTS, parallel=True)
    graph = await graph_of(t)
    for name in "ab":
        graph.add_node(name, lambda s: {"done": t.lib.Overwrite([])}).add_edge(t.lib.START, name)
    await t.invoke(graph.compile(), {"items": []})


@program()
async def entry_and_finish_points(t: Trace) -> None:
    graph = await graph_of(t, "a", "b")
    graph.set_conditional_entry_point(lambda s: "first", {"first": "a", "second": "b"})
    graph.set_finish_point("a")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS)
    graph = await graph_of(t, "b")
    graph.set_entry_point("b").set_finish_point("b")
    await t.invoke(graph.compile(), {"items": []})


@program(savers=("memory",), modes=("sync",))
async def mistakes_in_a_graph_are_found(t: Trace) -> None:
    START, END = t.lib.START, t.lib.END

    async def build(label: str, *calls: Any) -> None:
        graph = await graph_of(t, "a", "b")
        try:
            for method, args in calls:
                getattr(graph, method)(*args)
            graph.compile()
        except (ValueError, TypeError):
            t.note(label, "refused")
        else:
            t.note(label, "accepted")

    entry = ("add_edge", (START, "a"))
    await build("no entry")
    await build("unknown target", entry, ("add_edge", ("a", "nowhere")))
    await build("unknown source", entry, ("add_edge", ("nowhere", "a")))
    await build("from the end", entry, ("add_edge", (END, "a")))
    await build("to the start", entry, ("add_edge", ("a", START)))
    await build("a node twice", entry, ("add_node", ("a", step("a"))))
    await build("a reserved name", entry, ("add_node", (START, step("a"))))
    await build("a separator in a name", entry, ("add_node", ("x|y", step("a"))))
    await build("a colon in a name", entry, ("add_node", ("x:y", step("a"))))
    await build("not callable", entry, ("add_node", ("x", 5)))
    await build("unknown in a map", entry, ("add_conditional_edges", ("a", str, {"x": "no"})))
    await build("unknown in a join", entry, ("add_edge", (["a", "no"], "b")))
    await build("an empty sequence", entry, ("add_sequence", ([],)))

    lonely = (await graph_of(t, "a", "lonely")).add_edge(START, "a")
    try:
        lonely.compile()
    except ValueError:
        t.differs("a node that nothing leads to", "refused", ours="refused", theirs="accepted")
    else:
        t.differs("a node that nothing leads to", "accepted", ours="refused", theirs="accepted")


@program(savers=("memory",))
async def a_branch_to_nowhere_is_an_error(t: Trace) -> None:
    graph = await graph_of(t, "a", "b")
    graph.add_edge(t.lib.START, "a").add_conditional_edges("a", lambda s: None, ["b"])
    result = await t.call(graph.compile(), "invoke", {"items": []})
    t.note("no answer", isinstance(result, Exception))
    graph = await graph_of(t, "a", "b")
    graph.add_edge(t.lib.START, "a").add_conditional_edges("a", lambda s: "nowhere")
    result = await t.call(graph.compile(), "invoke", {"items": []})
    t.differs("a misspelled node", isinstance(result, Exception), ours=True, theirs=False)


@program()
async def two_values_for_a_plain_key_are_refused(t: Trace) -> None:
    graph = t.lib.StateGraph(Work)
    graph.add_node("a", lambda s: {"items": ["a"]}).add_node("b", lambda s: {"items": ["b"]})
    graph.add_edge(t.lib.START, "a").add_edge(t.lib.START, "b")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"items": []}, HERE)
    state = await t.call(app, "get_state", HERE)
    t.differs("reading the thread afterwards", isinstance(state, Exception), ours=False, theirs=True)


@program()
async def a_node_must_return_an_update(t: Trace) -> None:
    for value in (5, "text", [1], [], (("items", ["x"]),)):
        graph = t.lib.StateGraph(Work).add_node("a", lambda s, v=value: v)
        app = graph.add_edge(t.lib.START, "a").compile(checkpointer=await t.saver())
        await t.invoke(app, {"items": []}, HERE)
    for value in (None, {}):
        graph = t.lib.StateGraph(Work).add_node("a", lambda s, v=value: v)
        app = graph.add_edge(t.lib.START, "a").compile(checkpointer=await t.saver())
        await t.stream(app, {"items": []}, HERE, stream_mode=EVENTS)


@program(savers=("memory",))
async def a_generator_node_yields_updates(t: Trace) -> None:
    def slow(state: Work) -> Any:
        yield {"done": ["half"]}
        yield {"done": ["whole"]}

    app = t.lib.StateGraph(Work).add_node(slow).add_edge(t.lib.START, "slow").compile()
    result = await t.call(app, "invoke", {"items": []})
    t.differs("what was yielded", result["done"], ours=["half", "whole"], theirs=["whole"])
