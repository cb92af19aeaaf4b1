"""Replaying, forking and editing the past."""

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}


class Joke(TypedDict):
    topic: str
    lines: Annotated[list[str], operator.add]


async def jokes(t: Trace, runs: list[str] | None = None, **options: Any) -> Any:
    """A chain of three nodes. `runs` notes which nodes ran."""
    seen = runs if runs is not None else []

    def topic(state: Joke) -> dict[str, Any]:
        seen.append("topic")
        return {"topic": state.get("topic") or "socks"}

    def write(state: Joke) -> dict[str, Any]:
        seen.append("write")
        return {"lines": [f"a joke on {state['topic']}"]}

    def polish(state: Joke) -> dict[str, Any]:
        seen.append("polish")
        return {"lines": ["(applause)"]}

    graph = t.lib.StateGraph(Joke).add_sequence([topic, write, polish])
    graph.add_edge(t.lib.START, "topic")
    return graph.compile(checkpointer=await t.saver(), **options)


def before(history: list[Any], node: str) -> Any:
    """The newest snapshot that waits for a node."""
    return next(state for state in history if state.next == (node,))


@program()
async def a_replay_runs_only_what_came_after(t: Trace) -> None:
    runs: list[str] = []
    app = await jokes(t, runs)
    await t.invoke(app, {"lines": []}, HERE)
    history = await t.history(app, HERE)
    runs.clear()
    await t.stream(
        app,
        None,
        before(history, "polish").config,
        stream_mode=["values", "updates", "checkpoints"],
    )
    t.note("ran again", list(runs))
    await t.history(app, HERE)


@program()
async def a_replay_of_the_whole_run_starts_at_the_input(t: Trace) -> None:
    runs: list[str] = []
    app = await jokes(t, runs)
    await t.invoke(app, {"topic": "cats", "lines": []}, HERE)
    history = await t.history(app, HERE)
    runs.clear()
    await t.invoke(app, None, before(history, "__start__").config)
    t.note("ran again", list(runs))
    await t.history(app, HERE)


@program()
async def a_fork_goes_on_from_an_edited_past(t: Trace) -> None:
    app = await jokes(t)
    await t.invoke(app, {"lines": []}, HERE)
    history = await t.history(app, HERE)
    fork = await t.update(app, before(history, "write").config, {"topic": "chickens"})
    await t.state(app, fork)
    await t.invoke(app, None, fork)
    await t.history(app, HERE)
    await t.state(app, HERE)


@program()
async def reducers_apply_to_edits_too(t: Trace) -> None:
    app = await jokes(t, interrupt_before=["polish"])
    await t.invoke(app, {"lines": ["intro"]}, HERE)
    await t.update(app, HERE, {"lines": ["heckle"]})
    await t.state(app, HERE)
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program()
async def an_edit_can_speak_for_any_node(t: Trace) -> None:
    app = await jokes(t)
    await t.update(app, HERE, {"topic": "ducks"}, as_node="topic")
    await t.state(app, HERE)
    await t.invoke(app, None, HERE)
    await t.update(app, HERE, {"topic": "back"}, as_node="__start__")
    await t.state(app, HERE)
    await t.update(app, HERE, {"lines": ["the end"]}, as_node="polish")
    await t.state(app, HERE)
    await t.update(app, HERE, {"topic": "x"}, as_node="nobody")
    await t.update(app, HERE, 5, as_node="write")
    await t.history(app, HERE)


@program()
async def an_edit_of_a_new_thread_counts_as_its_input(t: Trace) -> None:
    app = await jokes(t)
    await t.update(app, HERE, {"topic": "first", "lines": ["seed"]})
    await t.state(app, HERE)
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program()
async def an_edit_without_values_only_moves_on(t: Trace) -> None:
    app = await jokes(t, interrupt_before=["write"])
    await t.invoke(app, {"topic": "bees", "lines": []}, HERE)
    await t.update(app, HERE, None)
    await t.state(app, HERE)
    await t.update(app, HERE, None, as_node="write")
    await t.state(app, HERE)
    await t.update(app, HERE, None, as_node=t.lib.END)
    await t.state(app, HERE)
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program()
async def a_copy_is_a_sibling(t: Trace) -> None:
    app = await jokes(t, interrupt_before=["write"])
    await t.invoke(app, {"topic": "bees", "lines": []}, HERE)
    await t.update(app, HERE, None, as_node="__copy__")
    await t.history(app, HERE)
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program()
async def several_edits_at_once(t: Trace) -> None:
    app = await jokes(t)
    update = t.lib.StateUpdate
    await t.bulk(
        app,
        HERE,
        [
            [update({"topic": "imported"}, as_node="topic")],
            [update({"lines": ["one"]}, as_node="write")],
        ],
    )
    await t.history(app, HERE)
    await t.invoke(app, None, HERE)
    await t.bulk(app, HERE, [])
    await t.bulk(app, HERE, [[]])


