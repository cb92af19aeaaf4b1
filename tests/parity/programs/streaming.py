"""What a run shows while it runs."""

import operator
from typing import Annotated, Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from typing_extensions import TypedDict

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}


class Poem(TypedDict):
    topic: str
    lines: Annotated[list[str], operator.add]


async def poet(t: Trace) -> Any:
    def refine(state: Poem) -> dict[str, Any]:
        return {"topic": state["topic"] + " and cats"}

    def write(state: Poem) -> dict[str, Any]:
        writer = t.lib.get_stream_writer()
        for part in range(2):
            writer({"part": part, "of": state["topic"]})
        return {"lines": [f"on {state['topic']}"]}

    graph = t.lib.StateGraph(Poem).add_sequence([refine, write]).add_edge(t.lib.START, "refine")
    return graph.compile(checkpointer=await t.saver())


@program()
async def every_mode_by_itself(t: Trace) -> None:
    app = await poet(t)
    for mode in ("values", "updates", "custom", "messages", "checkpoints", "tasks", "debug", None):
        config = {"configurable": {"thread_id": str(mode)}}
        await t.stream(app, {"topic": "ice", "lines": []}, config, stream_mode=mode)


@program()
async def several_modes_at_once(t: Trace) -> None:
    app = await poet(t)
    modes = ["values", "updates", "custom", "checkpoints", "tasks", "debug"]
    await t.stream(app, {"topic": "ice"}, HERE, stream_mode=modes)
    await t.stream(app, {"topic": "snow"}, HERE, stream_mode=["custom"])


@program()
async def parts_of_the_second_version(t: Trace) -> None:
    app = await poet(t)
    modes = ["values", "updates", "custom", "checkpoints", "tasks", "debug"]
    await t.stream(app, {"topic": "ice"}, HERE, stream_mode=modes, version="v2")
    await t.stream(app, {"topic": "ice"}, HERE, stream_mode="updates", version="v2")
    await t.invoke(app, {"topic": "ice"}, HERE, version="v2")


@program()
async def a_run_can_return_what_it_would_stream(t: Trace) -> None:
    app = await poet(t)
    await t.invoke(app, {"topic": "ice"}, HERE, stream_mode="updates")
    await t.invoke(app, {"topic": "ice"}, HERE, stream_mode=["values", "custom"])
    await t.invoke(app, {"topic": "ice"}, HERE, output_keys="lines")
    await t.invoke(app, {"topic": "ice"}, HERE, output_keys=["topic"])
    await t.stream(app, {"topic": "ice"}, HERE, output_keys="topic", stream_mode=["values", "updates"])


@program(savers=("memory",))
async def without_a_saver_there_are_no_checkpoints_to_show(t: Trace) -> None:
    graph = t.lib.StateGraph(Poem).add_node("a", lambda s: {"lines": ["a"]})
    app = graph.add_edge(t.lib.START, "a").compile()
    await t.stream(app, {"topic": "x"}, stream_mode=["checkpoints", "tasks", "debug"])


@program(savers=("memory",))
async def a_writer_can_be_a_parameter(t: Trace) -> None:
    def named(state: Poem, writer: t.lib.StreamWriter) -> dict[str, Any]:
        writer("by name")
        return {}

    def from_runtime(state: Poem, runtime: t.lib.Runtime) -> dict[str, Any]:
        runtime.stream_writer("by runtime")
        return {}

    graph = t.lib.StateGraph(Poem).add_sequence([named, from_runtime])
    app = graph.add_edge(t.lib.START, "named").compile()
    await t.stream(app, {"topic": "x"}, stream_mode="custom")
    await t.invoke(app, {"topic": "x"})


@program()
async def custom_events_from_a_subgraph(t: Trace) -> None:
    def speak(state: Poem) -> dict[str, Any]:
        t.lib.get_stream_writer()("from below")
        return {"lines": ["below"]}

    child = t.lib.StateGraph(Poem).add_node(speak).add_edge(t.lib.START, "speak").compile()
    graph = t.lib.StateGraph(Poem).add_node("child", child).add_edge(t.lib.START, "child")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"topic": "x"}, HERE, stream_mode="custom")
    await t.stream(app, {"topic": "x"}, HERE, stream_mode="custom", subgraphs=True)


@program()
async def a_resumed_run_shows_what_was_saved(t: Trace) -> None:
    def ask(state: Poem) -> dict[str, Any]:
        return {"topic": t.lib.interrupt("topic?")}

    graph = t.lib.StateGraph(Poem).add_node(ask)
    graph.add_node("ready", lambda s: {"lines": ["ready"]})
    graph.add_edge(t.lib.START, "ask").add_edge(t.lib.START, "ready")
    app = graph.compile(checkpointer=await t.saver())
    modes = ["values", "updates", "tasks"]
    await t.stream(app, {"topic": ""}, HERE, stream_mode=modes, parallel=True)
    command = t.lib.Command(resume="rain")
    await t.stream(app, command, HERE, stream_mode=modes, parallel=True)


