"""How a run begins: with new input, by going on, with answers and commands, or as a fork of the past.

Part of the state machine in `run.py`: these functions change a `Run` and yield its commands.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from threadmark._checks import shown
from threadmark.checkpoint.base import TaskWrites
from threadmark.constants import END, INTERRUPT, NULL_TASK_ID, RESUME, START, TASKS
from threadmark.errors import (
    EmptyInputError,
    InvalidUpdateError,
    MultipleInterruptsError,
    UnknownInterruptError,
)
from threadmark.pregel.plan import Plan, Write
from threadmark.pregel.rules import Task, match_writes
from threadmark.pregel.saved import forget_lost, home, refuse_lost_nodes
from threadmark.pregel.spec import Command as DriverCommand
from threadmark.types import Command, Send

if TYPE_CHECKING:
    from threadmark.pregel.run import Run

__all__ = ["begin", "command_writes"]

Steps: TypeAlias = Generator[DriverCommand, Any, None]


def begin(run: Run) -> Steps:
    """Bring a run to the point where its first superstep can start."""
    given = run.spec.input
    if run.saved is not None and continues(run, given):
        yield from go_on(run, given)
    elif isinstance(given, Command):
        yield from start_with_command(run, given)
    elif given is None:
        raise EmptyInputError(
            "There is nothing to go on with: the thread is empty, or there is no checkpointer. Pass an input."
        )
    else:
        yield from take_input(run, given)


def continues(run: Run, given: Any) -> bool:
    """Tell whether a run goes on from its checkpoint rather than taking an input."""
    if not run.spec.nested:
        return given is None or isinstance(given, Command)
    # A namespace without a counter of its own belongs to one task: whatever is there is its own work.
    # A lasting one is continued only if what it holds was begun by the same superstep of the parent.
    assert run.saved is not None
    same_step = run.saved.metadata.get("parents") == dict(run.spec.parents)
    return not run.spec.lasting or same_step


# New input


def take_input(run: Run, given: Any) -> Steps:
    """Begin with an input: what was unfinished is given up, but nothing that had finished is lost."""
    value = run.plan.trim(given)
    abandoned = give_up(run) if run.saved is not None else []
    yield from enter(run, value, abandoned)


def enter(run: Run, value: Any, abandoned: Sequence[Task] = ()) -> Steps:
    """Hand a value to the hidden first node, and save that."""
    inputs = Task(input_node(run), (), (), ("", "", 0), writes=[(run.plan.input_channel, value)])
    run.seen_input()
    run.apply([*abandoned, inputs], run.step, (yield from run.mark()))
    run.unsaved = []
    yield from run.commit("input")
    run.show_checkpoint()


def input_node(run: Run) -> Any:
    """Return a node to stand for whoever passed the input."""
    return run.plan.nodes.get(START) or next(iter(run.plan.nodes.values()))


def give_up(run: Run) -> list[Task]:
    """Return the unfinished superstep as tasks that only consume their triggers. Of tasks that had
    finished, the writes to the state are kept; what they would have woken is not.
    """
    forget_lost(run.plan, run.checkpoint)
    tasks = run.find_tasks()
    # What followed a checkpoint of the past belongs to another branch.
    loose = match_writes(tasks, pending(run) if run.spec.at_tip else (), run.plan.renames)
    for task in tasks:
        task.writes = [(c, v) for c, v in task.writes or () if c not in run.plan.triggered and c != TASKS]
        task.cached = False
    kept = [(c, v) for c, v in loose if c in run.channels and c not in run.plan.triggered and c != TASKS]
    return [*tasks, null_task(run, kept)] if kept else tasks


def pending(run: Run) -> list[tuple[str, str, Any]]:
    """Return the writes that are saved under the loaded checkpoint, as this graph names its channels."""
    saved = (run.saved.pending_writes if run.saved is not None else None) or ()
    return [(task_id, home(run.plan, channel), value) for task_id, channel, value in saved]


def null_task(run: Run, writes: list[Write]) -> Task:
    """Return writes that come from no node in the form of a task."""
    return Task(input_node(run), (), (), ("", "", 0), writes=writes, _id=NULL_TASK_ID)


# Going on


def go_on(run: Run, given: Any) -> Steps:
    """Begin where the loaded checkpoint stands."""
    # Of a new run's allowance two supersteps go to the input and the hidden first node.
    run.stop -= 2
    command = given if isinstance(given, Command) else Command()
    saved = pending(run)
    refuse_lost_nodes(run.plan, run.checkpoint, [c for _, c, _ in saved] if run.spec.at_tip else ())
    pass_breakpoints(run)
    tasks = run.find_tasks()
    loose = match_writes(tasks, saved, run.plan.renames)
    answers = dict(run.spec.answers)
    run.parent_address = run.saved.parent_config if run.saved is not None else None
    if run.spec.nested:
        adopt_answer(run, tasks, answers)
    elif command.resume is not None:
        answers = {} if ask_anew(run, tasks, command.resume) else read_answers(command.resume, tasks)
    if run.spec.saves and (run.spec.copies or not run.spec.at_tip):
        yield from fork(run)
        carried: list[Task] = []
        if answers or command.resume is not None:
            carried = carry_over(tasks, run.find_tasks(), answers)
        tasks, loose = run.find_tasks(), []
        yield from save_answers(run, carried)
    yield from give_answers(run, tasks, answers)
    run.spec.answers = answers
    yield from take_update(run, command, loose)
    run.show_values()
    run.show_checkpoint()


def pass_breakpoints(run: Run) -> None:
    """Note that the run has been stopped where it stands, so that it does not stop there again."""
    run.checkpoint["versions_seen"][INTERRUPT] = dict(run.checkpoint["channel_versions"])


def ask_anew(run: Run, tasks: list[Task], resume: Any) -> bool:
    """Hand an answer to the one task of an edited state. The edit has taken the question away; the task asks
    it again, and the answer is meant for that.
    """
    edited = run.saved is not None and run.saved.metadata.get("source") in ("update", "fork")
    if not edited or len(tasks) != 1 or tasks[0].interrupts or tasks[0].writes is not None:
        return False
    tasks[0].answers = [resume]
    return True


def adopt_answer(run: Run, tasks: list[Task], answers: dict[str, Any]) -> None:
    """Take the answer to a question of this sub-graph that an edit of its state has taken away."""
    stale = [i for i in run.spec.asked_before if i in answers]
    if len(stale) == 1:
        ask_anew(run, tasks, answers[stale[0]])


def read_answers(resume: Any, tasks: list[Task]) -> dict[str, Any]:
    """Return the answers of `Command(resume=...)` by interrupt id.

    Raises:
        UnknownInterruptError: An id is not pending, or nothing is.
        MultipleInterruptsError: One answer, several questions.
    """
    unfinished = [i for task in tasks if task.writes is None for i in task.interrupts]
    waiting = [i.id for task in tasks for i in task.unanswered()] or [i.id for i in unfinished]
    known = {i.id for i in unfinished}
    if isinstance(resume, dict) and resume and all(map(is_question_id, resume)):
        unknown = [i for i in resume if i not in known]
        if unknown:
            raise UnknownInterruptError(unknown, sorted(known))
        return dict(resume)
    if not waiting:
        raise UnknownInterruptError([], [])
    if len(waiting) > 1:
        raise MultipleInterruptsError(waiting)
    return {waiting[0]: resume}


def is_question_id(key: Any) -> bool:
    """Tell whether a key of a resume map can only be an interrupt id: 32 hexadecimal digits."""
    return isinstance(key, str) and len(key) == 32 and not set(key) - set("0123456789abcdef")


def give_answers(run: Run, tasks: list[Task], answers: Mapping[str, Any]) -> Steps:
    """Give each task the answers to its own questions, and save them; hold back tasks that got none."""
    yield from save_answers(run, [t for t in tasks if t.writes is None and answer_task(t, answers)])


def save_answers(run: Run, tasks: list[Task]) -> Steps:
    """Save the answers that tasks have."""
    saves = [TaskWrites(*task.saved_writes[:2], [(RESUME, task.answers)]) for task in tasks]
    if saves and run.spec.saves:
        yield run.task_commit(saves)


def answer_task(task: Task, answers: Mapping[str, Any]) -> bool:
    """Give an unfinished task the answers to its own questions, and tell whether it got any. It is held back
    if there are answers, but none for it or for what runs inside it.
    """
    if place_answers(task, answers):
        return True
    if answers and task.unanswered() and not any(i.id in answers for i in task.interrupts):
        task.stalled = True
    return False


def place_answers(task: Task, answers: Mapping[str, Any]) -> bool:
    """Put answers to a task's own questions in their places. The answer to a question that was answered
    before replaces the earlier one: the task has not finished, so nothing has used it yet.
    """
    placed = False
    for question in task.interrupts:
        for index in range(len(task.answers) + 1):
            if question.id in answers and task.question_id(index) == question.id:
                task.answers = [*task.answers[:index], answers[question.id], *task.answers[index + 1 :]]
                placed = True
                break
    return placed


def carry_over(old: list[Task], new: list[Task], answers: dict[str, Any]) -> list[Task]:
    """Hand the answers that were given for unfinished tasks of the past to the same tasks of a fork; return
    those that have any.
    """
    by_path = {task.path: task for task in new}
    for task in old:
        copy = by_path.get(task.path)
        if copy is not None and task.writes is None:
            copy.former = task
            for question in carry_answers(task, copy, answers):
                del answers[question]
    return [task for task in new if task.answers]


def carry_answers(old: Task, new: Task, answers: Mapping[str, Any]) -> list[str]:
    """Hand the answers that an unfinished task of the past has, and those that it is given now, to the same
    task of a fork; return the ids of the questions that are answered now.
    """
    new.answers = list(old.answers)
    found = []
    for index in range(len(old.answers) + 1):
        question = old.question_id(index)
        if question in answers:
            new.answers = [*old.answers[:index], answers[question]]
            found.append(question)
    return found


def fork(run: Run) -> Steps:
    """Continue from the past: copy the loaded checkpoint, so that what follows hangs on the copy."""
    if run.spec.copies:
        run.last_saved = None
        run.changed = set(run.checkpoint["channel_versions"]) & run.channels.keys()
    moment = yield from run.mark()
    assert moment is not None
    run.version = moment.version
    run.set_identity(moment, run.step)
    run.checkpoint["updated_channels"] = None
    run.step += 1
    run.tasks = None
    run.find_tasks()
    if run.saved is not None:
        run.parent_address = run.saved.config
    yield from run.commit("fork")


def take_update(run: Run, command: Command[Any], loose: list[Write]) -> Steps:
    """Apply writes that come from no node: those saved earlier, and those of the command."""
    fresh = list(command_writes(run.plan, command))
    writes = [*loose, *fresh]
    if not writes:
        return
    tasks = run.tasks
    if run.spec.saves and fresh and tasks:
        yield run.task_commit([TaskWrites(NULL_TASK_ID, "", writes)])
    identity = run.checkpoint["id"], run.checkpoint["ts"], run.step
    finished = {task.path: task for task in tasks or ()}
    run.apply([null_task(run, writes)], run.step, (yield from run.mark()))
    pass_breakpoints(run)
    if not tasks and fresh and run.spec.saves:
        # Nothing is pending, so the update gets a checkpoint of its own.
        yield from run.commit("update")
        return
    run.checkpoint["id"], run.checkpoint["ts"], run.step = identity
    run.tasks = None
    run.tasks = [finished.get(task.path, task) for task in run.find_tasks()]


def start_with_command(run: Run, command: Command[Any]) -> Steps:
    """Begin a new thread with a command: its update is the input, and where it goes is gone to beside the
    graph's first nodes.
    """
    if command.resume is not None:
        raise UnknownInterruptError([], [])
    command_writes(run.plan, command)
    if command.update is None and not command.goto:
        raise EmptyInputError(
            "The command holds neither an update nor a goto, and the thread is empty. Pass an input."
        )
    yield from enter(run, command)


def command_writes(plan: Plan, command: Command[Any]) -> list[Write]:
    """Return the writes of a command that a run is given.

    Raises:
        InvalidUpdateError: It is for a parent graph, or names a node that does not exist.
    """
    if command.graph is not None:
        raise InvalidUpdateError("There is no parent graph: this run is the outermost one.")
    writes: list[Write] = []
    if command.update is not None:
        writes += plan.updates(command.update)
    targets = [command.goto] if isinstance(command.goto, str | Send) else command.goto
    if not isinstance(targets, Sequence):
        raise InvalidUpdateError(f"goto={shown(targets)} names no node. Name one, or pass a Send.")
    nodes = [name for name in sorted(plan.nodes) if f"branch:to:{name}" in plan.channels]
    for target in targets:
        name = target.node if isinstance(target, Send) else target
        if name == END and nodes:
            continue
        if name not in nodes:
            raise InvalidUpdateError(
                f"goto={shown(name)} names no node. Nodes: {', '.join(nodes) or 'none'}."
            )
        writes.append((TASKS, target) if isinstance(target, Send) else (f"branch:to:{name}", START))
    return writes
