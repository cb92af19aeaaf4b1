"""A driver for tests: performs a run's commands by hand, without threads, clock, randomness or saver."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from threadmark.checkpoint.base import CheckpointTuple, Commit, TaskCommit, checkpoint_config
from threadmark.pregel.body import Call, Sleep, execute
from threadmark.pregel.ids import Moment
from threadmark.pregel.rules import Task
from threadmark.pregel.run import Run
from threadmark.pregel.scope import Session, TaskScope
from threadmark.pregel.spec import Emit, Execute, Finished, Mark, Spec, Stop, Wait

__all__ = ["Driven", "drive_by_hand"]

Choose = Callable[[list[Task]], list[Task]]
"""Decides which of the running tasks finish next, and in which order."""


@dataclass
class Driven:
    """What became of a run.

    Attributes:
        commits: What it saved: checkpoint, metadata, writes by task.
        saved: The same as a saver would return it.
        shown: What it showed.
        run: The run.
        error: What it ended with.
    """

    run: Run
    commits: list[Any] = field(default_factory=list)
    saved: CheckpointTuple | None = None
    shown: list[Any] = field(default_factory=list)
    error: BaseException | None = None


def drive_by_hand(graph: Any, spec: Spec, choose: Choose, saved: CheckpointTuple | None = None) -> Driven:
    """Perform a run to its end."""
    spec.thread_id, spec.saves = "t", True
    spec.output_keys = graph.plan.output_keys
    run = Run(graph.plan, spec, saved)
    driven = Driven(run, saved=saved)
    session = Session({}, thread_id="t", run=run)
    running: list[Task] = []
    clock = 0
    steps = run.go()
    answer: Any = None
    try:
        while True:
            command: Any = steps.send(answer)
            answer = None
            if isinstance(command, Execute | Wait):
                running += command.tasks if isinstance(command, Execute) else []
                answer = [end(task, session) for task in choose(list(running))]
                for finished in answer:
                    running.remove(finished.task)
            elif isinstance(command, Stop):
                answer = [end(task, session) for task in running]
                running.clear()
            elif isinstance(command, Mark):
                clock += 1
                answer = Moment(clock, clock, (command.version or 0) + 1)
            elif isinstance(command, Emit):
                driven.shown += command.chunks
            else:
                keep(driven, command)
    except StopIteration:
        return driven
    except Exception as error:  # what a run raises is what we look at
        driven.error = error
        return driven


def keep(driven: Driven, commit: Commit | TaskCommit) -> None:
    """Save a commit as a saver would."""
    writes = [(w.task_id, channel, value) for w in commit.writes for channel, value in w.writes]
    if isinstance(commit, TaskCommit):
        assert driven.saved is not None
        assert driven.saved.pending_writes is not None
        driven.saved.pending_writes.extend(deepcopy(writes))
        return
    checkpoint = deepcopy(commit.checkpoint)
    driven.commits.append((checkpoint, dict(commit.metadata), commit.parent_id))
    config = checkpoint_config("t", commit.checkpoint_ns, checkpoint["id"])
    driven.saved = CheckpointTuple(config, checkpoint, commit.metadata, None, [])


def end(task: Task, session: Session) -> Finished:
    """Run a task to its end, here and now."""
    scope = TaskScope(session, task)
    leave = scope.enter()
    body = execute(task, scope)
    try:
        need: Any = next(body)
        while True:
            if isinstance(need, Sleep):
                need = body.send(None)
                continue
            assert isinstance(need, Call)
            try:
                answer = need.func.call(scope, need.value)
            except Exception as error:  # the task decides what becomes of it
                need = body.throw(error)
            else:
                need = body.send(answer)
    except StopIteration as stop:
        task.writes = stop.value
        return Finished(task)
    except Exception as error:
        return Finished(task, error)
    finally:
        leave()