def chat_model() -> Any:
    return GenericFakeChatModel(messages=iter([AIMessage("one two three", id="m1")]))


def tokens(chunks: list[Any]) -> list[Any]:
    """What was said, by whom, in which step."""
    found = []
    for chunk in chunks:
        if isinstance(chunk, dict):
            chunk = chunk["data"]
        elif chunk[0] == "messages" or isinstance(chunk[0], tuple):
            chunk = chunk[-1]
        message, metadata = chunk
        where = metadata["langgraph_node"], metadata["langgraph_step"]
        found.append((type(message).__name__, message.content, message.id, *where))
    return found


def chat(t: Trace, model: Any) -> Any:
    if t.mode == "sync":

        def reply(state: Any) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}
    else:

        async def reply(state: Any) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

    graph = t.lib.StateGraph(t.lib.MessagesState).add_node("reply", reply)
    return graph.add_edge(t.lib.START, "reply")


ASK = {"messages": [("user", "count")]}


@program()
async def a_models_tokens_are_shown(t: Trace) -> None:
    app = chat(t, chat_model()).compile(checkpointer=await t.saver())
    t.note("tokens", tokens(await t.collect(app, "stream", ASK, HERE, stream_mode="messages")))
    app = chat(t, chat_model()).compile(checkpointer=await t.saver())
    chunks = await t.collect(app, "stream", ASK, HERE, stream_mode="messages", version="v2")
    t.note("parts", [(part["type"], part["ns"]) for part in chunks])
    t.note("tokens", tokens(chunks))


@program(savers=("memory",))
async def tokens_mix_with_other_modes(t: Trace) -> None:
    app = chat(t, chat_model()).compile()
    chunks = await t.collect(app, "stream", ASK, stream_mode=["messages", "updates"])
    t.note("tokens", tokens([chunk for chunk in chunks if chunk[0] == "messages"]))
    t.note("order", [mode for mode, _ in chunks])


@program(savers=("memory",))
async def whole_messages_are_shown_where_no_token_was(t: Trace) -> None:
    def say(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage("said", id="s1")]}

    def command(state: Any) -> Any:
        return t.lib.Command(update={"messages": [AIMessage("commanded", id="c1")]})

    def push(state: Any) -> dict[str, Any]:
        t.lib.push_message(AIMessage("pushed", id="p1"))
        t.lib.push_message(AIMessage("shown only", id="p2"), state_key=None)
        return {"messages": [AIMessage("returned", id="r1")]}

    graph = t.lib.StateGraph(t.lib.MessagesState).add_sequence([say, command, push])
    app = graph.add_edge(t.lib.START, "say").compile()
    ask = {"messages": [{"role": "user", "content": "hello", "id": "u1"}]}
    t.note("messages", tokens(await t.collect(app, "stream", ask, stream_mode="messages")))
    await t.stream(app, ask, stream_mode=["values", "updates"])


@program(savers=("memory",))
async def a_model_can_be_kept_quiet(t: Trace) -> None:
    model = chat_model().with_config(tags=["nostream"])
    app = chat(t, model).compile()
    t.note("tokens", tokens(await t.collect(app, "stream", ASK, stream_mode="messages")))


@program(savers=("memory",))
async def tokens_of_a_subgraph(t: Trace) -> None:
    for options in ({}, {"subgraphs": True}):
        graph = t.lib.StateGraph(t.lib.MessagesState)
        graph.add_node("child", chat(t, chat_model()).compile())
        app = graph.add_edge(t.lib.START, "child").compile()
        chunks = await t.collect(app, "stream", ASK, stream_mode="messages", **options)
        t.note("tokens", tokens(chunks))
        if options:
            t.note("from", [chunk[0] for chunk in chunks])


@program(savers=("memory",))
async def messages_say_where_they_come_from(t: Trace) -> None:
    def returned(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage("returned", id="1")]}

    def model(state: Any) -> dict[str, Any]:
        said = GenericFakeChatModel(messages=iter([AIMessage("said", id="2")])).invoke("?")
        return {"messages": [said]}

    graph = t.lib.StateGraph(t.lib.MessagesState).add_node(returned, metadata={"note": "of the node"})
    graph.add_node(model).add_edge(t.lib.START, "returned").add_edge("returned", "model")
    app = graph.compile(checkpointer=await t.saver())
    config = {**HERE, "metadata": {"from": "the caller"}, "tags": ["tagged"]}
    chunks = await t.collect(app, "stream", {"messages": []}, config, stream_mode="messages")
    known = ("from", "note", "tags", "thread_id", "langgraph_node", "langgraph_step", "langgraph_path")
    for _, metadata in chunks:
        t.note("metadata", {key: metadata.get(key) for key in (*known, "langgraph_triggers")})
