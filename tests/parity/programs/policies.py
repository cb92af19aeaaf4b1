"""Retries, caches, timeouts, handlers, and what is left after a failure."""

import asyncio
import operator
import threading
from typing import Annotated, Any

from typing_extensions import TypedDict

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}
EVENTS = ["values", "updates", "tasks"]


class Job(TypedDict):
    name: str
    log: Annotated[list[str], operator.add]


class Busy(Exception):
    """A failure that a retry may cure."""


def failing(times: int, error: Exception) -> tuple[Any, list[int]]:
    """A node that fails some times, and the list of its attempts."""
    attempts: list[int] = []

    def work(state: Job) -> dict[str, Any]:
        attempts.append(1)
        if len(attempts) <= times:
            raise error
        return {"log": [f"worked at attempt {len(attempts)}"]}

    return work, attempts


def fast(t: Trace, **options: Any) -> Any:
    return t.lib.RetryPolicy(initial_interval=0.001, jitter=False, **options)


async def single(t: Trace, node: Any, **options: Any) -> Any:
    graph = t.lib.StateGraph(Job).add_node("work", node, **options)
    return graph.add_edge(t.lib.START, "work").compile(checkpointer=await t.saver())


@program()
async def a_failed_node_is_tried_again(t: Trace) -> None:
    for times in (2, 3):
        node, attempts = failing(times, Busy("program: busy"))
        app = await single(t, node, retry_policy=fast(t))
        await t.stream(app, {"name": "x"}, HERE, stream_mode=EVENTS)
        t.note("attempts", len(attempts))
        await t.state(app, HERE)


@program(savers=("memory",))
async def only_some_errors_are_worth_a_retry(t: Trace) -> None:
    kinds = (ConnectionError, OSError, ValueError, RuntimeError, LookupError, TimeoutError, Busy)
    for kind in (*kinds, TypeError, ArithmeticError, ImportError, StopIteration, AssertionError):
        node, attempts = failing(1, kind("program: no"))
        await t.call(await single(t, node, retry_policy=fast(t)), "invoke", {"name": "x"}, HERE)
        t.note(kind.__name__, len(attempts))


@program(savers=("memory",))
async def a_retry_policy_names_its_errors(t: Trace) -> None:
    policies = [
        fast(t, retry_on=ValueError, max_attempts=2),
        fast(t, retry_on=(KeyError, Busy), max_attempts=5),
    ]
    for error in (ValueError("program: v"), Busy("program: b"), OSError("program: o")):
        node, attempts = failing(3, error)
        app = await single(t, node, retry_policy=policies)
        await t.invoke(app, {"name": "x"}, HERE)
        t.note("attempts", len(attempts))
    node, attempts = failing(2, OSError("program: o"))
    policy = fast(t, retry_on=lambda error: isinstance(error, OSError))
    await t.invoke(await single(t, node, retry_policy=policy), {"name": "x"}, HERE)
    t.note("attempts", len(attempts))


@program(savers=("memory",))
async def a_node_knows_its_attempt(t: Trace) -> None:
    seen = []

    def work(state: Job, runtime: t.lib.Runtime) -> dict[str, Any]:
        seen.append(runtime.execution_info.node_attempt)
        if len(seen) < 3:
            raise Busy("program: busy")
        return {}

    await t.call(await single(t, work, retry_policy=fast(t)), "invoke", {"name": "x"}, HERE)
    t.note("attempts", seen)


@program()
async def a_failure_keeps_what_its_siblings_did(t: Trace) -> None:
    runs = []
    broken = [True]
    saved, asaved = threading.Event(), asyncio.Event()

    def good(state: Job) -> dict[str, Any]:
        runs.append("good")
        return {"log": ["good"]}

    def fail() -> dict[str, Any]:
        runs.append("bad")
        if broken[0]:
            raise Busy("program: broken")
        return {"log": ["repaired"]}

    def bad(state: Job) -> dict[str, Any]:
        saved.wait()
        return fail()

    async def abad(state: Job) -> dict[str, Any]:
        await asaved.wait()
        return fail()

    def watch(chunk: Any) -> None:
        if chunk[0] == "updates" and "good" in chunk[1]:
            saved.set()
            asaved.set()

    graph = t.lib.StateGraph(Job).add_node(good)
    graph.add_node("bad", bad if t.mode == "sync" else abad)
    graph.add_node("join", lambda s: {"log": ["joined"]})
    graph.add_edge(t.lib.START, "good").add_edge(t.lib.START, "bad")
    graph.add_edge(["good", "bad"], "join")
    app = graph.compile(checkpointer=await t.saver())
    modes = ["updates", "custom"]  # the peer shows updates at once only beside custom chunks
    await t.collect(app, "stream", {"name": "x"}, HERE, stream_mode=modes, watch=watch)
    await t.state(app, HERE)
    broken[0] = False
    await t.stream(app, None, HERE, stream_mode=EVENTS, parallel=True)
    t.note("runs", (runs.count("good"), runs.count("bad")))
    await t.history(app, HERE)


