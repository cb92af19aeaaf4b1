"""From the arguments of `invoke` and its kin to a `Spec` and a `Session`.

Here it is decided whether a run stands alone or belongs to a task of another graph, which namespace it
saves to, and which checkpoint it starts from. Everything a caller can get wrong is refused here, before
anything is read or written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, Loaded
from threadmark.checkpoint.branches import unknown_branch
from threadmark.config import RunnableConfig, current_scope
from threadmark.errors import CheckpointNotFoundError, InvalidArgumentError
from threadmark.pregel.called import Calls
from threadmark.pregel.given import (
    check_options,
    check_place,
    count,
    known_checkpoints,
    merged,
    namespace_of,
    output_keys,
    owner,
    stops,
)
from threadmark.pregel.known import known_types
from threadmark.pregel.run import Run
from threadmark.pregel.scope import Session, TaskScope, thread_of
from threadmark.pregel.spec import Spec
from threadmark.types import All, Command, Durability, OnConflict

if TYPE_CHECKING:
    from threadmark.pregel.main import Pregel

__all__ = ["Launch", "Options", "launch", "saver_for"]

ADDRESS = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
DEFAULT_RECURSION_LIMIT = 10_007
FACTS = "langgraph_"
MAIN = "main"


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The arguments of a run beside input and config, as `invoke` and `stream` document them."""

    context: Any = None
    modes: frozenset[str] = frozenset()
    output_keys: str | Sequence[str] | None = None
    interrupt_before: All | Sequence[str] | None = None
    interrupt_after: All | Sequence[str] | None = None
    durability: Durability | None = None
    on_conflict: OnConflict | None = None
    subgraphs: bool = False
    version: str = "v1"


@dataclass(slots=True)
class Launch:
    """A run that is ready to be loaded.

    Attributes:
        spec: What to do.
        session: The surroundings.
        address: The config to load from, when there is a saver.
        from_past: The caller named a checkpoint, so it may not be the tip.
        on_conflict: What to do when another run works on the thread.
    """

    spec: Spec
    session: Session
    address: RunnableConfig = field(default_factory=RunnableConfig)
    from_past: bool = False
    on_conflict: OnConflict = "raise"

    @property
    def leases_from(self) -> BaseCheckpointSaver[Any] | None:
        """Where to wait for a lease; a sub-graph works under the lease of the graph around it."""
        return None if self.spec.nested else self.session.saver

    def run(self, graph: Pregel, loaded: Loaded | None, tip: str | None) -> Run:
        """Return the state machine, given what was loaded and the id of the branch's tip.

        Raises:
            CheckpointNotFoundError: The checkpoint that the caller named is not there.
        """
        saved = loaded.saved if loaded is not None else None
        wanted = self.address.get("configurable", {}).get("checkpoint_id")
        if wanted and saved is None:
            raise CheckpointNotFoundError(self.session.thread_id or "", wanted)
        refuse_unknown_branch(self.address, saved)
        self.spec.at_tip = saved is None or not wanted or saved.checkpoint["id"] == tip
        run = Run(graph.plan, self.spec, saved)
        self.session.run = run
        self.session.calls = Calls(self.session)
        return run


def refuse_unknown_branch(address: RunnableConfig, saved: CheckpointTuple | None) -> None:
    """Refuse to read from, or go on with, a branch that is not there: it would begin a thread of its own.

    Raises:
        InvalidArgumentError: The branch was named and is not there.
    """
    configurable = address.get("configurable", {})
    name = configurable.get("branch")
    if name is not None and name != MAIN and saved is None:
        raise InvalidArgumentError(unknown_branch(name, configurable["thread_id"]))


def launch(graph: Pregel, given: Any, config: RunnableConfig | None, options: Options) -> Launch:
    """Prepare a run.

    Raises:
        InvalidArgumentError: An argument is wrong, or the thread is not named.
    """
    outer = enclosing(config)
    check_options(options)
    durability = options.durability or (outer.session.durability if outer else None) or "async"
    check_command(given, nested=outer is not None)
    if outer is not None:
        return launch_nested(graph, given, config, options, outer, durability)
    return launch_root(graph, given, config, options, durability)


