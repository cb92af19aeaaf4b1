"""Chats: messages as state, trimming, summaries, and the store beside the thread."""

from typing import Any

from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}


def human(text: str, id: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=id)]}


def parrot(state: Any) -> dict[str, Any]:
    said = state["messages"][-1]
    return {"messages": [AIMessage(f"{said.content}!", id=f"{said.id}-reply")]}


async def chat(t: Trace, *nodes: Any) -> Any:
    graph = t.lib.StateGraph(t.lib.MessagesState).add_sequence([*nodes])
    graph.add_edge(t.lib.START, nodes[0].__name__)
    return graph.compile(checkpointer=await t.saver())


@program()
async def a_chat_remembers_its_messages(t: Trace) -> None:
    app = await chat(t, parrot)
    await t.invoke(app, human("hello", "1"), HERE)
    await t.stream(app, human("again", "2"), HERE, stream_mode=["values", "updates"])
    await t.history(app, HERE)


@program()
async def messages_come_in_many_shapes(t: Trace) -> None:
    app = await chat(t, parrot)
    await t.invoke(app, {"messages": [{"role": "user", "content": "dict", "id": "1"}]}, HERE)
    await t.invoke(app, {"messages": HumanMessage("bare", id="2")}, HERE)
    for shape in ("text", ("human", "tuple"), [("system", "s"), "t"]):
        result = await t.call(app, "invoke", {"messages": shape}, HERE)
        t.note("last", [(m.type, m.content) for m in result["messages"][-3:]])


@program()
async def a_message_with_a_known_id_replaces(t: Trace) -> None:
    app = await chat(t, parrot)
    await t.invoke(app, human("hello", "1"), HERE)
    await t.update(app, HERE, human("edited", "1"))
    await t.state(app, HERE)
    await t.update(app, HERE, {"messages": [RemoveMessage(id="1-reply")]})
    await t.state(app, HERE)
    await t.update(app, HERE, {"messages": [RemoveMessage(id="never there")]})
    await t.history(app, HERE)


@program()
async def old_messages_are_deleted(t: Trace) -> None:
    def forget(state: Any) -> dict[str, Any]:
        return {"messages": [RemoveMessage(id=m.id) for m in state["messages"][:-2]]}

    app = await chat(t, parrot, forget)
    for number in "123":
        await t.invoke(app, human("hi", number), HERE)
    await t.history(app, HERE)


@program()
async def all_messages_are_replaced_by_a_summary(t: Trace) -> None:
    def summarise(state: Any) -> dict[str, Any]:
        if len(state["messages"]) < 4:
            return {}
        texts = ", ".join(m.content for m in state["messages"])
        everything = RemoveMessage(id=t.lib.REMOVE_ALL_MESSAGES)
        return {"messages": [everything, SystemMessage(f"So far: {texts}", id="summary")]}

    app = await chat(t, parrot, summarise)
    for number in "123":
        await t.invoke(app, human("hi", number), HERE)
    await t.history(app, HERE)


@program(savers=("memory",))
async def a_summary_can_be_a_key_of_its_own(t: Trace) -> None:
    class Summarised(t.lib.MessagesState):
        summary: str

    def summarise(state: Any) -> dict[str, Any]:
        known = state.get("summary", "")
        return {"summary": f"{known}/{state['messages'][-1].content}"}

    graph = t.lib.StateGraph(Summarised).add_sequence([parrot, summarise])
    graph.add_edge(t.lib.START, "parrot")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, human("a", "1"), HERE)
    await t.invoke(app, human("b", "2"), HERE)


@program(savers=("memory",))
async def messages_are_trimmed_before_the_model_sees_them(t: Trace) -> None:
    seen = []

    def model(state: Any) -> dict[str, Any]:
        short = trim_messages(
            state["messages"], max_tokens=2, token_counter=len, strategy="last", start_on="human"
        )
        seen.append([m.id for m in short])
        return parrot(state)

    app = await chat(t, model)
    for number in "123":
        await t.call(app, "invoke", human("hi", number), HERE)
    t.note("seen", seen)


@program()
async def tool_calls_and_their_results(t: Trace) -> None:
    def agent(state: Any) -> dict[str, Any]:
        last = state["messages"][-1]
        if last.type == "tool":
            return {"messages": [AIMessage(f"It is {last.content}.", id="answer")]}
        call = {"name": "add", "args": {"a": 2, "b": 3}, "id": "call-1"}
        return {"messages": [AIMessage("", tool_calls=[call], id="wish")]}

    def tools(state: Any) -> dict[str, Any]:
        return {
            "messages": [
                ToolMessage(str(sum(c["args"].values())), tool_call_id=c["id"], id=f"did-{c['id']}")
                for c in state["messages"][-1].tool_calls
            ]
        }

    def route(state: Any) -> str:
        return "tools" if state["messages"][-1].tool_calls else t.lib.END

    graph = t.lib.StateGraph(t.lib.MessagesState).add_node(agent).add_node(tools)
    graph.add_edge(t.lib.START, "agent").add_edge("tools", "agent")
    graph.add_conditional_edges("agent", route, ["tools", t.lib.END])
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, human("2 + 3?", "q"), HERE, stream_mode=["values", "updates"])
    await t.history(app, HERE)


