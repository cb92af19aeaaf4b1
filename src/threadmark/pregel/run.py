"""One run of a graph as a state machine: events in, commands out.

`Run.go` is a generator. It yields the commands of `spec.py` and is sent their answers; errors of a
command are thrown into it. It decides everything about a run: what to start, what to save and when, what
to show, when to pause. It has no clock, thread, randomness or I/O of its own, so the same events always
give the same run.

What is shown is shown only after what it shows was handed to storage: an acknowledged step is a saved one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from typing import Any, TypeAlias

from threadmark.channels.base import MISSING, SAME
from threadmark.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Commit,
    Kept,
    TaskCommit,
    TaskWrites,
    ThreadStatus,
)
from threadmark.config import RunnableConfig
from threadmark.constants import ERROR, INPUT, INTERRUPT
from threadmark.errors import (
    GraphInterrupt,
    GraphRecursionError,
    LeaseLostError,
    NodeCancelledError,
    StorageError,
    ThreadConflictError,
    ThreadDeletedError,
)
from threadmark.pregel import begin, ids, stream
from threadmark.pregel.plan import Channels, Plan
from threadmark.pregel.rules import Task, apply_writes, next_tasks, pauses, preview
from threadmark.pregel.saved import hydrate, writable
from threadmark.pregel.spec import (
    Command,
    Emit,
    Execute,
    Finished,
    Mark,
    Outcome,
    Spec,
    Stop,
    Wait,
    address,
)
from threadmark.pregel.stream import Chunk
from threadmark.types import Interrupt, StreamMode

__all__ = ["Run"]

Steps: TypeAlias = Generator[Command, Any, None]

NOT_OURS = (StorageError, ThreadConflictError, ThreadDeletedError, LeaseLostError)


class Run:
    """The state of one run.

    Args:
        plan: The graph.
        spec: What to do.
        saved: The checkpoint to start from, if there is one.

    Attributes:
        checkpoint: The current checkpoint; its id is that of the last superstep.
        channels: The live channels.
        step: The number of the superstep that runs or comes next.
        stop: The number of the first superstep that is not allowed any more.
        tasks: The tasks of the superstep; `None` when they must be found.
        done: The tasks of the superstep before it.
        begun: The run has taken its input, or what it goes on with.
        failed: The run has ended with an error since.
        tip: The last checkpoint that storage has taken.
        outcome: What the run came to, once it has ended.
        inside: Chunks of tasks that nodes have called, from any thread.
        called: With durability "exit": writes of such tasks that belong to the current checkpoint.
    """

    def __init__(self, plan: Plan, spec: Spec, saved: CheckpointTuple | None) -> None:
        self.plan = plan
        self.spec = spec
        self.saved = saved
        self.outcome = Outcome()
        state = hydrate(plan, saved)
        self.checkpoint = state.checkpoint
        self.channels = state.channels
        self.migrated = state.migrated
        self.changed: set[str] = set()
        self.version: Any = max(self.checkpoint["channel_versions"].values(), default=None)
        self.ticks = ids.ticks_of(self.checkpoint["id"])
        self.step = saved.metadata.get("step", -2) + 1 if saved is not None else -1
        self.stop = self.step + spec.recursion_limit + 1
        self.last_saved = self.tip = self.checkpoint["id"] or None
        self.source: Any = "loop"
        self.tasks: list[Task] | None = None
        self.done: list[Task] = []
        self.begun = self.failed = False
        self.unsaved: list[TaskWrites] = []
        self.names: dict[str, str] = {}
        self.shown: list[Chunk] = []
        self.inside: deque[Chunk] = deque()
        self.called: list[TaskWrites] = []
        self.parent_address: RunnableConfig | None = None
        self.holding = {k for k in plan.forgets if self.channels[k].value is not MISSING}
        self.modes = frozenset(spec.modes)
        self.outputs = {spec.output_keys} if isinstance(spec.output_keys, str) else set(spec.output_keys)

    # The course of a run

    def go(self) -> Steps:
        """Run to the end, to a pause, or to an error, of which the thread index is told."""
        try:
            yield from self.course()
        except GeneratorExit:
            raise
        except BaseException as error:
            if self.begun and self.spec.saves:
                yield from self.record_failure(error)
            raise

    def course(self) -> Steps:
        """Run to the end, to a pause, or to an error; with durability "exit", save what came of it."""
        try:
            yield from begin.begin(self)
            self.begun = True
            while not self.outcome.paused and (yield from self.superstep()):
                pass
        except GeneratorExit:
            raise
        except BaseException:
            if self.spec.durability == "exit" and self.spec.saves:
                self.failed = self.begun
                yield from self.keep()
            raise
        if self.spec.durability == "exit":
            yield from self.keep()
        if not self.outcome.paused:
            self.outcome.output = stream.read_values(self.channels, self.spec.output_keys)
        yield from self.flush()

    def superstep(self) -> Generator[Command, Any, bool]:
        """Run one superstep; tell whether the run goes on."""
        if self.step > self.stop:
            raise GraphRecursionError(
                f"The run took more than {self.spec.recursion_limit} supersteps without coming to an end. "
                f"Check the graph for a loop, or raise config={{'recursion_limit': ...}}."
            )
        tasks = self.find_tasks()
        if not tasks:
            return False
        spec = self.spec
        if spec.interrupt_before and pauses(self.checkpoint, spec.interrupt_before, tasks):
            yield from self.pause_at_breakpoint()
            return False
        yield from self.run_tasks(tasks)
        for task in tasks:
            if task.writes is None:
                yield from self.pause(tasks)
                return False
        yield from self.finish_step(tasks)
        if spec.interrupt_after and pauses(self.checkpoint, spec.interrupt_after, tasks):
            yield from self.pause_at_breakpoint()
            return False
        return True

    def find_tasks(self, news: set[str] | None = None) -> list[Task]:
        """Return the tasks of the superstep to come."""
        if self.tasks is None:
            seed = (self.checkpoint["id"], self.spec.ns, self.step)
            self.tasks = next_tasks(self.plan, self.checkpoint, self.channels, seed, news)
        return self.tasks

    def finish_step(self, tasks: list[Task]) -> Steps:
        """Apply the writes of finished tasks, save the new checkpoint, and show it."""
        moment = (yield Mark(self.version)) if self.spec.saves else None
        self.apply(tasks, self.step, moment)
        self.done = tasks
        if self.spec.saves:
            yield from self.commit("loop")
        if self.modes:
            if self.values_changed(tasks):
                self.show_values()
            self.show_checkpoint()
            yield from self.flush()

    # Tasks

    def run_tasks(self, tasks: list[Task]) -> Steps:
        """Run the tasks that have no writes yet, and save what finishes before the others."""
        todo = [task for task in tasks if task.writes is None and not task.stalled]
        self.announce(tasks)
        if not todo:
            return
        if self.shown:
            yield from self.flush()
        running = set(todo)
        failed: Task | None = None
        command: Command = Execute(todo)
        try:
            while True:
                finished: list[Finished] = yield command
                for event in finished:
                    running.discard(event.task)
                    failed = self.hear(event) or failed
                if not running and failed is None:
                    break
                yield from self.save_finished()
                if failed is not None and not running:
                    yield from self.fail(failed)
                yield from self.flush()
                command = Stop(patient=True) if failed else Wait()
        except GeneratorExit:
            raise
        except BaseException:
            # Cancelled, left, overtaken or unable to save: whatever it is, no task may be left running.
            if running:
                yield from self.cut_short()
            raise

    def cut_short(self) -> Steps:
        """Stop what runs because the run is cancelled, and save a record of it."""
        for event in (yield Stop()):
            self.hear(event)
        yield from self.save_finished()

    def announce(self, tasks: list[Task]) -> None:
        """Give the tasks their inputs and show that they begin."""
        managed = self.managed()
        for task in tasks:
            if task.send is not None:
                arg = task.send.arg
                task.input = arg if task.node.coerce is None else task.node.coerce(arg)
            else:
                task.input = task.node.read(self.channels, managed)
            if not self.modes or task.node.hidden:
                continue
            self.show_task("task", stream.task_start(task))
            if task.writes is not None:
                self.show("updates", stream.update_chunk(task, self.spec.output_keys))

    def managed(self) -> Mapping[str, Any]:
        """Return the computed values of the superstep."""
        computed = self.plan.managed
        return {k: value(self.step, self.stop) for k, value in computed.items()} if computed else computed

    def hear(self, event: Finished) -> Task | None:
        """Take note of a task that came to its end; return it if it failed."""
        task, error = event
        while self.inside:
            self.shown.append(self.inside.popleft())
        if self.spec.saves:
            self.names[task.id] = task.name
        if error is None:
            task.error, task.interrupts = None, ()
            if self.spec.saves:
                self.unsaved.append(task.saved_writes)
            if self.modes and not task.node.hidden:
                self.show("updates", stream.update_chunk(task, self.spec.output_keys))
                if not task.cached:
                    self.show_task("task_result", stream.task_end(self.plan.state_keys, task))
            return None
        if isinstance(error, GraphInterrupt):
            task.interrupts = tuple(error.interrupts)
            self.unsaved.append(TaskWrites(*task.saved_writes[:2], [(INTERRUPT, list(error.interrupts))]))
            self.show_pause(task.interrupts, inside=not task.interrupts)
            self.show_task("task_result", stream.task_end(self.plan.state_keys, task))
            return None
        task.error = error
        self.unsaved.append(TaskWrites(*task.saved_writes[:2], [(ERROR, error)]))
        self.show_task("task_result", stream.task_end(self.plan.state_keys, task))
        # A task that was stopped because another one failed is not the one to blame.
        return None if isinstance(error, NodeCancelledError) else task

    def fail(self, task: Task) -> Steps:
        """End the run with the error of a task."""
        yield from self.flush()
        error = task.error
        assert error is not None
        error.add_note(f"During task {task.name!r} with id {task.id!r}.")
        raise error

    # Pauses

    def pause(self, tasks: list[Task]) -> Steps:
        """Stop at the questions of this superstep's tasks."""
        for task in tasks:
            if task.stalled:
                self.show_pause(tuple(task.unanswered()))
        yield from self.save_finished()
        self.outcome.interrupts = tuple(i for task in tasks if task.writes is None for i in task.interrupts)
        finished = [write for task in tasks for write in task.writes or ()]
        channels = preview(self.channels, finished) if finished else self.channels
        self.outcome.output = stream.read_values(channels, self.spec.output_keys)
        if finished:
            self.show("values", self.outcome.output)
        self.outcome.paused = True

    def pause_at_breakpoint(self) -> Steps:
        """Stop before or after a node that `interrupt_before` or `interrupt_after` names."""
        if not self.spec.nested:
            self.show("updates", {INTERRUPT: ()})
        self.outcome.output = stream.read_values(self.channels, self.spec.output_keys)
        self.outcome.paused = True
        yield from self.flush()

    # Storage

    def mark(self) -> Generator[Command, Any, ids.Moment | None]:
        """Ask for the time and the next version, if there is a saver to tell it to."""
        return (yield Mark(self.version)) if self.spec.saves else None

    def apply(self, tasks: list[Task], step: int, moment: ids.Moment | None) -> None:
        """Apply writes, and make the current checkpoint the one of superstep `step`."""
        self.version = (self.version or 0) + 1 if moment is None else moment.version
        backup = self.backup() if self.spec.durability == "exit" else None
        try:
            changed, news = apply_writes(
                self.plan, self.checkpoint, self.channels, tasks, self.version, self.holding
            )
        except BaseException:
            if backup is not None:
                self.checkpoint, self.channels = backup
            raise
        self.changed |= changed
        if self.migrated:
            self.checkpoint["channel_versions"].update(dict.fromkeys(self.migrated, self.version))
            self.changed |= self.migrated
            self.migrated = set()
        if moment is not None:
            self.checkpoint["updated_channels"] = sorted(news)
            self.set_identity(moment, step)
        self.step = step + 1
        self.tasks = None
        self.called = []
        self.find_tasks(news)

    def values_changed(self, tasks: list[Task]) -> bool:
        """Tell whether the tasks of a superstep wrote to the output."""
        return any(c in self.outputs for task in tasks for c, _ in task.writes or ())

    def set_identity(self, moment: ids.Moment, step: int) -> None:
        """Give the current checkpoint a new id and time."""
        self.ticks = max(moment.ticks, self.ticks + 1)
        self.checkpoint["id"] = ids.checkpoint_id(self.ticks, step, moment.random)
        self.checkpoint["ts"] = ids.timestamp(self.ticks)

    def backup(self) -> tuple[Checkpoint, Channels]:
        """Return a copy of where the run stands, for a superstep whose writes cannot be applied."""
        return writable(self.checkpoint), {k: c.copy() for k, c in self.channels.items()}

    def commit(self, source: str) -> Steps:
        """Save the current checkpoint, unless that waits for the end of the run."""
        self.source = source
        if self.spec.durability == "exit":
            self.unsaved = []
        elif self.spec.saves:
            yield self.take_commit()
            self.tip = self.last_saved

    def take_commit(self) -> Commit:
        """Return the current checkpoint and the writes that led to it in the form in which they are saved.
        From here on they count as saved: if that fails, the run ends.
        """
        spec, checkpoint, channels, changed = self.spec, self.checkpoint, self.channels, self.changed
        values = checkpoint["channel_values"]
        new: ChannelVersions = {}
        kept: dict[str, Kept] = {}
        cleared: list[str] = []
        for name, version in checkpoint["channel_versions"].items():
            if name not in changed:
                continue
            new[name] = version
            channel = channels[name]
            value = channel.checkpoint()
            if value is MISSING:
                values.pop(name, None)
                cleared.append(name)
            else:
                values[name] = value
                if type(value) is list and channel.kept:
                    kept[name] = channel.kept
            channel.kept = SAME
        commit = Commit(
            spec.thread_id or "",
            spec.ns,
            self.last_saved,
            checkpoint,
            self.metadata(self.step - 1),
            new,
            self.unsaved if self.last_saved else (),
            kept=kept,
            cleared=cleared,
            durability=spec.durability,
            nodes=self.names,
            status=self.status(),
        )
        self.last_saved = checkpoint["id"]
        self.changed = set()
        self.unsaved = []
        self.names = {}
        return commit

    def status(self) -> ThreadStatus:
        """Return what the thread index shows once the current checkpoint is saved."""
        if self.failed:
            return "failed"
        tasks = self.find_tasks()
        if not tasks:
            return "idle"
        before, after = self.spec.interrupt_before, self.spec.interrupt_after
        if before and pauses(self.checkpoint, before, tasks):
            return "paused"
        return "paused" if after and pauses(self.checkpoint, after, self.done) else "running"

    def metadata(self, step: int) -> CheckpointMetadata:
        """Return the metadata of the current checkpoint."""
        metadata: dict[str, Any] = {"source": self.source, "step": step, "parents": dict(self.spec.parents)}
        if self.plan.named:
            metadata["graph"] = self.plan.name
        if self.plan.version != 1:
            metadata["state_version"] = self.plan.version
        if self.spec.metadata:
            metadata.update(self.spec.metadata)
        return metadata  # type: ignore[return-value]

    def save_finished(self) -> Steps:
        """Save the writes of finished tasks while others still run, or because the run stops here."""
        if not self.spec.saves:
            self.unsaved = []
        elif self.unsaved and self.spec.durability != "exit":
            yield self.task_commit(self.unsaved)
            self.unsaved = []

    def task_commit(self, writes: list[TaskWrites]) -> TaskCommit:
        """Return writes of tasks in the form in which they are saved under the current checkpoint."""
        return TaskCommit(
            thread_id=self.spec.thread_id or "",
            checkpoint_ns=self.spec.ns,
            checkpoint_id=self.checkpoint["id"],
            writes=writes,
            durability=self.spec.durability,
            nodes=self.names,
        )

    def keep(self) -> Steps:
        """With durability "exit": save where the run stands, and the writes of its last tasks."""
        if self.changed or self.checkpoint["id"] != (self.last_saved or ""):
            pending, self.unsaved = self.unsaved, []
            yield self.take_commit()
            self.tip, self.unsaved = self.last_saved, pending
        current = {task.id for task in self.tasks or ()}
        writes = [*self.called, *(w for w in self.unsaved if w.task_id in current)]
        if writes:
            yield self.task_commit(writes)
        self.unsaved = []

    def record_failure(self, error: BaseException) -> Steps:
        """Save that the run has failed, unless an error of a task says so already. A thread that somebody
        else has moved on is not this run's to judge.
        """
        told = any(task.error is not None for task in self.tasks or ())
        if self.tip is None or told or self.spec.nested or isinstance(error, NOT_OURS):
            return
        commit = self.task_commit([])
        commit.checkpoint_id, commit.status = self.tip, "failed"
        try:
            yield commit
        except Exception as failure:  # noqa: BLE001 - what ended the run matters more
            error.add_note(f"That the run has failed could not be saved: {failure}")

    # Streams

    def show(self, mode: StreamMode, data: Any, interrupts: tuple[Interrupt, ...] = ()) -> None:
        """Put a chunk in line, if somebody listens to its mode."""
        if mode in self.modes:
            self.shown.append(Chunk(self.spec.ns, mode, data, interrupts))

    def flush(self) -> Steps:
        """Send the chunks that are in line."""
        if self.shown:
            chunks, self.shown = self.shown, []
            yield Emit(chunks)

    def show_values(self, interrupts: tuple[Interrupt, ...] = ()) -> None:
        """Show the output channels."""
        if "values" in self.modes:
            self.show("values", stream.read_values(self.channels, self.spec.output_keys), interrupts)

    def show_pause(self, interrupts: tuple[Interrupt, ...], inside: bool = False) -> None:
        """Show questions as they come up.

        Args:
            interrupts: The questions.
            inside: A breakpoint inside a sub-graph was reached: only the outermost graph shows it.
        """
        if inside and self.spec.nested:
            return
        self.show("updates", {INTERRUPT: interrupts})
        if not inside:
            self.show_values(interrupts)

    def show_task(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Show the beginning or the end of a task."""
        self.show("tasks", payload)
        if "debug" in self.modes:
            self.show("debug", stream.debug_chunk(self.step, kind, payload))

    def show_checkpoint(self) -> None:
        """Show the current checkpoint."""
        if not self.spec.saves or not self.modes & {"checkpoints", "debug"}:
            return
        payload = stream.checkpoint_chunk(
            self.plan,
            self.channels,
            self.address(self.checkpoint["id"]),
            self.parent_address,
            self.metadata(self.step - 1),
            self.find_tasks(),
        )
        self.parent_address = payload["config"]
        self.show("checkpoints", payload)
        if "debug" in self.modes:
            self.show("debug", stream.debug_chunk(self.step - 1, "checkpoint", payload))

    def address(self, checkpoint_id: str) -> RunnableConfig:
        """Return the config of one of this run's checkpoints."""
        return address(self.spec.thread_id or "", self.spec.ns, checkpoint_id, self.spec.parents)

    def seen_input(self) -> None:
        """Note in the checkpoint that an input came in."""
        self.checkpoint["versions_seen"].setdefault(INPUT, {})
