"""Graphs inside graphs."""

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}
EVENTS = ["values", "updates"]


class Outer(TypedDict):
    name: str
    log: Annotated[list[str], operator.add]


class Inner(TypedDict):
    name: str
    secret: str


class Other(TypedDict):
    words: list[str]


def first(state: Inner) -> dict[str, Any]:
    return {"secret": state["name"][::-1]}


def second(state: Inner) -> dict[str, Any]:
    return {"name": state["secret"].title()}


def inner(t: Trace, ask: bool = False) -> Any:
    """A sub-graph that shares `name` with its parent."""

    def asking(state: Inner) -> dict[str, Any]:
        return {"name": t.lib.interrupt(f"rename {state['secret']}?")}

    graph = t.lib.StateGraph(Inner).add_node(first)
    graph.add_node("second", asking if ask else second)
    return graph.add_edge(t.lib.START, "first").add_edge("first", "second")


async def outer(t: Trace, child: Any, **options: Any) -> Any:
    graph = t.lib.StateGraph(Outer)
    graph.add_node("before", lambda s: {"log": ["before"]})
    graph.add_node("child", child)
    graph.add_node("after", lambda s: {"log": [f"after {s['name']}"]})
    graph.add_edge(t.lib.START, "before").add_edge("before", "child").add_edge("child", "after")
    return graph.compile(checkpointer=await t.saver(), **options)


@program()
async def a_subgraph_shares_keys_with_its_parent(t: Trace) -> None:
    app = await outer(t, inner(t).compile())
    await t.invoke(app, {"name": "ada"}, HERE)
    await t.history(app, HERE)


@program()
async def a_subgraphs_events_carry_its_namespace(t: Trace) -> None:
    app = await outer(t, inner(t).compile())
    for number, modes in enumerate(("updates", "values", EVENTS, ["tasks", "checkpoints"])):
        config = {"configurable": {"thread_id": str(number)}}
        await t.stream(app, {"name": "ada"}, config, stream_mode=modes, subgraphs=True)
    await t.stream(
        app,
        {"name": "ada"},
        {"configurable": {"thread_id": "v2"}},
        stream_mode=EVENTS,
        subgraphs=True,
        version="v2",
    )
    await t.stream(app, {"name": "ada"}, {"configurable": {"thread_id": "x"}}, stream_mode="debug")


@program()
async def a_question_inside_a_subgraph(t: Trace) -> None:
    app = await outer(t, inner(t, ask=True).compile())
    await t.stream(app, {"name": "ada"}, HERE, stream_mode=EVENTS, subgraphs=True)
    await t.state(app, HERE)
    await t.state(app, HERE, subgraphs=True)
    await t.stream(app, t.lib.Command(resume="Lovelace"), HERE, stream_mode=EVENTS, subgraphs=True)
    await t.history(app, HERE)


@program()
async def a_paused_subgraph_can_be_read_by_its_own_config(t: Trace) -> None:
    app = await outer(t, inner(t, ask=True).compile())
    await t.invoke(app, {"name": "ada"}, HERE)
    state = await t.call(app, "get_state", HERE)
    config = state.tasks[0].state
    await t.state(app, config)
    await t.history(app, config)


@program()
async def a_paused_subgraphs_state_can_be_edited(t: Trace) -> None:
    app = await outer(t, inner(t, ask=True).compile())
    await t.invoke(app, {"name": "ada"}, HERE)
    state = await t.call(app, "get_state", HERE, subgraphs=True)
    await t.update(app, state.tasks[0].state.config, {"secret": "edited"})
    await t.state(app, HERE, subgraphs=True)
    await t.invoke(app, t.lib.Command(resume="done"), HERE)
    await t.state(app, HERE)


@program()
async def an_edit_can_finish_a_subgraphs_node(t: Trace) -> None:
    app = await outer(t, inner(t, ask=True).compile())
    await t.invoke(app, {"name": "ada"}, HERE)
    state = await t.call(app, "get_state", HERE, subgraphs=True)
    await t.update(app, state.tasks[0].state.config, {"name": "by hand"}, as_node="second")
    await t.state(app, HERE, subgraphs=True)
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program()
async def an_edit_can_take_the_place_of_a_whole_subgraph(t: Trace) -> None:
    app = await outer(t, inner(t, ask=True).compile())
    await t.invoke(app, {"name": "ada"}, HERE)
    await t.update(app, HERE, {"name": "skipped"}, as_node="child")
    await t.state(app, HERE, subgraphs=True)
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program()
async def a_subgraph_with_another_state_is_called_in_a_node(t: Trace) -> None:
    def upper(state: Other) -> dict[str, Any]:
        return {"words": [word.upper() for word in state["words"]]}

    shout = t.lib.StateGraph(Other).add_node(upper).add_edge(t.lib.START, "upper").compile()

    if t.mode == "sync":

        def call(state: Outer) -> dict[str, Any]:
            return {"log": shout.invoke({"words": [state["name"]]})["words"]}
    else:

        async def call(state: Outer) -> dict[str, Any]:
            result = await shout.ainvoke({"words": [state["name"]]})
            return {"log": result["words"]}

    app = await outer(t, call)
    await t.stream(app, {"name": "ada"}, HERE, stream_mode=EVENTS, subgraphs=True)
    await t.history(app, HERE)