@program()
async def a_human_approves_a_tool_call(t: Trace) -> None:
    def agent(state: Any) -> dict[str, Any]:
        last = state["messages"][-1]
        if last.type == "tool":
            return {"messages": [AIMessage(f"Outcome: {last.content}", id="end")]}
        call = {"name": "pay", "args": {"amount": 100}, "id": "call-1"}
        return {"messages": [AIMessage("", tool_calls=[call], id="wish")]}

    def approve(state: Any) -> Any:
        wish = state["messages"][-1]
        if not wish.tool_calls:
            return t.lib.Command(goto=t.lib.END)
        call = wish.tool_calls[0]
        verdict = t.lib.interrupt({"approve": call["name"], "args": call["args"]})
        if verdict["type"] == "edit":
            new = {**call, "args": verdict["args"]}
            edited = AIMessage("", tool_calls=[new], id=wish.id)
            return t.lib.Command(goto="pay", update={"messages": [edited]})
        refused = ToolMessage(f"refused: {verdict['why']}", tool_call_id=call["id"], id="no")
        return t.lib.Command(goto="agent", update={"messages": [refused]})

    def pay(state: Any) -> dict[str, Any]:
        call = state["messages"][-1].tool_calls[0]
        done = ToolMessage(f"paid {call['args']['amount']}", tool_call_id=call["id"], id="paid")
        return {"messages": [done]}

    for verdict in ({"type": "edit", "args": {"amount": 5}}, {"type": "refuse", "why": "no"}):
        graph = t.lib.StateGraph(t.lib.MessagesState).add_node(agent).add_node(pay)
        graph.add_node("approve", approve, destinations=("pay", "agent", t.lib.END))
        graph.add_edge(t.lib.START, "agent").add_edge("agent", "approve").add_edge("pay", "agent")
        app = graph.compile(checkpointer=await t.saver())
        await t.invoke(app, human("pay 100", "q"), HERE)
        await t.invoke(app, t.lib.Command(resume=verdict), HERE)
        await t.history(app, HERE)


@program(savers=("memory",))
async def what_one_thread_learns_another_knows(t: Trace) -> None:
    store = t.lib.InMemoryStore()

    def learn(state: Any, store: t.lib.BaseStore) -> dict[str, Any]:
        said = state["messages"][-1]
        store.put(("user", "facts"), said.id, {"fact": said.content})
        return {}

    def recall(state: Any) -> dict[str, Any]:
        facts = t.lib.get_store().search(("user", "facts"))
        known = ", ".join(sorted(item.value["fact"] for item in facts))
        return {"messages": [AIMessage(f"I know: {known}", id=f"{state['messages'][-1].id}-r")]}

    graph = t.lib.StateGraph(t.lib.MessagesState).add_sequence([learn, recall])
    graph.add_edge(t.lib.START, "learn")
    app = graph.compile(checkpointer=await t.saver(), store=store)
    for thread, fact in (("1", "likes tea"), ("2", "lives in Bonn")):
        config = {"configurable": {"thread_id": thread}}
        await t.invoke(app, human(fact, thread), config)
    item = store.get(("user", "facts"), "1")
    t.note("item", (item.namespace, item.key, item.value))
    t.note("nothing", store.get(("user", "facts"), "9"))
    t.note("namespaces", store.list_namespaces())


@program(savers=("memory",), modes=("async",))
async def the_store_has_async_methods(t: Trace) -> None:
    store = t.lib.InMemoryStore()

    async def visit(state: Any, runtime: t.lib.Runtime) -> dict[str, Any]:
        known = await runtime.store.aget(("visits",), "count")
        count = known.value["n"] + 1 if known else 1
        await runtime.store.aput(("visits",), "count", {"n": count})
        return {"messages": [AIMessage(f"visit {count}", id=f"v{count}")]}

    graph = t.lib.StateGraph(t.lib.MessagesState).add_node(visit).add_edge(t.lib.START, "visit")
    app = graph.compile(store=store)
    for number in "12":
        await t.invoke(app, human("hi", number))
    found = await store.asearch(("visits",), filter={"n": 2})
    t.note("found", [(item.key, item.value) for item in found])
