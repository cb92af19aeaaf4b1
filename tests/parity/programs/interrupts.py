"""Questions to people: asked in nodes, answered from outside."""

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from parity.programs import program
from parity.trace import Trace

HERE = {"configurable": {"thread_id": "here"}}


class Draft(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


async def one_question(t: Trace) -> Any:
    def review(state: Draft) -> dict[str, Any]:
        answer = t.lib.interrupt({"please review": state["text"]})
        return {"text": answer, "log": [f"reviewed as {answer}"]}

    def publish(state: Draft) -> dict[str, Any]:
        return {"log": [f"published {state['text']}"]}

    graph = t.lib.StateGraph(Draft).add_node(review).add_node(publish)
    graph.add_edge(t.lib.START, "review").add_edge("review", "publish")
    return graph.compile(checkpointer=await t.saver())


MODES = ["values", "updates", "tasks", "checkpoints", "debug"]


@program()
async def a_question_pauses_and_its_answer_resumes(t: Trace) -> None:
    app = await one_question(t)
    await t.stream(app, {"text": "v1", "log": []}, HERE, stream_mode=MODES)
    await t.state(app, HERE)
    await t.stream(app, t.lib.Command(resume="v2"), HERE, stream_mode=MODES)
    await t.history(app, HERE)


@program()
async def a_paused_run_tells_its_question(t: Trace) -> None:
    app = await one_question(t)
    await t.invoke(app, {"text": "v1"}, HERE)
    await t.invoke(app, {"text": "v1"}, {"configurable": {"thread_id": "2"}}, version="v2")
    await t.stream(app, {"text": "v1"}, {"configurable": {"thread_id": "3"}}, version="v2")
    await t.stream(
        app,
        {"text": "v1"},
        {"configurable": {"thread_id": "4"}},
        stream_mode=["values", "updates"],
        version="v2",
    )


@program()
async def going_on_without_an_answer_asks_again(t: Trace) -> None:
    app = await one_question(t)
    await t.invoke(app, {"text": "v1"}, HERE)
    await t.invoke(app, None, HERE)
    await t.state(app, HERE)
    await t.invoke(app, t.lib.Command(resume="yes"), HERE)
    await t.history(app, HERE)


@program()
async def a_new_input_abandons_the_question(t: Trace) -> None:
    app = await one_question(t)
    await t.invoke(app, {"text": "v1"}, HERE)
    await t.invoke(app, {"text": "other"}, HERE)
    await t.invoke(app, t.lib.Command(resume="fine"), HERE)
    await t.history(app, HERE)


@program()
async def one_node_asks_several_questions_in_turn(t: Trace) -> None:
    runs = []

    def form(state: Draft) -> dict[str, Any]:
        runs.append(1)
        name = t.lib.interrupt("name?")
        age = t.lib.interrupt("age?")
        return {"text": f"{name}, {age}"}

    graph = t.lib.StateGraph(Draft).add_node(form).add_edge(t.lib.START, "form")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"text": ""}, HERE)
    await t.stream(app, t.lib.Command(resume="Ada"), HERE, stream_mode=MODES)
    await t.state(app, HERE)
    await t.stream(app, t.lib.Command(resume=36), HERE, stream_mode=MODES)
    t.note("the node ran", len(runs))
    await t.history(app, HERE)


@program()
async def an_old_answer_does_not_answer_a_new_question(t: Trace) -> None:
    def twice(state: Draft) -> dict[str, Any]:
        return {"text": t.lib.interrupt("delete file?") + t.lib.interrupt("delete disk?")}

    graph = t.lib.StateGraph(Draft).add_node(twice).add_edge(t.lib.START, "twice")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"text": ""}, HERE)
    await t.invoke(app, t.lib.Command(resume="yes"), HERE)
    result = await t.call(app, "invoke", None, HERE)
    t.differs("approved without a word", result["text"], ours="", theirs="yesyes")


