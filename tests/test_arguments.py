"""Whatever is passed for an argument, only our errors come out, they name it, and nothing is written.

Each row says what an argument takes; everything else of `HOSTILE` must be refused.
"""

from __future__ import annotations

import asyncio
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from typing_extensions import TypedDict

from threadmark.cache.memory import InMemoryCache
from threadmark.checkpoint.base import empty_checkpoint
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer, Keys
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import ThreadmarkError
from threadmark.func import entrypoint, task
from threadmark.graph import START, StateGraph
from threadmark.store.memory import InMemoryStore
from threadmark.store.postgres import PostgresStore
from threadmark.store.sqlite import SqliteStore
from threadmark.types import CachePolicy, RetryPolicy, Send, TimeoutPolicy


class Unprintable:
    """Worse than most things that are passed."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


HOSTILE: dict[str, Any] = {
    "none": None,
    "true": True,
    "false": False,
    "zero": 0,
    "five": 5,
    "negative": -1,
    "fraction": 1.5,
    "nan": math.nan,
    "infinite": math.inf,
    "huge": 10**400,
    "text": "zz",
    "empty": "",
    "nul": "a\x00b",
    "surrogate": "\ud800",
    "bytes": b"zz",
    "list": ["zz"],
    "numbers": [5],
    "dict": {"zz": 5},
    "odd dict": {5: "zz"},
    "set": {"zz"},
    "function": len,
    "class": int,
    "object": object(),
    "unprintable": Unprintable(),
    "second": timedelta(seconds=1),
    "no time": timedelta(),
    "negative time": timedelta(seconds=-1),
    "uuid": UUID(int=5),
}
TEXTS = {"text", "nul", "surrogate"}
FLAG = {"true", "false"}
SECONDS = {"five", "fraction", "zero"}
FREE = set(HOSTILE)
"""Any value is the user's own business."""


@dataclass(frozen=True)
class Row:
    """What an argument of something takes."""

    what: str
    call: Callable[..., Any]
    argument: str
    takes: set[str]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def rows(what: str, call: Callable[..., Any], **takes: set[str]) -> list[Row]:
    return [Row(what, call, name, kinds) for name, kinds in takes.items()]


def builder() -> Any:
    return StateGraph(State).add_node("only", lambda state: {"log": ["ran"]}).add_edge(START, "only")


def graph(**options: Any) -> Any:
    return builder().compile(InMemorySaver(), **options)


def in_config(**entry: Any) -> Any:
    """Run with an entry in the config; `configurable__x` is one in `configurable`."""
    (name, value), *_ = entry.items()
    where, _, inner = name.partition("__")
    config: Any = {"configurable": {"thread_id": "t"}}
    if inner:
        config[where][inner] = value
    else:
        config[where] = value
    return watched(lambda app: app.invoke({"log": []}, config))


def watched(run: Callable[[Any], Any]) -> Any:
    """Run a graph; what it refuses must leave nothing."""
    app = graph()
    try:
        return run(app)
    except ThreadmarkError:
        assert list(app.checkpointer.list(None)) == []
        raise


def runs(method: str) -> Callable[..., Any]:
    """Return what runs a graph with options."""

    def call(**options: Any) -> Any:
        given = {"config": {"configurable": {"thread_id": "t"}}, **options}

        async def collected(app: Any) -> Any:
            return [chunk async for chunk in app.astream({"log": []}, **given)]

        def run(app: Any) -> Any:
            if method == "ainvoke":
                return asyncio.run(app.ainvoke({"log": []}, **given))
            if method == "astream":
                return asyncio.run(collected(app))
            result = getattr(app, method)({"log": []}, **given)
            return list(result) if method == "stream" else result

        return watched(run)

    return call


def retried(**fields: Any) -> Any:
    return StateGraph(State).add_node("only", lambda state: None, retry_policy=RetryPolicy(**fields))


def node(**options: Any) -> Any:
    return StateGraph(State).add_node("only", lambda state: None, **options)