@program()
async def a_node_calls_a_subgraph_twice(t: Trace) -> None:
    runs = []

    def ask(state: Other) -> dict[str, Any]:
        return {"words": [*state["words"], t.lib.interrupt(f"after {state['words']}?")]}

    quiz = t.lib.StateGraph(Other).add_node(ask).add_edge(t.lib.START, "ask").compile()

    if t.mode == "sync":

        def call(state: Outer) -> dict[str, Any]:
            runs.append(1)
            one = quiz.invoke({"words": ["one"]})["words"]
            return {"log": one + quiz.invoke({"words": ["two"]})["words"]}
    else:

        async def call(state: Outer) -> dict[str, Any]:
            runs.append(1)
            one = (await quiz.ainvoke({"words": ["one"]}))["words"]
            return {"log": one + (await quiz.ainvoke({"words": ["two"]}))["words"]}

    app = await outer(t, call)
    await t.stream(app, {"name": "ada"}, HERE, stream_mode=EVENTS, subgraphs=True)
    await t.invoke(app, t.lib.Command(resume="a"), HERE)
    await t.stream(app, t.lib.Command(resume="b"), HERE, stream_mode=EVENTS, subgraphs=True)
    t.note("the node ran", len(runs))


@program()
async def graphs_nest_three_deep(t: Trace) -> None:
    middle = t.lib.StateGraph(Inner)
    middle.add_node("leaf", inner(t, ask=True).compile()).add_edge(t.lib.START, "leaf")
    app = await outer(t, middle.compile())
    await t.stream(app, {"name": "ada"}, HERE, stream_mode=EVENTS, subgraphs=True)
    await t.state(app, HERE, subgraphs=True)
    await t.stream(app, t.lib.Command(resume="deep"), HERE, stream_mode=EVENTS, subgraphs=True)
    await t.history(app, HERE)


class Counter(TypedDict):
    log: Annotated[list[str], operator.add]
    count: Annotated[int, operator.add]


async def counting(t: Trace, keep: Any) -> Any:
    def tick(state: Counter) -> dict[str, Any]:
        return {"count": 1, "log": [f"tick {state['count'] + 1}"]}

    child = t.lib.StateGraph(Counter).add_node(tick).add_edge(t.lib.START, "tick")
    graph = t.lib.StateGraph(Outer)
    graph.add_node("child", child.compile(checkpointer=keep)).add_edge(t.lib.START, "child")
    return graph.compile(checkpointer=await t.saver())


@program()
async def a_subgraph_keeps_its_own_state_or_not(t: Trace) -> None:
    for keep in (None, False):
        app = await counting(t, keep)
        await t.invoke(app, {"name": "a", "log": []}, HERE)
        await t.invoke(app, {"name": "b", "log": []}, HERE)
        await t.history(app, HERE)
    app = await counting(t, True)
    await t.invoke(app, {"name": "a", "log": []}, HERE)
    await t.invoke(app, {"name": "b", "log": []}, HERE)
    await history_of_a_keeper(t, app)


async def history_of_a_keeper(t: Trace, app: Any) -> None:
    """Record a history whose sub-graph saves to one namespace for all runs.

    The peer's snapshots name a namespace of the run, in which nothing is.
    """
    states = await t.collect(app, "get_state_history", HERE)
    tasks = [task for state in states for task in state.tasks]
    t.note("values", [(state.values, state.next, state.metadata) for state in states])
    t.note("tasks", [(task.name, task.result, task.interrupts) for task in tasks])
    for task in tasks:
        if task.name == "child":
            namespace = task.state["configurable"]["checkpoint_ns"]
            t.differs("where its state is", ":" in namespace, ours=False, theirs=True)