def enclosing(config: RunnableConfig | None) -> TaskScope | None:
    """Return the task that a run belongs to: the running one, unless the caller names another thread."""
    scope = current_scope()
    if not isinstance(scope, TaskScope):
        return None
    own = thread_of(config) if config else None
    return scope if own is None or own == scope.session.thread_id else None


def check_command(given: Any, *, nested: bool) -> None:
    """Refuse a command whose parts make no sense as the input of a run."""
    if isinstance(given, Command) and nested and given.resume is not None:
        raise InvalidArgumentError("Answers are given to the outermost graph, not to a sub-graph.")


def saver_for(graph: Pregel, outer: TaskScope | None) -> BaseCheckpointSaver[Any] | None:
    """Return the saver that a run uses: the graph's own, or that of the graph around it.

    Raises:
        InvalidArgumentError: A graph that stands alone has no saver of its own but asks for one.
    """
    own = graph.checkpointer
    if isinstance(own, BaseCheckpointSaver):
        return own
    if own is False:
        return None
    if outer is not None:
        return outer.session.saver
    if own is True:
        raise InvalidArgumentError("checkpointer=True is for sub-graphs. Give the outermost graph a saver.")
    return None


def launch_root(
    graph: Pregel, given: Any, config: RunnableConfig | None, options: Options, durability: Durability
) -> Launch:
    """Prepare a run that stands alone."""
    full = merged(graph.config, config)
    around = current_scope()
    if isinstance(around, TaskScope):
        full = without_place(full, around)
    saver = saver_for(graph, None)
    configurable = full.get("configurable") or {}
    thread_id = thread_of(full)
    if saver is not None and thread_id is None:
        raise InvalidArgumentError(
            "A graph with a checkpointer needs to know the thread: pass "
            "config={'configurable': {'thread_id': ...}}."
        )
    spec = new_spec(graph, given, full, options, durability)
    session = new_session(graph, full, options, durability, None)
    result = Launch(spec, session, on_conflict=options.on_conflict or graph.on_conflict)
    if saver is not None:
        assert thread_id is not None
        spec.saves, spec.thread_id = True, thread_id
        session.saver, session.thread_id = saver.with_known_types(known_types(graph.plan)), thread_id
        check_place(configurable)
        owner(graph, namespace_of(configurable))
        result.address = root_address(thread_id, configurable, session)
        result.from_past = "checkpoint_id" in result.address["configurable"]
    return result


def root_address(thread_id: str, configurable: Mapping[str, Any], session: Session) -> RunnableConfig:
    """Return the config to load a root graph from. A config that names a checkpoint of a sub-graph also
    names that of the root, and notes which checkpoint the sub-graph is to go on from.
    """
    ns, checkpoint_id = namespace_of(configurable), configurable.get("checkpoint_id")
    address = {"thread_id": thread_id, "checkpoint_ns": ""}
    if "branch" in configurable:
        address["branch"] = configurable["branch"]
    if ns:
        known = known_checkpoints(configurable)
        if checkpoint_id and "" not in known:
            raise InvalidArgumentError(
                "This config names a checkpoint of a sub-graph but not of the graph around it. Take the "
                "config from get_state(..., subgraphs=True), or from the sub-graph's own history."
            )
        session.replays = {plain(n): (n, c) for n, c in known.items() if n and c}
        if checkpoint_id:
            session.replays[plain(ns)] = (ns, checkpoint_id)
        checkpoint_id = known.get("")
    if checkpoint_id:
        address["checkpoint_id"] = checkpoint_id
    return {"configurable": address}


def plain(ns: str) -> str:
    """Return a namespace without the task ids, which a fork does not share with its past."""
    return "|".join(part.partition(":")[0] for part in ns.split("|"))


