"""The programs of the page about persistence run with their imports changed, and show what it shows."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from operator import add
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from typing_extensions import TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import END, START, MessagesState, StateGraph
from threadmark.runtime import Runtime
from threadmark.store.memory import InMemoryStore
from threadmark.types import StateSnapshot


class State(TypedDict):
    foo: str
    bar: Annotated[list[str], add]


def node_a(state: State) -> dict[str, Any]:
    return {"foo": "a", "bar": ["a"]}


def node_b(state: State) -> dict[str, Any]:
    return {"foo": "b", "bar": ["b"]}


def workflow() -> StateGraph[State]:
    built = StateGraph(State)
    built.add_node(node_a)
    built.add_node(node_b)
    built.add_edge(START, "node_a")
    built.add_edge("node_a", "node_b")
    built.add_edge("node_b", END)
    return built


CONFIG: RunnableConfig = {"configurable": {"thread_id": "1"}}


@pytest.fixture(params=["memory", "sqlite"])
def graph(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Any]:
    if request.param == "memory":
        yield workflow().compile(checkpointer=InMemorySaver())
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoint.db")) as saver:
            yield workflow().compile(checkpointer=saver)


def history(graph: Any, mode: str) -> list[StateSnapshot]:
    """Run the graph and return the thread's history."""
    if mode == "sync":
        graph.invoke({"foo": "", "bar": []}, CONFIG)
        return list(graph.get_state_history(CONFIG))

    async def run() -> list[StateSnapshot]:
        await graph.ainvoke({"foo": "", "bar": []}, CONFIG)
        return [state async for state in graph.aget_state_history(CONFIG)]

    return asyncio.run(run())


SNAPSHOTS: list[tuple[dict[str, Any], tuple[str, ...], dict[str, Any]]] = [
    (
        {"foo": "b", "bar": ["a", "b"]},
        (),
        {"source": "loop", "writes": {"node_b": {"foo": "b", "bar": ["b"]}}, "step": 2},
    ),
    (
        {"foo": "a", "bar": ["a"]},
        ("node_b",),
        {"source": "loop", "writes": {"node_a": {"foo": "a", "bar": ["a"]}}, "step": 1},
    ),
    ({"foo": "", "bar": []}, ("node_a",), {"source": "loop", "writes": None, "step": 0}),
    ({"bar": []}, ("__start__",), {"source": "input", "writes": {"foo": ""}, "step": -1}),
]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_run_leaves_four_snapshots(graph: Any, mode: str) -> None:
    states = history(graph, mode)
    assert [(s.values, s.next, s.metadata) for s in states] == SNAPSHOTS
    assert [list(s.metadata or ()) for s in states] == [["source", "writes", "step"]] * 4
    assert [s.parent_config for s in states] == [*(s.config for s in states[1:]), None]
    assert all(s.created_at and s.created_at.endswith("+00:00") for s in states)
    for state in states:
        assert list(state.config["configurable"]) == ["thread_id", "checkpoint_ns", "checkpoint_id"]
        assert state.config["configurable"]["checkpoint_ns"] == ""
        assert tuple(t.name for t in state.tasks) == state.next
        assert all((t.error, t.interrupts) == (None, ()) for t in state.tasks)
        assert all(str(uuid.UUID(t.id)) == t.id for t in state.tasks)


def test_the_state_is_read_by_thread_and_by_checkpoint(graph: Any) -> None:
    states = history(graph, "sync")
    assert graph.get_state(CONFIG) == states[0]
    for state in states:
        assert graph.get_state(state.config) == state


def test_certain_checkpoints_are_found_in_the_history(graph: Any) -> None:
    history(graph, "sync")
    graph.update_state(CONFIG, {"foo": "edited", "bar": ["c"]}, as_node="node_a")
    found = list(graph.get_state_history(CONFIG))
    before_node_b = next(s for s in found if s.next == ("node_b",))
    assert before_node_b.values == {"foo": "edited", "bar": ["a", "b", "c"]}
    assert next(s for s in found if s.metadata["step"] == 2).values == {"foo": "b", "bar": ["a", "b"]}
    assert [s.values["foo"] for s in found if s.metadata["source"] == "update"] == ["edited"]
    assert [s for s in found if s.tasks and any(t.interrupts for t in s.tasks)] == []