@program()
async def a_failure_can_be_resumed_after_a_chain(t: Trace) -> None:
    runs = []
    broken = [True]

    def early(state: Job) -> dict[str, Any]:
        runs.append("early")
        return {"log": ["early"]}

    def late(state: Job) -> dict[str, Any]:
        runs.append("late")
        if broken[0]:
            raise Busy("program: broken")
        return {"log": ["late"]}

    graph = t.lib.StateGraph(Job).add_sequence([early, late]).add_edge(t.lib.START, "early")
    app = graph.compile(checkpointer=await t.saver())
    await t.stream(app, {"name": "x"}, HERE, stream_mode=EVENTS)
    await t.state(app, HERE)
    broken[0] = False
    await t.stream(app, None, HERE, stream_mode=EVENTS)
    t.note("runs", runs)
    await t.history(app, HERE)


@program()
async def a_failure_with_durability_exit(t: Trace) -> None:
    broken = [True]

    def late(state: Job) -> dict[str, Any]:
        if broken[0]:
            raise Busy("program: broken")
        return {"log": ["late"]}

    graph = t.lib.StateGraph(Job).add_node("early", lambda s: {"log": ["early"]}).add_node(late)
    graph.add_edge(t.lib.START, "early").add_edge("early", "late")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"name": "x"}, HERE, durability="exit")
    await t.history(app, HERE)
    broken[0] = False
    await t.invoke(app, None, HERE, durability="exit")
    await t.history(app, HERE)


@program()
async def a_failed_thread_can_be_edited_past_the_failure(t: Trace) -> None:
    node, _ = failing(9, Busy("program: never"))
    graph = t.lib.StateGraph(Job).add_node("work", node)
    graph.add_node("after", lambda s: {"log": ["after"]})
    graph.add_edge(t.lib.START, "work").add_edge("work", "after")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"name": "x"}, HERE)
    await t.update(app, HERE, {"log": ["done by hand"]}, as_node="work")
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program(savers=("memory",))
async def a_cached_result_is_used_again(t: Trace) -> None:
    runs = []

    def slow(state: Job) -> dict[str, Any]:
        runs.append(1)
        return {"log": [f"computed for {state['name']}"]}

    graph = t.lib.StateGraph(Job)
    graph.add_node("slow", slow, cache_policy=t.lib.CachePolicy(ttl=60))
    graph.add_edge(t.lib.START, "slow")
    app = graph.compile(cache=t.lib.InMemoryCache())
    for name in ("a", "a", "b"):
        await t.stream(app, {"name": name}, stream_mode=["values", "updates"])
    t.note("runs", len(runs))
    await t.call(app, "clear_cache")
    await t.call(app, "invoke", {"name": "a"})
    t.note("runs", len(runs))


@program(savers=("memory",))
async def a_cache_key_can_be_ones_own(t: Trace) -> None:
    runs = []

    def slow(state: Job) -> dict[str, Any]:
        runs.append(state["name"])
        return {"log": [state["name"]]}

    policy = t.lib.CachePolicy(key_func=lambda state: state["name"][:1])
    graph = t.lib.StateGraph(Job).add_node("slow", slow, cache_policy=policy)
    app = graph.add_edge(t.lib.START, "slow").compile(cache=t.lib.InMemoryCache())
    for name in ("apple", "avocado", "beet"):
        await t.invoke(app, {"name": name})
    t.note("runs", runs)


@program(modes=("async",), savers=("memory",))
async def a_slow_node_is_cut_off(t: Trace) -> None:
    async def slow(state: Job) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    app = await single(t, slow, timeout=0.02)
    await t.invoke(app, {"name": "x"}, HERE)
    state = await t.call(app, "get_state", HERE)
    t.note("still to run", state.next)


@program(savers=("memory",))
async def a_handler_takes_over_after_an_error(t: Trace) -> None:
    def broken(state: Job) -> dict[str, Any]:
        raise Busy("program: broken")

    def rescue(state: Job, error: t.lib.NodeError) -> Any:
        return t.lib.Command(update={"log": [f"{error.node}: {error.error}"]}, goto="after")

    graph = t.lib.StateGraph(Job).add_node("work", broken, error_handler=rescue)
    graph.add_node("after", lambda s: {"log": ["after"]}).add_edge(t.lib.START, "work")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"name": "x"}, HERE)
    state = await t.call(app, "get_state", HERE)
    t.note("left", (state.values, state.next))


@program(modes=("async",))
async def a_cancelled_run_leaves_a_readable_thread(t: Trace) -> None:
    waiting = asyncio.Event()

    async def quick(state: Job) -> dict[str, Any]:
        return {"log": ["quick"]}

    async def endless(state: Job) -> dict[str, Any]:
        waiting.set()
        await asyncio.Event().wait()
        return {}

    graph = t.lib.StateGraph(Job).add_node(quick).add_node(endless)
    graph.add_edge(t.lib.START, "quick").add_edge("quick", "endless")
    app = graph.compile(checkpointer=await t.saver())
    run = asyncio.create_task(app.ainvoke({"name": "x"}, HERE))
    await waiting.wait()
    run.cancel()
    (outcome,) = await asyncio.gather(run, return_exceptions=True)
    t.note("cancelled", isinstance(outcome, asyncio.CancelledError))
    state = await t.call(app, "get_state", HERE)
    t.note("left", (state.values, state.next))


@program(savers=("memory",), modes=("sync",))
async def an_async_node_needs_an_async_run(t: Trace) -> None:
    async def work(state: Job) -> dict[str, Any]:
        return {}

    result = await t.call(await single(t, work), "invoke", {"name": "x"}, HERE)
    t.note("refused", isinstance(result, Exception))