def launch_nested(
    graph: Pregel,
    given: Any,
    config: RunnableConfig | None,
    options: Options,
    outer: TaskScope,
    durability: Durability,
) -> Launch:
    """Prepare a run that belongs to a task of another graph."""
    around = outer.session
    full = merged(merged(around.config, graph.config), config)
    full["configurable"] = {k: v for k, v in (full.get("configurable") or {}).items() if k not in ADDRESS}
    # A node that passes its own config on hands down the facts about its task; they are not the sub-graph's.
    own = around.config.get("metadata") or {}
    full["metadata"] = {
        k: v
        for k, v in (full.get("metadata") or {}).items()
        if k in own or not is_fact(k, v, around.thread_id)
    }
    saver = saver_for(graph, outer)
    lasting = graph.checkpointer is True
    spec = new_spec(graph, given, full, options, durability)
    session = new_session(graph, full, options, durability, outer)
    spec.nested, spec.lasting = True, lasting
    spec.ns = session.ns = outer.child_namespace(lasting=lasting)
    spec.parents = {**around.run.spec.parents, around.ns: around.run.checkpoint["id"]}
    spec.answers = around.run.spec.answers
    spec.asked_before = [question.id for question in outer.task.interrupts]
    spec.modes = options.modes | session.outer_modes
    result = Launch(spec, session)
    if saver is not None:
        spec.saves, spec.thread_id = True, around.thread_id
        session.saver, session.thread_id = saver.with_known_types(known_types(graph.plan)), around.thread_id
        result.address = nested_address(spec, session)
        result.from_past = "checkpoint_id" in result.address["configurable"]
    return result


def without_place(config: RunnableConfig, around: TaskScope) -> RunnableConfig:
    """Return a config without what says where a task stands: the task runs a graph on a thread of its own,
    and may have passed its own config on.
    """
    place, given = around.config["configurable"], config.get("configurable") or {}
    metadata = config.get("metadata") or {}
    found = config.copy()
    found["configurable"] = {k: v for k, v in given.items() if k not in ADDRESS or v != place.get(k)}
    found["metadata"] = {k: v for k, v in metadata.items() if not is_fact(k, v, around.session.thread_id)}
    return found


def is_fact(key: str, value: Any, thread_id: str | None) -> bool:
    """Tell whether an entry of metadata was added for callbacks: it is about a task, or names its thread."""
    return key.startswith(FACTS) or (key == "thread_id" and value == thread_id)


def nested_address(spec: Spec, session: Session) -> RunnableConfig:
    """Return the config to load a sub-graph from: its namespace, or the past that it is to go on from."""
    ns, replay = spec.ns, session.replays.pop(plain(spec.ns), None)
    address = {"thread_id": spec.thread_id, "checkpoint_ns": ns}
    if replay is not None:
        address["checkpoint_ns"], address["checkpoint_id"] = replay
        spec.copies = replay[0] != ns
    return {"configurable": address}


def new_spec(
    graph: Pregel, given: Any, config: RunnableConfig, options: Options, durability: Durability
) -> Spec:
    """Return the spec of a run, without its address."""
    before = stops(graph, "interrupt_before", options.interrupt_before or graph.interrupt_before)
    after = stops(graph, "interrupt_after", options.interrupt_after or graph.interrupt_after)
    metadata = dict(config.get("metadata") or {})
    if config.get("run_id"):
        metadata["run_id"] = str(config["run_id"])
    return Spec(
        given,
        modes=options.modes,
        output_keys=output_keys(graph, options.output_keys),
        interrupt_before=before,
        interrupt_after=after,
        durability=durability,
        recursion_limit=count(config, "recursion_limit") or DEFAULT_RECURSION_LIMIT,
        metadata=metadata,
    )


def new_session(
    graph: Pregel,
    config: RunnableConfig,
    options: Options,
    durability: Durability,
    outer: TaskScope | None,
) -> Session:
    """Return the surroundings of a run, without its saver."""
    session = Session(
        config,
        store=graph.store,
        cache=graph.cache,
        context=graph.as_context(options.context),
        durability=durability,
        own_modes=options.modes,
        outer_modes=options.modes if options.subgraphs and outer is None else frozenset(),
        max_concurrency=count(config, "max_concurrency"),
        parent=outer,
    )
    if outer is None:
        return session
    around = outer.session
    return replace(
        session,
        thread_id=around.thread_id,
        store=graph.store or around.store,
        cache=graph.cache or around.cache,
        context=around.context if options.context is None else session.context,
        outer_modes=around.outer_modes,
        upward=(around.upward or around.send) if around.outer_modes else None,
        handlers=around.handlers,
        replays=around.replays,
        lease=around.lease,
    )