def test_a_replay_runs_what_follows_the_checkpoint(graph: Any) -> None:
    states = history(graph, "sync")
    before_node_b = next(s for s in states if s.next == ("node_b",))
    assert graph.invoke(None, before_node_b.config) == {"foo": "b", "bar": ["a", "b"]}


def test_the_namespace_is_that_of_the_graph() -> None:
    seen: list[str] = []

    def my_node(state: State, config: RunnableConfig) -> None:
        seen.append(config["configurable"]["checkpoint_ns"])

    inner = StateGraph(State).add_node("my_node", my_node).add_edge(START, "my_node").compile()
    outer = StateGraph(State).add_node("my_node", my_node).add_node("node_name", inner)
    outer.add_edge(START, "my_node").add_edge("my_node", "node_name")
    outer.compile(checkpointer=InMemorySaver()).invoke({"foo": "", "bar": []}, CONFIG)
    root, nested = seen
    assert root == ""
    name, _, identifier = nested.partition(":")
    assert (name, str(uuid.UUID(identifier))) == ("node_name", identifier)


@dataclass
class Context:
    user_id: str


async def update_memory(state: MessagesState, runtime: Runtime[Context]) -> None:
    user_id = runtime.context.user_id
    namespace = (user_id, "memories")
    memory_id = str(uuid.uuid4())
    assert runtime.store is not None
    await runtime.store.aput(namespace, memory_id, {"memory": state["messages"][-1].content})


async def call_model(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
    user_id = runtime.context.user_id
    namespace = (user_id, "memories")
    assert runtime.store is not None
    memories = await runtime.store.asearch(namespace, query=state["messages"][-1].content, limit=3)
    info = "\n".join([d.value["memory"] for d in memories])
    return {"messages": [{"role": "assistant", "content": info}]}


class Embedding:
    """Stands for the embedding model of the page."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0 + text.count("h"), 1.0 + text.count("m"), 1.0]


async def test_nodes_remember_across_threads_but_not_across_users() -> None:
    store = InMemoryStore(index={"embed": Embedding(), "dims": 3, "fields": ["memory", "$"]})
    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node(update_memory).add_node(call_model)
    builder.add_edge(START, "update_memory").add_edge("update_memory", "call_model")
    graph = builder.compile(checkpointer=InMemorySaver(), store=store)

    async def talk(thread: str, user: str, text: str) -> str:
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        updates = [
            update
            async for update in graph.astream(
                {"messages": [{"role": "user", "content": text}]},
                config,
                stream_mode="updates",
                context=Context(user_id=user),
            )
        ]
        assert updates[0] == {"update_memory": None}
        answer: str = updates[1]["call_model"]["messages"][0]["content"]
        return answer

    assert await talk("1", "1", "hi") == "hi"
    assert set((await talk("2", "1", "hi, tell me about my memories")).splitlines()) == {
        "hi",
        "hi, tell me about my memories",
    }
    assert await talk("3", "2", "hello") == "hello"


class Unusual:
    """What the serializer does not know."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unusual)

    __hash__ = None  # type: ignore[assignment]


class Holder(TypedDict):
    thing: Any


def test_pickle_is_used_where_it_was_asked_for() -> None:
    builder = StateGraph(Holder).add_node("make", lambda state: {"thing": Unusual()}).add_edge(START, "make")
    saver = InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=True))
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"thing": None}, CONFIG)
    assert graph.get_state(CONFIG).values == {"thing": Unusual()}


def test_everything_is_encrypted_with_the_key_of_the_environment(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "sixteen byte key")
    path = tmp_path / "checkpoint.db"
    serde = EncryptedSerializer.from_pycryptodome_aes()
    checkpointer = SqliteSaver(sqlite3.connect(path), serde=serde)
    graph = workflow().compile(checkpointer=checkpointer)
    graph.invoke({"foo": "a secret", "bar": ["another secret"]}, CONFIG)
    assert len(list(graph.get_state_history(CONFIG))) == 4
    checkpointer.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"secret" not in stored
    with SqliteSaver(path, serde=EncryptedSerializer.from_pycryptodome_aes()) as again:
        assert workflow().compile(checkpointer=again).get_state(CONFIG).values["bar"][0] == "another secret"