def named(name: Any) -> Any:
    return StateGraph(State).add_node(name, lambda state: None)


def keyed(name: Any) -> Any:
    return StateGraph(TypedDict("Keyed", {name: int}) if isinstance(name, str) else name)  # type: ignore[misc]


def set_to(**attribute: Any) -> Any:
    ((name, value),) = attribute.items()
    return setattr(graph(), name, value)


def saver_call(method: str, *first: Any, **given: Any) -> Callable[..., Any]:
    """Return what calls a method of savers of both kinds, which must agree."""

    def call(**argument: Any) -> Any:
        outcomes = []
        for saver in (InMemorySaver(), SqliteSaver(":memory:")):
            try:
                outcomes.append(getattr(saver, method)(*first, **{**given, **argument}))
            except ThreadmarkError as error:
                outcomes.append(error)
        assert {str(outcome) for outcome in outcomes} == {str(outcomes[0])} or method == "lease"
        if isinstance(outcomes[0], ThreadmarkError):
            raise outcomes[0]

    return call


def listed(**arguments: Any) -> Any:
    return list(InMemorySaver().list(**{"config": {"configurable": {"thread_id": "t"}}, **arguments}))


def state_call(method: str, *first: Any) -> Callable[..., Any]:
    """Return what calls a method for the state of a thread that has been run."""

    def call(**arguments: Any) -> Any:
        app = graph()
        app.invoke({"log": []}, THREAD)
        result = getattr(app, method)(*first, **arguments)
        return list(result) if method == "get_state_history" else result

    return call


def checkpoint() -> Any:
    return {**empty_checkpoint(), "id": "1"}


def stored(**arguments: Any) -> Any:
    return InMemoryStore().put(**{"namespace": ("a",), "key": "k", "value": {}, **arguments})


def searched(**arguments: Any) -> Any:
    return InMemoryStore().search(("a",), **arguments)