@program()
async def parallel_edits_share_a_superstep(t: Trace) -> None:
    graph = t.lib.StateGraph(Joke)
    graph.add_node("left", lambda s: {"lines": ["left"]})
    graph.add_node("right", lambda s: {"lines": ["right"]})
    graph.add_edge(t.lib.START, "left").add_edge(t.lib.START, "right")
    app = graph.compile(checkpointer=await t.saver())
    update = t.lib.StateUpdate
    await t.bulk(
        app,
        HERE,
        [
            [update({"topic": "in", "lines": ["in"]}, as_node="__input__")],
            [update({"lines": ["l"]}, as_node="left"), update({"lines": ["r"]}, as_node="right")],
        ],
    )
    await t.history(app, HERE)


@program()
async def an_edit_that_could_come_from_two_nodes_needs_a_name(t: Trace) -> None:
    graph = t.lib.StateGraph(Joke)
    graph.add_node("left", lambda s: {"lines": ["left"]})
    graph.add_node("right", lambda s: {"lines": ["right"]})
    graph.add_edge(t.lib.START, "left").add_edge(t.lib.START, "right")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"topic": ""}, HERE)
    await t.update(app, HERE, {"topic": "whose?"})
    await t.update(app, HERE, {"topic": "left's"}, as_node="left")
    await t.history(app, HERE)


@program()
async def a_new_input_at_an_old_checkpoint_starts_a_branch(t: Trace) -> None:
    app = await jokes(t)
    await t.invoke(app, {"topic": "cats", "lines": []}, HERE)
    history = await t.history(app, HERE)
    await t.invoke(app, {"topic": "dogs"}, before(history, "polish").config)
    await t.history(app, HERE)
    await t.state(app, HERE)


@program()
async def a_replay_asks_its_question_again(t: Trace) -> None:
    def ask(state: Joke) -> dict[str, Any]:
        return {"lines": ["said " + t.lib.interrupt("funny?")]}

    def end(state: Joke) -> dict[str, Any]:
        return {"lines": ["end"]}

    graph = t.lib.StateGraph(Joke).add_sequence([ask, end]).add_edge(t.lib.START, "ask")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"topic": ""}, HERE)
    await t.invoke(app, t.lib.Command(resume="yes"), HERE)
    history = await t.history(app, HERE)
    await t.invoke(app, None, before(history, "ask").config)
    await t.state(app, HERE)
    await t.invoke(app, t.lib.Command(resume="no"), HERE)
    await t.history(app, HERE)


@program()
async def a_command_begins_a_thread(t: Trace) -> None:
    app = await jokes(t)
    both = t.lib.Command(goto="polish", update={"topic": "cats"})
    commands = [t.lib.Command(update={"topic": "cats"}), t.lib.Command(goto="polish"), both]
    for number, command in enumerate(commands):
        here = {"configurable": {"thread_id": f"begun-{number}"}}
        await t.stream(app, command, here, stream_mode=["values", "updates"], parallel=True)
        await t.state(app, here)
        states = await t.collect(app, "get_state_history", here)
        t.note("what runs next", [(sorted(state.next), state.metadata["source"]) for state in states])
    twice = await t.call(app, "invoke", t.lib.Command(update={"lines": ["once"]}), {**HERE})
    t.differs("the update counts once", twice["lines"][:2] == ["once", "once"], ours=False, theirs=True)


@program()
async def a_command_passes_a_breakpoint(t: Trace) -> None:
    async def moved(command: Any, **stops: Any) -> None:
        builder = t.lib.StateGraph(Joke).add_node("ask", lambda state: {"lines": ["ask"]})
        builder.add_node("tell", lambda state: {"lines": ["tell"]})
        builder.add_edge(t.lib.START, "ask").add_edge("ask", "tell")
        app = builder.compile(checkpointer=await t.saver(), **stops)
        await t.invoke(app, {"topic": "cats", "lines": []}, HERE)
        await t.invoke(app, command, HERE)
        await t.state(app, HERE)

    for stops in ({"interrupt_before": ["tell"]}, {"interrupt_after": ["ask"]}, {"interrupt_before": "*"}):
        await moved(t.lib.Command(update={"lines": ["aside"]}), **stops)
        await moved(t.lib.Command(goto="ask"), **stops)
        await moved(t.lib.Command(goto="ask", update={"lines": ["aside"]}), **stops)


@program()
async def commands_move_a_thread_from_outside(t: Trace) -> None:
    app = await jokes(t)
    await t.invoke(app, {"topic": "cats", "lines": []}, HERE)
    command = t.lib.Command(goto="polish", update={"lines": ["encore"]})
    await t.stream(app, command, HERE, stream_mode=["values", "updates"])
    await t.invoke(app, t.lib.Command(goto="polish", graph=t.lib.Command.PARENT), HERE)
    states = await t.collect(app, "get_state_history", HERE)
    t.differs(
        "a checkpoint for what the command did",
        [state.metadata["source"] for state in states[:3]],
        ours=["loop", "update", "loop"],
        theirs=["loop", "loop", "loop"],
    )
