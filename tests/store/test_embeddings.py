"""Whatever users configure as `embed` works for sync and async callers, and says what is missing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from threadmark.errors import InvalidArgumentError, MissingDependencyError
from threadmark.store.base import ensure_embeddings
from threadmark.store.memory import InMemoryStore
from threadmark.testing.stores.harness import embed

NS = ("notes",)


async def aembed(texts: list[str]) -> list[list[float]]:
    await asyncio.sleep(0)
    return embed(texts)


class Model:
    """LangChain's shape, without LangChain."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return embed(texts)

    def embed_query(self, text: str) -> list[float]:
        return embed([text])[0]


class AsyncModel:
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return await aembed(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return (await aembed([text]))[0]


class CallableModel:
    async def __call__(self, texts: list[str]) -> list[list[float]]:
        return await aembed(texts)


class Whole(Model, AsyncModel):
    pass


KINDS: list[Callable[[], Any]] = [
    lambda: embed,
    lambda: aembed,
    lambda: lambda texts: aembed(texts),
    Model,
    AsyncModel,
    CallableModel,
    Whole,
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_serves_sync_callers(kind: Callable[[], Any]) -> None:
    store = InMemoryStore(index={"embed": kind(), "dims": 8, "fields": ["text"]})
    store.put(NS, "cat", {"text": "cat"})
    store.put(NS, "dog", {"text": "dog"})
    assert [item.key for item in store.search(NS, query="dog")] == ["dog", "cat"]


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_serves_async_callers_and_sync_ones_inside_a_loop(kind: Callable[[], Any]) -> None:
    store = InMemoryStore(index={"embed": kind(), "dims": 8, "fields": ["text"]})
    await store.aput(NS, "cat", {"text": "cat"})
    store.put(NS, "dog", {"text": "dog"})
    assert [item.key for item in await store.asearch(NS, query="dog")] == ["dog", "cat"]
    assert [item.key for item in store.search(NS, query="cat")] == ["cat", "dog"]


async def test_a_sync_model_does_not_block_the_loop() -> None:
    threads = []

    def slow(texts: list[str]) -> list[list[float]]:
        threads.append(threading.current_thread())
        return embed(texts)

    store = InMemoryStore(index={"embed": slow, "dims": 8})
    await store.aput(NS, "k", {"text": "cat"})
    await store.asearch(NS, query="cat")
    assert len(threads) == 2
    assert threading.current_thread() not in threads
    assert not any(thread.is_alive() for thread in threads)


def test_langchain_embeddings_work_as_they_are() -> None:
    from langchain_core.embeddings import DeterministicFakeEmbedding

    model = DeterministicFakeEmbedding(size=16)
    assert ensure_embeddings(model) is model
    store = InMemoryStore(index={"embed": model, "dims": 16, "fields": ["text"]})
    store.put(NS, "a", {"text": "one"})
    store.put(NS, "b", {"text": "two"})
    assert asyncio.run(store.asearch(NS, query="two"))[0].key == "b"


# By name


def installed(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    for part in name.split("."):
        monkeypatch.setitem(sys.modules, part, ModuleType(part))
    module = ModuleType(name)
    module.__dict__.update(members)
    monkeypatch.setitem(sys.modules, name, module)


def test_model2vec_models_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def from_pretrained(name: str) -> Any:
        loaded.append(name)
        return SimpleNamespace(encode=embed)

    installed(monkeypatch, "model2vec", StaticModel=SimpleNamespace(from_pretrained=from_pretrained))
    model = ensure_embeddings("model2vec:minishlab/potion-base-8M")
    assert loaded == ["minishlab/potion-base-8M"]
    assert model.embed_query("cat") == embed(["cat"])[0]


def test_fastembed_models_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class TextEmbedding:
        def __init__(self, name: str) -> None:
            assert name == "BAAI/bge-small-en-v1.5"

        def embed(self, texts: list[str]) -> Any:
            yield from embed(texts)

        def query_embed(self, text: str) -> Any:
            yield embed([f"{text} query"])[0]

    installed(monkeypatch, "fastembed", TextEmbedding=TextEmbedding)
    model = ensure_embeddings("fastembed:BAAI/bge-small-en-v1.5")
    assert model.embed_documents(["cat", "dog"]) == embed(["cat", "dog"])
    assert asyncio.run(model.aembed_query("cat")) == embed(["cat query"])[0]


def test_other_providers_are_asked_of_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    named = []

    def init_embeddings(name: str) -> Any:
        named.append(name)
        return Whole()

    installed(monkeypatch, "langchain.embeddings", init_embeddings=init_embeddings)
    ensure_embeddings("openai:text-embedding-3-small")
    assert named == ["openai:text-embedding-3-small"]


@pytest.mark.parametrize(
    ("name", "package"),
    [("openai:m", "langchain"), ("model2vec:m", "model2vec"), ("fastembed:m", "fastembed")],
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    for module in ("langchain", "langchain.embeddings", "model2vec", "fastembed"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=f"pip install {package}"):
        InMemoryStore(index={"embed": name, "dims": 3})


@pytest.mark.parametrize("embed", ["openai", ":m", "openai:", "", 5, [embed]])
def test_what_is_no_model_is_refused(embed: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        ensure_embeddings(embed)


def test_semantic_search_without_numpy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(MissingDependencyError, match=r"threadmark\[search\]"):
        InMemoryStore(index={"embed": embed, "dims": 8})
    store = InMemoryStore(index={"fields": ["text"]})
    store.put(NS, "k", {"text": "a cat"})
    assert [item.key for item in store.search(NS, query="cat", mode="keyword")] == ["k"]


def test_stores_import_no_package_that_was_not_asked_for() -> None:
    program = """
import sys
import threadmark.store.sqlite.aio, threadmark.store.memory, threadmark.testing.stores
heavy = {"numpy", "pydantic", "langchain_core", "langchain", "psycopg"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)
