"""Workflows that are functions: entry points and tasks."""

from typing import Any

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}
EVENTS = ["values", "updates", "tasks"]


@program()
async def a_workflow_calls_tasks(t: Trace) -> None:
    runs = []

    @t.lib.task
    def square(n: int) -> int:
        runs.append(n)
        return n * n

    @t.lib.entrypoint(checkpointer=await t.saver())
    def work(numbers: list[int]) -> int:
        futures = [square(n) for n in numbers]
        return sum(f.result() for f in futures)

    if t.mode == "async":

        @t.lib.entrypoint(checkpointer=await t.saver())
        async def work(numbers: list[int]) -> int:
            return sum([await square(n) for n in numbers])

    await t.stream(work, [1, 2, 3], HERE, stream_mode=EVENTS, parallel=True)
    await t.state(work, HERE)
    await t.invoke(work, [4], HERE)
    await t.history(work, HERE)
    t.note("runs", sorted(runs))


@program()
async def a_workflow_asks_and_does_not_repeat_its_tasks(t: Trace) -> None:
    runs = []

    @t.lib.task
    def draft(topic: str) -> str:
        runs.append(topic)
        return f"a draft on {topic}"

    saver = await t.saver()
    if t.mode == "sync":

        @t.lib.entrypoint(checkpointer=saver)
        def write(topic: str) -> dict[str, Any]:
            text = draft(topic).result()
            return {"text": text, "verdict": t.lib.interrupt({"review": text})}
    else:

        @t.lib.entrypoint(checkpointer=saver)
        async def write(topic: str) -> dict[str, Any]:
            text = await draft(topic)
            return {"text": text, "verdict": t.lib.interrupt({"review": text})}

    await t.stream(write, "cats", HERE, stream_mode=EVENTS)
    await t.state(write, HERE)
    await t.stream(write, t.lib.Command(resume="good"), HERE, stream_mode=EVENTS)
    t.note("runs", runs)
    await t.history(write, HERE)


@program()
async def a_workflow_remembers_its_last_result(t: Trace) -> None:
    final = t.lib.entrypoint.final

    @t.lib.entrypoint(checkpointer=await t.saver())
    def add(number: int, *, previous: Any = None) -> int:
        return number + (previous or 0)

    @t.lib.entrypoint(checkpointer=await t.saver())
    def shift(number: int, *, previous: Any = None) -> Any:
        return final(value=previous, save=number * 2)

    for number in (1, 2, 3):
        await t.invoke(add, number, HERE)
        await t.invoke(shift, number, HERE)
    await t.state(add, HERE)
    await t.state(shift, HERE)


@program()
async def an_error_in_a_task_can_be_caught(t: Trace) -> None:
    @t.lib.task
    def broken(n: int) -> int:
        raise KeyError("program: broken")

    saver = await t.saver()
    if t.mode == "sync":

        @t.lib.entrypoint(checkpointer=saver)
        def careful(n: int) -> str:
            try:
                return str(broken(n).result())
            except KeyError:
                return "caught"
    else:

        @t.lib.entrypoint(checkpointer=saver)
        async def careful(n: int) -> str:
            try:
                return str(await broken(n))
            except KeyError:
                return "caught"

    await t.invoke(careful, 1, HERE)


@program()
async def a_failed_workflow_resumes_behind_its_finished_tasks(t: Trace) -> None:
    runs: list[str] = []
    broken = [True]

    @t.lib.task
    def costly(n: int) -> int:
        runs.append("costly")
        return n * 10

    @t.lib.task
    def flaky(n: int) -> int:
        runs.append("flaky")
        if broken[0]:
            raise RuntimeError("program: flaky")
        return n + 1

    saver = await t.saver()
    if t.mode == "sync":

        @t.lib.entrypoint(checkpointer=saver)
        def work(n: int) -> int:
            return flaky(costly(n).result()).result()
    else:

        @t.lib.entrypoint(checkpointer=saver)
        async def work(n: int) -> int:
            return await flaky(await costly(n))

    await t.invoke(work, 4, HERE)
    broken[0] = False
    await t.invoke(work, None, HERE)
    t.note("runs", runs)
    await t.state(work, HERE)


@program()
async def a_question_inside_a_task(t: Trace) -> None:
    @t.lib.task
    def ask(question: str) -> str:
        return t.lib.interrupt(question)

    saver = await t.saver()
    if t.mode == "sync":

        @t.lib.entrypoint(checkpointer=saver)
        def form(_: Any) -> list[str]:
            return [ask("name?").result(), ask("age?").result()]
    else:

        @t.lib.entrypoint(checkpointer=saver)
        async def form(_: Any) -> list[str]:
            return [await ask("name?"), await ask("age?")]

    await t.invoke(form, {"go": 1}, HERE)
    await t.invoke(form, t.lib.Command(resume="Ada"), HERE)
    await t.invoke(form, t.lib.Command(resume="36"), HERE)


@program(savers=("memory",))
async def a_workflow_is_handed_its_surroundings(t: Trace) -> None:
    store = t.lib.InMemoryStore()

    @t.lib.entrypoint(store=store, context_schema=dict)
    def work(n: int, *, store: t.lib.BaseStore, runtime: t.lib.Runtime) -> Any:
        store.put(("n",), "last", {"n": n})
        t.lib.get_stream_writer()(f"working on {n}")
        return {"context": runtime.context, "stored": store.get(("n",), "last").value}

    await t.stream(work, 3, stream_mode=["custom", "values"], context={"user": "ada"})


@program(savers=("memory",))
async def a_workflow_can_run_a_graph(t: Trace) -> None:
    from typing_extensions import TypedDict

    class Number(TypedDict):
        n: int

    graph = t.lib.StateGraph(Number).add_node("double", lambda s: {"n": s["n"] * 2})
    app = graph.add_edge(t.lib.START, "double").compile()
    saver = await t.saver()
    if t.mode == "sync":

        @t.lib.entrypoint(checkpointer=saver)
        def work(n: int) -> int:
            return app.invoke({"n": n})["n"] + app.invoke({"n": n + 1})["n"]
    else:

        @t.lib.entrypoint(checkpointer=saver)
        async def work(n: int) -> int:
            return (await app.ainvoke({"n": n}))["n"] + (await app.ainvoke({"n": n + 1}))["n"]

    await t.invoke(work, 5, HERE)


@program(savers=("memory",))
async def a_task_is_retried_and_cached(t: Trace) -> None:
    attempts: list[int] = []
    policy = t.lib.RetryPolicy(initial_interval=0.001, jitter=False)

    @t.lib.task(retry_policy=policy)
    def shaky(n: int) -> int:
        attempts.append(n)
        if len(attempts) < 3:
            raise ConnectionError("program: shaky")
        return n

    @t.lib.task(cache_policy=t.lib.CachePolicy())
    def slow(n: int) -> int:
        attempts.append(-n)
        return -n

    if t.mode == "sync":

        @t.lib.entrypoint(cache=t.lib.InMemoryCache())
        def work(n: int) -> list[int]:
            return [shaky(n).result(), slow(n).result()]
    else:

        @t.lib.entrypoint(cache=t.lib.InMemoryCache())
        async def work(n: int) -> list[int]:
            return [await shaky(n), await slow(n)]

    await t.invoke(work, 7)
    await t.invoke(work, 7)
    t.note("attempts", attempts)


@program(savers=("memory",), modes=("sync",))
async def a_workflow_must_take_an_input(t: Trace) -> None:
    for function in (lambda: 1,):
        try:
            t.lib.entrypoint()(function)
        except Exception as error:
            t.note("refused", isinstance(error, ValueError))