@program()
async def a_value_is_asked_for_until_it_is_valid(t: Trace) -> None:
    def age(state: Draft) -> dict[str, Any]:
        question = "How old are you?"
        while True:
            answer = t.lib.interrupt(question)
            if isinstance(answer, int) and answer > 0:
                return {"text": str(answer)}
            question = f"{answer!r} is not an age. How old are you?"

    graph = t.lib.StateGraph(Draft).add_node(age).add_edge(t.lib.START, "age")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"text": ""}, HERE)
    for answer in ("young", -3, 30):
        await t.invoke(app, t.lib.Command(resume=answer), HERE)
    await t.history(app, HERE)


@program()
async def an_approval_decides_the_way(t: Trace) -> None:
    def gate(state: Draft) -> Any:
        approved = t.lib.interrupt({"question": "Send it?", "text": state["text"]})
        return t.lib.Command(goto="send" if approved else "drop", update={"log": ["asked"]})

    def send(state: Draft) -> dict[str, Any]:
        return {"log": ["sent"]}

    def drop(state: Draft) -> dict[str, Any]:
        return {"log": ["dropped"]}

    graph = t.lib.StateGraph(Draft).add_node("gate", gate, destinations=("send", "drop"))
    graph.add_node(send).add_node(drop).add_edge(t.lib.START, "gate")
    app = graph.compile(checkpointer=await t.saver())
    for thread, answer in (("yes", True), ("no", False)):
        config = {"configurable": {"thread_id": thread}}
        await t.invoke(app, {"text": "hello"}, config)
        await t.invoke(app, t.lib.Command(resume=answer), config)
        await t.history(app, config)


async def two_reviewers(t: Trace) -> Any:
    def ann(state: Draft) -> dict[str, Any]:
        return {"log": ["ann: " + t.lib.interrupt("ann?")]}

    def bob(state: Draft) -> dict[str, Any]:
        return {"log": ["bob: " + t.lib.interrupt("bob?")]}

    def clerk(state: Draft) -> dict[str, Any]:
        return {"log": ["clerk"]}

    def close(state: Draft) -> dict[str, Any]:
        return {"text": "closed"}

    graph = t.lib.StateGraph(Draft).add_node(ann).add_node(bob).add_node(clerk).add_node(close)
    for name in ("ann", "bob", "clerk"):
        graph.add_edge(t.lib.START, name)
    graph.add_edge(["ann", "bob", "clerk"], "close")
    return graph.compile(checkpointer=await t.saver())


def ids(state: Any) -> dict[str, str]:
    return {i.value: i.id for i in state.interrupts}


@program()
async def parallel_questions_are_answered_by_id(t: Trace) -> None:
    app = await two_reviewers(t)
    await t.stream(app, {"text": ""}, HERE, stream_mode=["values", "updates"], parallel=True)
    state = await t.state(app, HERE)
    answers = {ids(state)["ann?"]: "fine", ids(state)["bob?"]: "good"}
    await t.stream(
        app,
        t.lib.Command(resume=answers),
        HERE,
        stream_mode=["values", "updates"],
        parallel=True,
    )
    await t.history(app, HERE)


@program()
async def parallel_questions_can_be_answered_one_by_one(t: Trace) -> None:
    app = await two_reviewers(t)
    await t.call(app, "invoke", {"text": ""}, HERE)
    state = await t.state(app, HERE)
    await t.invoke(app, t.lib.Command(resume={ids(state)["bob?"]: "good"}), HERE)
    state = await t.state(app, HERE)
    await t.invoke(app, t.lib.Command(resume="only one is left"), HERE)
    await t.history(app, HERE)


@program()
async def one_answer_for_several_questions_is_refused(t: Trace) -> None:
    app = await two_reviewers(t)
    await t.call(app, "invoke", {"text": ""}, HERE)
    await t.invoke(app, t.lib.Command(resume="to whom?"), HERE)
    await t.state(app, HERE)


@program()
async def an_answer_to_nobodys_question_is_refused(t: Trace) -> None:
    app = await one_question(t)
    await t.call(app, "invoke", {"text": "v1"}, HERE)
    result = await t.call(app, "invoke", t.lib.Command(resume={"0" * 32: "yes"}), HERE)
    t.differs(
        "an unknown id",
        isinstance(result, ValueError),
        ours=True,
        theirs=False,
    )
    await t.state(app, HERE)


