"""The programs that users know from the documentation of stores run, and print what is printed there."""

from __future__ import annotations

import re
import sqlite3
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.config import get_store
from threadmark.graph import START, MessagesState, StateGraph
from threadmark.runtime import Runtime
from threadmark.store.base import BaseStore
from threadmark.store.memory import InMemoryStore
from threadmark.store.sqlite import AsyncSqliteStore, SqliteStore

AXES = ("pizza", "italian", "food", "eat", "like", "dinner", "system", "context")


class Model:
    """Stands for the model that `init_embeddings` would fetch."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        counts = [float(text.lower().count(word)) for word in AXES]
        return counts + [0.01] * (1536 - len(counts))


@pytest.fixture
def langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    def init_embeddings(name: str) -> Model:
        assert name == "openai:text-embedding-3-small"
        return Model()

    module: Any = ModuleType("langchain.embeddings")
    module.init_embeddings = init_embeddings
    monkeypatch.setitem(sys.modules, "langchain", ModuleType("langchain"))
    monkeypatch.setitem(sys.modules, "langchain.embeddings", module)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[BaseStore]:
    if request.param == "memory":
        yield InMemoryStore()
    else:
        with SqliteStore.from_conn_string(str(tmp_path / "store.db")) as opened:
            opened.setup()
            yield opened


def test_a_memory_is_put_and_read_back(store: BaseStore) -> None:
    user_id = "1"
    namespace_for_memory = (user_id, "memories")
    memory_id = str(uuid.uuid4())
    store.put(namespace_for_memory, memory_id, {"food_preference": "I like pizza"})

    memories = store.search(namespace_for_memory)
    shown = memories[-1].dict()

    assert list(shown) == ["value", "key", "namespace", "created_at", "updated_at"]
    assert shown["value"] == {"food_preference": "I like pizza"}
    assert shown["key"] == memory_id
    assert shown["namespace"] == ["1", "memories"]
    for moment in (shown["created_at"], shown["updated_at"]):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00", moment)


def test_the_newest_memory_is_the_last(store: BaseStore) -> None:
    for number in range(3):
        store.put(("1", "memories"), str(uuid.uuid4()), {"n": number})
    assert store.search(("1", "memories"))[-1].value == {"n": 2}


@pytest.mark.usefixtures("langchain")
@pytest.mark.parametrize(
    "kind", [lambda index: InMemoryStore(index=index), lambda index: SqliteStore(":memory:", index=index)]
)
def test_memories_are_found_by_meaning(kind: Any) -> None:
    from langchain.embeddings import init_embeddings  # type: ignore[import-not-found]

    namespace = ("1", "memories")
    for embed in (init_embeddings("openai:text-embedding-3-small"), "openai:text-embedding-3-small"):
        store = kind(index={"embed": embed, "dims": 1536, "fields": ["food_preference", "$"]})
        store.put(namespace, str(uuid.uuid4()), {"food_preference": "I like pizza"})
        store.put(
            namespace,
            str(uuid.uuid4()),
            {"food_preference": "I love Italian cuisine", "context": "Discussing dinner plans"},
            index=["food_preference"],
        )
        store.put(namespace, str(uuid.uuid4()), {"system_info": "Last updated: 2024-01-01"}, index=False)

        memories = store.search(namespace, query="What does the user like to eat?", limit=3)

        assert [memory.value["food_preference"] for memory in memories] == [
            "I like pizza",
            "I love Italian cuisine",
        ]
        assert len(store.search(namespace)) == 3


@dataclass
class Context:
    user_id: str


async def update_memory(state: MessagesState, runtime: Runtime[Context]) -> None:
    assert runtime.store is not None
    namespace = (runtime.context.user_id, "memories")
    memory = state["messages"][-1].content
    await runtime.store.aput(namespace, str(uuid.uuid4()), {"memory": memory})


async def call_model(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
    assert runtime.store is not None
    namespace = (runtime.context.user_id, "memories")
    memories = await runtime.store.asearch(namespace, query=state["messages"][-1].content, limit=3)
    info = "\n".join([d.value["memory"] for d in memories])
    return {"messages": [{"role": "assistant", "content": info}]}


@pytest.mark.usefixtures("langchain")
async def test_a_graph_remembers_across_threads_and_keeps_users_apart(tmp_path: Any) -> None:
    index: Any = {"embed": "openai:text-embedding-3-small", "dims": 1536, "fields": ["$"]}
    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node(call_model)
    builder.add_node(update_memory)
    builder.add_edge(START, "call_model")
    builder.add_edge("call_model", "update_memory")

    async def said(graph: Any, thread: str, user: str, text: str) -> str:
        updates = graph.astream(
            {"messages": [{"role": "user", "content": text}]},
            {"configurable": {"thread_id": thread}},
            stream_mode="updates",
            context=Context(user_id=user),
        )
        (answer, *_) = [update["call_model"] async for update in updates if "call_model" in update]
        return str(answer["messages"][-1]["content"])

    async with AsyncSqliteStore.from_conn_string(str(tmp_path / "store.db"), index=index) as kept:
        for store in (InMemoryStore(index=index), InMemoryStore(), kept):
            graph = builder.compile(checkpointer=InMemorySaver(), store=store)
            assert await said(graph, "1", "1", "I like pizza") == ""
            await store.aput(("1", "memories"), "food", {"memory": "I eat pizza"})
            assert "I eat pizza" in await said(graph, "2", "1", "what do I like to eat?")
            assert await said(graph, "3", "2", "what do I like to eat?") == ""


def by_name(state: MessagesState, store: BaseStore) -> None:
    store.put(("seen",), "by name", {})


def by_keyword(state: MessagesState, *, store: BaseStore) -> None:
    store.put(("seen",), "by keyword", {})


def by_call(state: MessagesState) -> None:
    get_store().put(("seen",), "by call", {})


def by_runtime(state: MessagesState, runtime: Runtime) -> None:
    assert runtime.store is not None
    runtime.store.put(("seen",), "by runtime", {})


def test_nodes_reach_the_store_in_every_way(store: BaseStore) -> None:
    builder = StateGraph(MessagesState)
    for node in (by_name, by_keyword, by_call, by_runtime):
        builder.add_node(node)
        builder.add_edge(START, node.__name__)
    builder.compile(store=store).invoke({"messages": []})
    keys = {item.key for item in store.search(("seen",))}
    assert keys == {"by name", "by keyword", "by call", "by runtime"}


@pytest.mark.parametrize("connection", [False, True])
def test_a_saver_and_a_store_share_a_file(tmp_path: Any, connection: bool) -> None:
    path = str(tmp_path / "all.db")
    target: Any = sqlite3.connect(path, check_same_thread=False) if connection else path
    builder = StateGraph(MessagesState)
    builder.add_node(by_name)
    builder.add_edge(START, "by_name")
    config: Any = {"configurable": {"thread_id": "1"}}
    with SqliteStore(target) as store:
        graph = builder.compile(checkpointer=SqliteSaver(target), store=store)
        graph.invoke({"messages": [{"role": "user", "content": "hi"}]}, config)
    with SqliteStore(path) as store:
        again = builder.compile(checkpointer=SqliteSaver(path), store=store)
        assert again.get_state(config).values["messages"][0].content == "hi"
        assert [item.key for item in store.search(())] == ["by name"]