@program()
async def a_subgraph_that_keeps_state_pauses_too(t: Trace) -> None:
    app = await outer(t, inner(t, ask=True).compile(checkpointer=True))
    for name in ("ada", "bob"):
        await t.invoke(app, {"name": name}, HERE)
        await t.state(app, HERE, subgraphs=True)
        await t.invoke(app, t.lib.Command(resume=name.upper()), HERE)
    await history_of_a_keeper(t, app)


@program()
async def a_subgraph_hands_over_to_its_parent(t: Trace) -> None:
    def leave(state: Inner) -> Any:
        return t.lib.Command(graph=t.lib.Command.PARENT, goto="other", update={"log": ["from below"]})

    child = t.lib.StateGraph(Inner).add_node(leave).add_node(first)
    child.add_edge(t.lib.START, "leave").add_edge("leave", "first")
    graph = t.lib.StateGraph(Outer)
    graph.add_node("child", child.compile(), destinations=("other",))
    graph.add_node("other", lambda s: {"log": ["other"]}).add_edge(t.lib.START, "child")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"name": "ada"}, HERE, stream_mode=EVENTS, subgraphs=True)
    await t.history(app, HERE)


@program()
async def parallel_subgraphs_each_ask(t: Trace) -> None:
    class Reply(TypedDict):
        log: Annotated[list[str], operator.add]

    def ask(state: Reply) -> dict[str, Any]:
        return {"log": [t.lib.interrupt("which?")]}

    graph = t.lib.StateGraph(Reply)
    for name in ("left", "right"):
        child = t.lib.StateGraph(Reply).add_node(ask).add_edge(t.lib.START, "ask").compile()
        graph.add_node(name, child).add_edge(t.lib.START, name)
    app = graph.compile(checkpointer=await t.saver())
    await t.call(app, "invoke", {"log": []}, HERE)
    state = await t.call(app, "get_state", HERE)
    by_node = {task.name: task.interrupts[0].id for task in state.tasks}
    t.note("asking", sorted(by_node))
    t.note("different ids", len(set(by_node.values())))
    await t.invoke(app, t.lib.Command(resume="ambiguous"), HERE)
    answers = {by_node["left"]: "L", by_node["right"]: "R"}
    await t.invoke(app, t.lib.Command(resume=answers), HERE)


@program()
async def breakpoints_inside_a_subgraph(t: Trace) -> None:
    app = await outer(t, inner(t).compile(interrupt_before=["second"]))
    await t.stream(app, {"name": "ada"}, HERE, stream_mode=EVENTS, subgraphs=True)
    await t.state(app, HERE, subgraphs=True)
    await t.stream(app, None, HERE, stream_mode=EVENTS, subgraphs=True)
    await t.history(app, HERE)


@program()
async def an_error_inside_a_subgraph_can_be_repaired(t: Trace) -> None:
    broken = [True]

    def flaky(state: Inner) -> dict[str, Any]:
        if broken[0]:
            raise RuntimeError("program: not yet")
        return {"name": "repaired"}

    child = t.lib.StateGraph(Inner).add_node(first).add_node(flaky)
    child.add_edge(t.lib.START, "first").add_edge("first", "flaky")
    app = await outer(t, child.compile())
    await t.invoke(app, {"name": "ada"}, HERE)
    await t.state(app, HERE, subgraphs=True)
    broken[0] = False
    await t.stream(app, None, HERE, stream_mode=EVENTS, subgraphs=True)
    await t.history(app, HERE)


@program()
async def sends_can_go_to_subgraphs(t: Trace) -> None:
    class Part(TypedDict):
        word: str
        log: Annotated[list[str], operator.add]

    def spell(state: Part) -> dict[str, Any]:
        return {"log": ["-".join(state["word"])]}

    child = t.lib.StateGraph(Part).add_node(spell).add_edge(t.lib.START, "spell").compile()
    graph = t.lib.StateGraph(Outer).add_node("spell", child)
    graph.add_conditional_edges(
        t.lib.START, lambda s: [t.lib.Send("spell", {"word": w, "log": []}) for w in ("ab", "cd")]
    )
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"name": "x"}, HERE)
    await t.history(app, HERE)


@program(savers=("memory",))
async def a_finished_subgraph_can_be_read(t: Trace) -> None:
    app = await outer(t, inner(t).compile(checkpointer=True))
    await t.call(app, "invoke", {"name": "ada"}, HERE)
    child = {"configurable": {"thread_id": "here", "checkpoint_ns": "child"}}
    await t.state(app, child)
    await t.history(app, child)