THREAD: Any = {"configurable": {"thread_id": "t"}}
SAVER = {
    "serde": {"none"},
    "max_value_bytes": {"five", "huge"},
    "compress": FLAG,
    "history": set[str](),
    "ttl": {"none", "second"},
    "refresh_ttl": FLAG,
}
RUN = {
    "context": FREE,
    "durability": {"none"},
    "on_conflict": {"none"},
    "version": set[str](),
    "output_keys": {"none"},
    "stream_mode": {"none"},
    "interrupt_before": {"none", "empty"},
    "interrupt_after": {"none", "empty"},
}
NODE = {
    "retry_policy": {"none"},
    "cache_policy": {"none"},
    "timeout": {"none", "five", "fraction", "second"},
}
SERVER = {
    "schema": {"none", "text"},
    "prefix": {"text", "empty"},
    "max_connections": {"five"},
    "timeout": SECONDS,
    "patience": SECONDS,
    "pipeline": FLAG,
    "prepare_threshold": {"none", "zero", "five"},
}
STORE = {"index": {"none"}, "ttl": {"none"}, "clock": {"none", "function", "class"}}
TABLE: list[Row] = [
    *rows("InMemorySaver", InMemorySaver, **SAVER),
    *rows(
        "SqliteSaver",
        lambda **given: SqliteSaver(**{"conn": ":memory:", **given}),
        **SAVER,
        conn={"text", "surrogate"},
        busy_timeout=SECONDS,
        shared=FLAG,
    ),
    *rows("PostgresSaver", lambda **given: PostgresSaver("postgresql://nowhere", **given), **SAVER, **SERVER),
    *rows(
        "PostgresStore",
        lambda **given: PostgresStore("postgresql://nowhere", **given),
        **STORE,
        **SERVER,
        exact=FLAG,
    ),
    *rows("PostgresSaver", lambda **given: PostgresSaver(**given), conn={"empty"}),
    *rows("InMemoryCache", InMemoryCache, serde={"none"}, clock={"function", "class"}),
    *rows("InMemoryStore", InMemoryStore, **STORE),
    *rows(
        "SqliteStore",
        lambda **given: SqliteStore(**{"conn": ":memory:", **given}),
        **STORE,
        conn={"text", "surrogate"},
        durability=set(),
        busy_timeout=SECONDS,
        shared=FLAG,
    ),
    *rows(
        "JsonPlusSerializer",
        JsonPlusSerializer,
        pickle_fallback=FLAG,
        opaque=FLAG,
        allowed_msgpack_modules={"none"},
    ),
    *rows("JsonPlusSerializer.allow", lambda **given: JsonPlusSerializer().allow(**given), new={"class"}),
    *rows(
        "EncryptedSerializer",
        lambda **given: EncryptedSerializer(**{"cipher": bytes(32), **given}),
        cipher={"function", "class"},
        serde={"none"},
        searchable={"list", "set"},
        accept_plaintext=FLAG,
    ),
    *rows("Keys", lambda **given: Keys(**{"current": "a", "keys": {"a": bytes(32)}, **given}), keys=set()),
    *rows("Keys", lambda **given: Keys(**{"current": "a", "keys": {"a": bytes(32)}, **given}), current=set()),
    *rows(
        "StateGraph",
        lambda **given: StateGraph(**{"state_schema": State, **given}),
        context_schema={"none", "class"},
        version={"five", "huge"},
        migrate={"none"},
    ),
    *rows(
        "add_node",
        node,
        **NODE,
        defer=FLAG,
        metadata={"none", "dict", "odd dict"},
        error_handler={"none", "function", "class"},
        destinations={"none", "text", "empty", "nul", "surrogate", "list", "dict", "set"},
    ),
    *rows(
        "set_node_defaults",
        lambda **given: StateGraph(State).set_node_defaults(**given),
        **NODE,
        error_handler={"none", "function", "class"},
    ),
    *rows("add_node", named, name={"text", "function", "class"}),
    *rows(
        "add_edge",
        lambda **given: StateGraph(State).add_edge(**{"start_key": "a", "end_key": "b", **given}),
        start_key={"text", "list", "set", *TEXTS, "empty"},
        end_key=TEXTS,
    ),
    *rows(
        "add_conditional_edges",
        lambda **given: StateGraph(State).add_conditional_edges(**{"source": "a", "path": len, **given}),
        source=TEXTS,
        path={"function", "class"},
        path_map={"none", "list", "odd dict"},
    ),
    *rows("add_sequence", lambda **given: StateGraph(State).add_sequence(**given), nodes=set()),
    *rows(
        "compile",
        lambda **given: builder().compile(**given),
        checkpointer={"none", "true", "false"},
        cache={"none"},
        store={"none"},
        interrupt_before={"none"},
        interrupt_after={"none"},
        debug=FLAG,
        name={"none", *TEXTS},
        renames={"none"},
        on_conflict=set(),
    ),
    *rows("invoke", runs("invoke"), **RUN),
    *rows("ainvoke", runs("ainvoke"), **RUN),
    *rows("stream", runs("stream"), **RUN, subgraphs=FLAG),
    *rows("astream", runs("astream"), **RUN, subgraphs=FLAG),
    *rows(
        "config",
        in_config,
        configurable=set(),
        metadata={"none", "dict"},
        tags={"none", "list", "set", "empty", *TEXTS},
        callbacks={"none", "list", "numbers"},
        recursion_limit={"none", "five", "huge"},
        max_concurrency={"none", "five", "huge"},
        run_name={"none", *TEXTS},
        run_id={"none", "five", "zero", "negative", "huge", "uuid", "text"},
        configurable__thread_id={"five", "zero", "negative", "huge", "text", "uuid"},
        configurable__checkpoint_ns={"none", "empty"},
        configurable__checkpoint_id={"none", "empty"},
        configurable__checkpoint_map={"none"},
        configurable__branch={"none"},
    ),
    *rows(
        "setting",
        set_to,
        checkpointer={"none", "true", "false"},
        store={"none"},
        cache={"none"},
        stream_mode=set(),
        on_conflict=set(),
        interrupt_before={"none"},
        interrupt_before_nodes={"none"},
        interrupt_after_nodes={"none"},
        step_timeout=set(),
        retry_policy=set(),
        name=TEXTS,
    ),
    *rows(
        "RetryPolicy",
        retried,
        initial_interval=SECONDS,
        backoff_factor=SECONDS,
        max_interval=SECONDS,
        max_attempts={"five", "huge"},
        jitter=FLAG,
        retry_on={"function"},
    ),
    *rows(
        "TimeoutPolicy",
        TimeoutPolicy,
        run_timeout={"none", "five", "fraction", "second"},
        idle_timeout={"none", "five", "fraction", "second"},
    ),
    *rows("CachePolicy", CachePolicy, key_func={"function", "class"}, ttl={"none", "five", "fraction"}),
    *rows(
        "Send",
        lambda **given: Send("a", None, **given),
        timeout={"none", "five", "fraction", "second"},
    ),
    *rows(
        "entrypoint",
        entrypoint,
        **NODE,
        checkpointer={"none", "true", "false"},
        store={"none"},
        cache={"none"},
        context_schema={"none", "class"},
    ),
    *rows("task", lambda **given: task(**given)(len), **NODE, name={"none", *TEXTS}),
    *rows("batch", lambda **given: graph().batch([{}], THREAD, **given), return_exceptions=FLAG),
    *rows(
        "get_graph",
        lambda **given: graph().get_graph(**given),
        xray={"true", "false", "zero", "five", "huge"},
    ),
    *rows(
        "get_subgraphs",
        lambda **given: list(graph().get_subgraphs(**given)),
        namespace={"none", "empty", *TEXTS},
        recurse=FLAG,
    ),
    *rows("with_config", lambda **given: graph().with_config(**given), config={"none", "dict", "odd dict"}),
    *rows("copy", lambda **given: graph().copy(**given), update={"none", "dict"}),
    *rows("get_state", state_call("get_state", THREAD), subgraphs=FLAG),
    *rows("get_state", state_call("get_state"), config=set()),
    *rows(
        "get_state_history",
        state_call("get_state_history", THREAD),
        filter={"none", "dict"},
        before={"none"},
        limit={"none", "zero", "five", "huge"},
    ),
    *rows(
        "update_state",
        state_call("update_state", THREAD),
        values={"none", "dict", "odd dict"},
    ),
    *rows("update_state", state_call("update_state", THREAD, {"log": []}), as_node={"none"}),
    *rows("update_state", state_call("update_state", THREAD, {"log": []}, "only"), task_id={"none", "text"}),
    *rows("bulk_update_state", state_call("bulk_update_state", THREAD), supersteps=set()),
    *rows("create_branch", state_call("create_branch", THREAD), name={"text"}),
    *rows("rename_branch", state_call("rename_branch", THREAD, "zz"), new_name=set()),
    *rows("switch_branch", state_call("switch_branch", THREAD), name=set()),
    *rows("delete_branch", state_call("delete_branch", THREAD), name=set()),
    *rows(
        "list",
        listed,
        config={"none"},
        filter={"none", "dict"},
        before={"none"},
        limit={"none", "zero", "five", "huge"},
    ),
    *rows("get_tuple", saver_call("get_tuple"), config=set()),
    *rows(
        "put",
        saver_call("put", config=THREAD, checkpoint=checkpoint(), metadata={}, new_versions={}),
        config=set(),
        checkpoint=set(),
        metadata={"dict"},
        new_versions={"dict"},
    ),
    *rows(
        "put_writes",
        saver_call(
            "put_writes",
            config={"configurable": {"thread_id": "t", "checkpoint_id": "1"}},
            writes=[],
            task_id="a",
        ),
        config=set(),
        writes=set(),
        task_id=set(),
        task_path=set(),
    ),
    *rows(
        "delete_thread",
        saver_call("delete_thread"),
        thread_id={"five", "zero", "negative", "huge", "text", "empty", "uuid"},
    ),
    *rows("lease", saver_call("lease", "t"), ttl={"second"}),
    *rows("acquire", lambda **given: InMemorySaver().lease("t").acquire(**given), timeout={"none", *SECONDS}),
    *rows(
        "take_lease",
        saver_call("take_lease", "t", token="a", ttl=timedelta(1)),
        token={"text"},
        ttl={"second"},
    ),
    *rows(
        "prune",
        saver_call("prune", ["t"]),
        keep_last={"none", "five", "huge"},
        older_than={"none", "second", "no time"},
        strategy={"none"},
        keep={"none"},
    ),
    *rows("prune", saver_call("prune"), thread_ids={"list", "numbers", "set"}),
    *rows("sweep", saver_call("sweep"), batch={"five"}),
    *rows(
        "threads.list",
        lambda **given: InMemorySaver().threads.list(**given),
        status={"none"},
        updated_after={"none"},
        updated_before={"none"},
        limit={"five"},
        cursor={"none"},
    ),
    *rows(
        "threads.search", lambda **given: InMemorySaver().threads.search(**given), metadata={"none", "dict"}
    ),
    *rows(
        "threads.update",
        lambda **given: InMemorySaver().threads.update("t", **given),
        metadata={"none", "dict"},
        ttl={"none", "second"},
    ),
    *rows(
        "put in a store",
        stored,
        namespace={"list"},
        key={"text", "empty", "nul", "surrogate"},
        value={"dict"},
        index={"none", "false", "list"},
        ttl={"none", "five", "fraction"},
    ),
    *rows(
        "search in a store",
        searched,
        query={"none", "empty", *TEXTS},
        filter={"none", "dict"},
        limit={"zero", "five"},
        offset={"zero", "five"},
        refresh_ttl={"none", *FLAG},
    ),
    *rows(
        "sweeper",
        lambda **given: InMemoryStore().start_ttl_sweeper(**given),
        sweep_interval_minutes={"none", "five", "fraction"},
    ),
    *rows("sweeper", lambda **given: InMemoryStore().stop_ttl_sweeper(**given), timeout={"none", *SECONDS}),
]
SAID = {
    "interrupt_before_nodes": "interrupt_before",
    "interrupt_after_nodes": "interrupt_after",
    "supersteps": "superstep",
    "cipher": "key",
}
"""Words for arguments that go by another name in messages."""
SAYS_WHAT = re.compile(
    "cannot be an id or name|is no node|names no node|has no code|cannot be saved|no checkpoint|A config with"
    "|rebuilds any class|put takes|as a key|is not a path|stands where|names no sub-graph|state key|deleted"
    "|no branch|of the state|must be a dict"
)
"""Messages that say what is wrong in other words than with the argument's name."""


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{row.what}-{row.argument}") for row in TABLE if row.takes is not FREE]
)
def test_what_an_argument_does_not_take_is_refused_by_name(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failures = list(misbehaviour(row))
    assert failures == []
    assert list(tmp_path.iterdir()) == []


def misbehaviour(row: Row) -> Iterator[str]:
    """Yield what went wrong with an argument, value by value."""
    for kind, value in HOSTILE.items():
        try:
            row.call(**{row.argument: value})
        except ThreadmarkError as error:
            said = SAID.get(row.argument, row.argument.rpartition("__")[2])
            if kind in row.takes:
                yield f"{kind} is fine, but: {error}"
            elif said not in str(error) and not SAYS_WHAT.search(str(error)):
                yield f"{kind}: {said} is not named: {error}"
        except Exception as error:
            yield f"{kind}: {type(error).__name__}: {error}"
        else:
            if kind not in row.takes:
                yield f"{kind} was taken"