@program()
async def an_edit_of_the_state_replaces_the_question(t: Trace) -> None:
    app = await one_question(t)
    await t.invoke(app, {"text": "v1"}, HERE)
    await t.update(app, HERE, {"text": "edited"})
    await t.state(app, HERE)
    await t.invoke(app, t.lib.Command(resume="ok"), HERE)
    await t.history(app, HERE)


@program()
async def an_edit_as_the_asking_node_answers_for_it(t: Trace) -> None:
    app = await one_question(t)
    await t.invoke(app, {"text": "v1"}, HERE)
    await t.update(app, HERE, {"text": "by hand"}, as_node="review")
    await t.state(app, HERE)
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program()
async def an_answer_may_come_with_an_update(t: Trace) -> None:
    app = await one_question(t)
    await t.invoke(app, {"text": "v1", "log": ["begun"]}, HERE)
    command = t.lib.Command(resume="v2", update={"log": ["answered by phone"]})
    await t.stream(app, command, HERE, stream_mode=["values", "updates"])
    await t.state(app, HERE)


async def checkpoints_at_nodes(t: Trace, **where: Any) -> Any:
    def write(state: Draft) -> dict[str, Any]:
        return {"text": "written", "log": ["write"]}

    def check(state: Draft) -> dict[str, Any]:
        return {"log": ["check"]}

    def send(state: Draft) -> dict[str, Any]:
        return {"log": ["send"]}

    graph = t.lib.StateGraph(Draft).add_sequence([write, check, send])
    graph.add_edge(t.lib.START, "write")
    return graph.compile(checkpointer=await t.saver(), **where)


@program()
async def a_breakpoint_before_a_node_pauses_there(t: Trace) -> None:
    app = await checkpoints_at_nodes(t, interrupt_before=["send"])
    await t.stream(app, {"text": ""}, HERE, stream_mode=["values", "updates"])
    await t.state(app, HERE)
    await t.stream(app, None, HERE, stream_mode=["values", "updates"])
    await t.history(app, HERE)


@program()
async def a_breakpoint_after_a_node_pauses_there(t: Trace) -> None:
    app = await checkpoints_at_nodes(t, interrupt_after=["write"])
    await t.invoke(app, {"text": ""}, HERE)
    await t.state(app, HERE)
    await t.update(app, HERE, {"text": "edited at the breakpoint"})
    await t.invoke(app, None, HERE)
    await t.history(app, HERE)


@program()
async def breakpoints_can_be_set_for_one_run(t: Trace) -> None:
    app = await checkpoints_at_nodes(t)
    await t.invoke(app, {"text": ""}, HERE, interrupt_before="*")
    for _ in range(3):
        await t.stream(app, None, HERE, interrupt_before="*", stream_mode=["values", "updates"])
        await t.state(app, HERE)
    await t.invoke(app, None, HERE, interrupt_after=["check"])
    await t.history(app, HERE)


@program(savers=("memory",))
async def a_question_inside_a_tool_can_edit_its_arguments(t: Trace) -> None:
    def transfer(amount: int) -> str:
        answer = t.lib.interrupt({"tool": "transfer", "amount": amount})
        if answer["action"] == "edit":
            amount = answer["amount"]
        elif answer["action"] == "reject":
            return "rejected"
        return f"transferred {amount}"

    def agent(state: Draft) -> dict[str, Any]:
        return {"log": [transfer(100)], "text": transfer(7)}

    graph = t.lib.StateGraph(Draft).add_node(agent).add_edge(t.lib.START, "agent")
    app = graph.compile(checkpointer=await t.saver())
    await t.invoke(app, {"text": ""}, HERE)
    await t.invoke(app, t.lib.Command(resume={"action": "edit", "amount": 50}), HERE)
    await t.invoke(app, t.lib.Command(resume={"action": "reject"}), HERE)


@program(savers=("memory",))
async def a_question_without_a_saver_still_ends_the_run(t: Trace) -> None:
    def ask(state: Draft) -> dict[str, Any]:
        return {"text": t.lib.interrupt("anyone?")}

    app = t.lib.StateGraph(Draft).add_node(ask).add_edge(t.lib.START, "ask").compile()
    result = await t.call(app, "invoke", {"text": ""})
    t.note("asked", [i.value for i in result["__interrupt__"]])
