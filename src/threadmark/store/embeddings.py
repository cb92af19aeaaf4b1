"""From what users configure as `embed` to something that turns texts into vectors, in both worlds.

Functions, coroutine functions, LangChain `Embeddings` and `"provider:model"` strings all end up as
one object with four methods. A coroutine is run for sync callers in a thread with a loop of its own,
a function for async callers in a thread, so that neither blocks the other's world. Packages that know
models are imported when one of theirs is named, never before.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from threadmark._checks import shown
from threadmark._db.worker import run_apart
from threadmark.errors import InvalidArgumentError, MissingDependencyError

if TYPE_CHECKING:
    from threadmark.store.ops import AEmbeddingsFunc, Embeddings, EmbeddingsFunc

__all__ = ["ensure_embeddings"]


def ensure_embeddings(embed: Embeddings | EmbeddingsFunc | AEmbeddingsFunc | str) -> Embeddings:
    """Return an object with the four methods of `Embeddings`.

    Args:
        embed: Such an object, one that has only the sync or only the async methods, a function or
            coroutine function over a list of texts, or `"provider:model"`.

    Raises:
        InvalidArgumentError: It is none of these.
        MissingDependencyError: The package that knows the provider is not installed.
    """
    if isinstance(embed, str):
        return _named(embed)
    if all(hasattr(embed, name) for name in _METHODS):
        return cast("Embeddings", embed)
    for documents, query in (_METHODS[:2], _METHODS[2:]):
        if hasattr(embed, documents) and hasattr(embed, query):
            return _Adapted(getattr(embed, documents), getattr(embed, query))
    if callable(embed):
        function: Callable[[list[str]], Any] = embed
        return _Adapted(function, lambda text: function([text]), first=True)
    raise InvalidArgumentError(
        f"embed is a function over a list of texts, an Embeddings object or 'provider:model', not "
        f"{shown(embed)}."
    )


_METHODS = ("embed_documents", "embed_query", "aembed_documents", "aembed_query")


@dataclass(frozen=True, slots=True)
class _Adapted:
    """Both worlds over functions that belong to either.

    `first`: `query` returns a list with the vector in it.
    """

    documents: Callable[[list[str]], Any]
    query: Callable[[str], Any]
    first: bool = False

    def embed_documents(self, texts: list[str]) -> Any:
        return _finished(self.documents(texts))

    def embed_query(self, text: str) -> Any:
        return self._one(_finished(self.query(text)))

    async def aembed_documents(self, texts: list[str]) -> Any:
        return await self._awaited(self.documents, texts)

    async def aembed_query(self, text: str) -> Any:
        return self._one(await self._awaited(self.query, text))

    async def _awaited(self, function: Callable[[Any], Any], argument: Any) -> Any:
        if _is_coroutine_function(self.documents):
            return await function(argument)
        context = copy_context()
        return await run_apart(lambda: context.run(lambda: _finished(function(argument))))

    def _one(self, vectors: Any) -> Any:
        return next(iter(vectors)) if self.first else vectors


def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is a coroutine function
    )


def _finished(result: Any) -> Any:
    """Return a result, waiting for it in another thread when it is awaitable.

    The calling thread may be running a loop itself, which could not wait for its own.
    """
    if not inspect.isawaitable(result):
        return result
    with ThreadPoolExecutor(1, thread_name_prefix="threadmark-embed") as pool:
        return pool.submit(copy_context().run, asyncio.run, _result_of(result)).result()


async def _result_of(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


# Models by name


def _named(name: str) -> Embeddings:
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise InvalidArgumentError(
            f"embed={name!r} names no model. Write 'provider:model', as 'openai:text-embedding-3-small'."
        )
    if provider == "model2vec":
        return _model2vec(model)
    if provider == "fastembed":
        return _fastembed(model)
    init_embeddings = _import("langchain.embeddings", "langchain", name).init_embeddings
    return ensure_embeddings(init_embeddings(name))


def _model2vec(model: str) -> Embeddings:
    package = _import("model2vec", "model2vec", f"model2vec:{model}")
    return ensure_embeddings(package.StaticModel.from_pretrained(model).encode)


def _fastembed(model: str) -> Embeddings:
    loaded = _import("fastembed", "fastembed", f"fastembed:{model}").TextEmbedding(model)
    return _Adapted(
        lambda texts: list(loaded.embed(texts)),
        lambda text: list(loaded.query_embed(text)),
        first=True,
    )


def _import(module: str, package: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"embed={name!r} needs the package {package}: pip install {package}. Or pass a function over "
            f"a list of texts."
        ) from error
