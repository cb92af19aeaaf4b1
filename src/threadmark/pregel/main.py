"""A compiled graph as users hold it: `invoke`, `stream`, `get_state`, `update_state` and their async twins.

Each method prepares a run or an operation and hands it to a driver. What happens is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from threadmark._checks import flag, instance, one_of, text, wrong
from threadmark.checkpoint.base import BaseCheckpointSaver, Loaded
from threadmark.config import RunnableConfig
from threadmark.errors import GraphInterrupt, InvalidArgumentError
from threadmark.pregel import edit, history, messages
from threadmark.pregel.branching import Branching
from threadmark.pregel.committer import SyncCommitter
from threadmark.pregel.drive import drive
from threadmark.pregel.given import as_modes, check_checkpointer, check_surroundings, count, merged, stops
from threadmark.pregel.known import known_types
from threadmark.pregel.launch import Launch, Options, launch, saver_for
from threadmark.pregel.leasing import hold
from threadmark.pregel.plan import Plan
from threadmark.pregel.run import Run
from threadmark.pregel.scope import Session
from threadmark.pregel.stream import Chunk, render, with_interrupts
from threadmark.types import (
    All,
    Checkpointer,
    Durability,
    GraphOutput,
    OnConflict,
    StateSnapshot,
    StateUpdate,
    StreamMode,
)

if TYPE_CHECKING:
    from threadmark.cache.base import BaseCache
    from threadmark.pregel.draw import Drawing
    from threadmark.store.base import BaseStore

__all__ = ["Pregel"]

Version = Literal["v1", "v2"]

NO_EFFECT = {
    "step_timeout": "Limit nodes instead: pass timeout= to add_node or to set_node_defaults.",
    "retry_policy": "Pass it to add_node or to set_node_defaults, as retry_policy=.",
    "cache_policy": "Pass it to add_node or to set_node_defaults, as cache_policy=.",
    "debug": "Look at a run with stream_mode='debug'.",
    "channels": "Channels follow from the state schema.",
    "input_channels": "They follow from the input schema.",
    "output_channels": "They follow from the output schema; a run takes output_keys=.",
    "stream_channels": "They follow from the state schema; stream() takes output_keys=.",
    "stream_eager": "Chunks are shown as soon as they are saved.",
    "nodes": "Add nodes to the StateGraph, and compile it again.",
    "trigger_to_nodes": "Edges are added to the StateGraph.",
}
"""What users of other libraries set on a compiled graph, and what to do instead."""


class Pregel(Branching):
    """A compiled graph.

    Args:
        plan: What the graph does.
        checkpointer: Where runs save; see `Checkpointer`.
        store: Memory across threads, for nodes.
        cache: Where results of nodes with a cache policy are kept.
        interrupt_before: Nodes to pause before, or `"*"`.
        interrupt_after: Nodes to pause after, or `"*"`.
        context_schema: The type of `context`.
        drawing: Makes the picture of the graph.
        config: Options for every run.
        stream_mode: The mode of `stream` when the caller names none.
        on_conflict: What a run does when another one works on its thread.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        checkpointer: Checkpointer = None,
        store: BaseStore | None = None,
        cache: BaseCache[Any] | None = None,
        interrupt_before: All | Sequence[str] = (),
        interrupt_after: All | Sequence[str] = (),
        context_schema: type[Any] | None = None,
        drawing: Callable[[bool | int], Drawing] | None = None,
        config: RunnableConfig | None = None,
        stream_mode: StreamMode = "updates",
        on_conflict: OnConflict = "raise",
    ) -> None:
        check_surroundings(store, cache, context_schema)
        self.plan = plan
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.interrupt_before = interrupt_before
        self.interrupt_after = interrupt_after
        self.context_schema = context_schema
        self.drawing = drawing
        self.config = config
        self.stream_mode: StreamMode = stream_mode
        self.on_conflict: OnConflict = on_conflict

    @property
    def name(self) -> str:
        """The graph's name. Setting it is the same as `compile(name=...)`."""
        return self.plan.name

    @name.setter
    def name(self, name: str) -> None:
        text("name", name)
        self.plan = replace(self.plan, name=name, named=True)

    def get_name(self) -> str:
        """Return the graph's name."""
        return self.plan.name

    @property
    def nodes(self) -> dict[str, Any]:
        """The nodes by name."""
        return dict(self.plan.nodes)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in NO_EFFECT:
            raise InvalidArgumentError(f"Setting {name} would change nothing. {NO_EFFECT[name]}")
        if name == "checkpointer":
            check_checkpointer(value)
        elif name in ("store", "cache", "context_schema"):
            check_surroundings(**{"store": None, "cache": None, "context_schema": None, name: value})
        elif name in ("interrupt_before", "interrupt_after"):
            stops(self, name, () if value is None else value)
        elif name == "stream_mode":
            as_modes(value)
        elif name == "on_conflict":
            one_of(name, value, get_args(OnConflict))
        elif name == "config":
            merged(None, value)
        super().__setattr__(name, value)

    @property
    def interrupt_before_nodes(self) -> All | Sequence[str]:
        """The same as `interrupt_before`."""
        return self.interrupt_before

    @interrupt_before_nodes.setter
    def interrupt_before_nodes(self, names: All | Sequence[str]) -> None:
        self.interrupt_before = names

    @property
    def interrupt_after_nodes(self) -> All | Sequence[str]:
        """The same as `interrupt_after`."""
        return self.interrupt_after

    @interrupt_after_nodes.setter
    def interrupt_after_nodes(self, names: All | Sequence[str]) -> None:
        self.interrupt_after = names

    def with_config(self, config: RunnableConfig | None = None, **options: Any) -> Self:
        """Return the same graph with options for every run."""
        return self.copy({"config": merged(merged(self.config, config), options)})  # type: ignore[arg-type]

    def copy(self, update: dict[str, Any] | None = None) -> Self:
        """Return the same graph with some attributes changed."""
        instance("update", update, Mapping | None, "a dict from attributes to values")
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        for name, value in (update or {}).items():
            text("A key of update", name)
            setattr(new, name, value)
        return new

    def as_context(self, context: Any) -> Any:
        """Return a run's context as an instance of the graph's context schema."""
        schema = self.context_schema
        if not isinstance(context, dict) or schema is None or hasattr(schema, "__total__"):
            return context
        try:
            return schema(**context)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"context does not fit {schema.__name__}: {error}") from error

    # Running

    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        on_conflict: OnConflict | None = None,
        version: Version = "v1",
    ) -> Any:
        """Run the graph to its end or to a pause.

        Args:
            input: The input, a `Command`, or `None` to go on where the thread stands.
            config: Which thread, and other options.
            context: What nodes find in `runtime.context`.
            stream_mode: `"values"` for the output; any other mode for the list of its chunks.
            output_keys: The state keys of the output, instead of those of the output schema.
            interrupt_before: Nodes to pause before, or `"*"`.
            interrupt_after: Nodes to pause after, or `"*"`.
            durability: When supersteps are saved.
            on_conflict: What to do when another run works on the thread.
            version: `"v2"` returns a `GraphOutput`.

        Returns:
            The output. If the run paused at questions, they stand under `"__interrupt__"`.

        Raises:
            ThreadmarkError: What went wrong, by kind.
            Exception: Whatever a node raised.
        """
        modes = frozenset[str]() if is_plain(stream_mode) else as_modes(stream_mode)
        options = Options(
            context=context,
            modes=modes,
            output_keys=output_keys,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            on_conflict=on_conflict,
            version=version,
        )
        plan = launch(self, input, config, options)
        chunks = list(self._drive(plan))
        return result(plan, chunks, stream_mode, version)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        on_conflict: OnConflict | None = None,
        version: Version = "v1",
    ) -> Any:
        """Async `invoke`."""
        modes = frozenset[str]() if is_plain(stream_mode) else as_modes(stream_mode)
        options = Options(
            context=context,
            modes=modes,
            output_keys=output_keys,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            on_conflict=on_conflict,
            version=version,
        )
        plan = launch(self, input, config, options)
        chunks = [chunk async for chunk in self._adrive(plan)]
        return result(plan, chunks, stream_mode, version)

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        on_conflict: OnConflict | None = None,
        subgraphs: bool = False,
        version: Version = "v1",
    ) -> Iterator[Any]:
        """Run the graph and yield what happens.

        Args:
            input: The input, a `Command`, or `None` to go on where the thread stands.
            config: Which thread, and other options.
            context: What nodes find in `runtime.context`.
            stream_mode: What to show; a list of modes yields pairs of mode and chunk.
            output_keys: The state keys of `values` chunks.
            interrupt_before: Nodes to pause before, or `"*"`.
            interrupt_after: Nodes to pause after, or `"*"`.
            durability: When supersteps are saved.
            on_conflict: What to do when another run works on the thread.
            subgraphs: Show what happens in sub-graphs too; each chunk says where it comes from.
            version: `"v2"` yields `StreamPart` dicts.

        Raises:
            ThreadmarkError: What went wrong, by kind.
            Exception: Whatever a node raised.
        """
        mode = self.stream_mode if stream_mode is None else stream_mode
        options = Options(
            context=context,
            modes=as_modes(mode),
            output_keys=self.plan.state_keys if output_keys is None else output_keys,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            on_conflict=on_conflict,
            subgraphs=subgraphs,
            version=version,
        )
        plan = launch(self, input, config, options)
        many = not isinstance(mode, str)
        for chunk in self._drive(plan):
            yield render(chunk, many=many, subgraphs=subgraphs, version=version, shape=self.plan.shape)

    async def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        on_conflict: OnConflict | None = None,
        subgraphs: bool = False,
        version: Version = "v1",
    ) -> AsyncIterator[Any]:
        """Async `stream`."""
        mode = self.stream_mode if stream_mode is None else stream_mode
        options = Options(
            context=context,
            modes=as_modes(mode),
            output_keys=self.plan.state_keys if output_keys is None else output_keys,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            on_conflict=on_conflict,
            subgraphs=subgraphs,
            version=version,
        )
        plan = launch(self, input, config, options)
        many = not isinstance(mode, str)
        chunks = self._adrive(plan)
        try:
            async for chunk in chunks:
                yield render(chunk, many=many, subgraphs=subgraphs, version=version, shape=self.plan.shape)
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]

    def _drive(self, plan: Launch) -> Iterator[Chunk]:
        """Load, run and save; leave the outcome in the run."""
        session = plan.session
        messages.listen(session)
        with hold(plan.leases_from, session.thread_id, plan.on_conflict) as lease:
            session.lease = lease or session.lease
            loaded: Loaded | None = None
            tip = None
            if session.saver is not None:
                outer = outer_committer(session)
                if isinstance(outer, SyncCommitter):
                    outer.drain()
                loaded = session.saver.load(plan.address)
                tip = tip_of(loaded, plan)
                if tip is None and plan.from_past:
                    tip = tip_id(session.saver.get_tuple(without_id(plan.address)))
                session.committer = SyncCommitter(session, loaded, outer)
            run = plan.run(self, loaded, tip)
            yield from drive(run, session)
        bubble(plan, run)

    async def _adrive(self, plan: Launch) -> AsyncIterator[Chunk]:
        """Async `_drive`."""
        # A program that never runs a graph on an event loop does not pay for asyncio.
        from threadmark.pregel.acommitter import AsyncCommitter
        from threadmark.pregel.adrive import adrive
        from threadmark.pregel.aleasing import ahold

        session = plan.session
        messages.listen(session)
        async with ahold(plan.leases_from, session.thread_id, plan.on_conflict) as lease:
            session.lease = lease or session.lease
            loaded: Loaded | None = None
            tip = None
            if session.saver is not None:
                outer = outer_committer(session)
                if isinstance(outer, AsyncCommitter):
                    await outer.drain()
                loaded = await session.saver.aload(plan.address)
                tip = tip_of(loaded, plan)
                if tip is None and plan.from_past:
                    tip = tip_id(await session.saver.aget_tuple(without_id(plan.address)))
                session.committer = AsyncCommitter(session, loaded, outer)
            run = plan.run(self, loaded, tip)
            chunks = adrive(run, session)
            try:
                async for chunk in chunks:
                    yield chunk
            finally:
                await chunks.aclose()  # type: ignore[attr-defined]
        bubble(plan, run)

    # Many inputs

    def batch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Run the graph on several inputs side by side.

        Args:
            inputs: The inputs.
            config: One config for all, or one for each. `max_concurrency` limits how many run at once.
            return_exceptions: Return an error in place of its output instead of raising the first.
            options: As for `invoke`.
        """
        from concurrent.futures import ThreadPoolExecutor

        configs = config_for_each(inputs, config)
        flag("return_exceptions", return_exceptions)

        def one(given: Any, own: RunnableConfig | None) -> Any:
            try:
                return self.invoke(given, own, **options)
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        if not inputs:
            return []
        workers = count(configs[0] or {}, "max_concurrency") or min(32, len(inputs))
        with ThreadPoolExecutor(workers, "threadmark-batch") as pool:
            futures = [
                pool.submit(copy_context().run, one, given, own)
                for given, own in zip(inputs, configs, strict=True)
            ]
            return [future.result() for future in futures]

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Async `batch`."""
        import asyncio

        configs = config_for_each(inputs, config)
        flag("return_exceptions", return_exceptions)
        limit = (
            asyncio.Semaphore(count(configs[0] or {}, "max_concurrency") or len(inputs)) if inputs else None
        )

        async def one(given: Any, own: RunnableConfig | None) -> Any:
            assert limit is not None
            async with limit:
                return await self.ainvoke(given, own, **options)

        work = (one(given, own) for given, own in zip(inputs, configs, strict=True))
        return await asyncio.gather(*work, return_exceptions=return_exceptions)

    # State

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread.

        Args:
            config: The thread; with a `checkpoint_id`, its state at that checkpoint.
            subgraphs: Put the snapshots of sub-graphs into `tasks[].state`.

        Raises:
            InvalidArgumentError: The graph has no checkpointer, or the config names no thread.
            CheckpointNotFoundError: There is no such checkpoint.
        """
        flag("subgraphs", subgraphs)
        return history.perform(self._saver(), history.get_state(self, self._address(config), subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Async `get_state`."""
        flag("subgraphs", subgraphs)
        return await history.aperform(
            self._saver(), history.get_state(self, self._address(config), subgraphs)
        )

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """Yield the states of a thread, newest first.

        Args:
            config: The thread.
            filter: Only checkpoints with these metadata.
            before: Only checkpoints older than the one that this config names.
            limit: At most this many.

        Raises:
            InvalidArgumentError: The graph has no checkpointer, or an argument is wrong.
        """
        return history.list_states(self, self._saver(), self._address(config), filter, before, limit)

    def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """Async `get_state_history`."""
        return history.alist_states(self, self._saver(), self._address(config), filter, before, limit)

    def update_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Edit the state: make a new checkpoint with an update applied, as if a node had written it.

        Args:
            config: The thread; with a `checkpoint_id`, the checkpoint to fork from.
            values: The update; reducers apply.
            as_node: The node that the update counts for; it decides what runs next.
            task_id: The id to save the update under.

        Returns:
            The config of the new checkpoint.

        Raises:
            InvalidUpdateError: The update does not fit, or it is not clear which node it counts for.
            ThreadConflictError: Another run moved the thread meanwhile.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Async `update_state`."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Apply updates in several supersteps, each of which becomes a checkpoint.

        Args:
            config: The thread, or the checkpoint to fork from.
            supersteps: The updates of each superstep.

        Returns:
            The config of the last checkpoint.

        Raises:
            InvalidArgumentError: There is nothing to apply.
            InvalidUpdateError: An update does not fit.
        """
        saver, address = self._saver(), self._address(config)
        with hold(saver, address["configurable"]["thread_id"], self.on_conflict) as lease:
            return history.perform(saver, edit.update_state(self, saver, address, supersteps, lease))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Async `bulk_update_state`."""
        from threadmark.pregel.aleasing import ahold

        saver, address = self._saver(), self._address(config)
        async with ahold(saver, address["configurable"]["thread_id"], self.on_conflict) as lease:
            work = edit.update_state(self, saver, address, supersteps, lease)
            return await history.aperform(saver, work)

    def _saver(self) -> BaseCheckpointSaver[Any]:
        """Return the saver, or say that there is none."""
        saver = saver_for(self, history.outer_scope())
        if saver is None:
            raise InvalidArgumentError("This graph has no checkpointer. Pass one: compile(checkpointer=...).")
        return saver.with_known_types(known_types(self.plan))

    def _address(self, config: RunnableConfig) -> RunnableConfig:
        """Return the full config of a state operation."""
        return history.check_address(merged(self.config, config))

    def _place(self, config: RunnableConfig) -> RunnableConfig:
        """Return only what the saver looks at."""
        return history.location(self._address(config))

    # Structure

    def get_graph(self, config: RunnableConfig | None = None, *, xray: bool | int = False) -> Drawing:
        """Return the graph as a picture that can be drawn.

        Args:
            config: Not needed; accepted for the callers that pass one.
            xray: Draw sub-graphs too, to this depth.
        """
        if not isinstance(xray, int) or xray < 0:
            raise wrong("xray", xray, "True, False, or how deep to look")
        if self.drawing is None:
            raise InvalidArgumentError("This graph has no picture.")
        return self.drawing(xray)

    def get_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> Iterator[tuple[str, Pregel]]:
        """Yield the sub-graphs with their namespaces (node names joined by `|`).

        Args:
            namespace: Only this one.
            recurse: Also those inside sub-graphs.
        """
        instance("namespace", namespace, str | None, "a text, or None")
        flag("recurse", recurse)
        for name, node in self.plan.nodes.items():
            for graph in node.subgraphs:
                if namespace is None or namespace == name:
                    yield name, graph
                if recurse or (namespace or "").startswith(f"{name}|"):
                    inner = namespace[len(name) + 1 :] if namespace and namespace != name else None
                    for path, found in graph.get_subgraphs(namespace=inner, recurse=recurse):
                        yield f"{name}|{path}", found

    async def aget_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> AsyncIterator[tuple[str, Pregel]]:
        """Async `get_subgraphs`."""
        for found in self.get_subgraphs(namespace=namespace, recurse=recurse):
            yield found

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forget cached results.

        Args:
            nodes: Of these nodes; `None`: of all.
        """
        if self.cache is not None:
            self.cache.clear(self._cached(nodes))

    def _cached(self, nodes: Sequence[str] | None) -> list[tuple[str, ...]]:
        """Return the cache namespaces of some nodes, or of all."""
        named = stops(self, "nodes", nodes or ())
        return [self.plan.nodes[name].cache_namespace for name in named or self.plan.nodes]

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Async `clear_cache`."""
        if self.cache is not None:
            await self.cache.aclear(self._cached(nodes))


def is_plain(mode: Any) -> bool:
    """Tell whether a run is asked for its output, and not for the chunks of a stream."""
    return mode is None or (isinstance(mode, str) and mode == "values")


def result(plan: Launch, chunks: list[Chunk], mode: Any, version: Version) -> Any:
    """Return what `invoke` returns."""
    outcome = plan.session.run.outcome
    graph = plan.session.run.plan
    if not is_plain(mode):
        many = not isinstance(mode, str)
        return [render(chunk, many=many, subgraphs=False, version=version) for chunk in chunks]
    if version == "v2":
        shape = graph.output_shape if isinstance(outcome.output, dict) else lambda values: values
        return GraphOutput(shape(outcome.output), outcome.interrupts)
    if outcome.interrupts:
        shown = with_interrupts(outcome.output, outcome.interrupts)
        return {**shown, "__interrupt__": list(outcome.interrupts)}
    return outcome.output


def bubble(plan: Launch, run: Run) -> None:
    """Pause the graph around a sub-graph that paused."""
    if plan.spec.nested and run.outcome.paused:
        raise GraphInterrupt(run.outcome.interrupts)


def outer_committer(session: Session) -> Any:
    """Return the committer of the graph around a run, if it saves."""
    return session.parent.session.committer if session.parent is not None else None


def tip_of(loaded: Loaded, plan: Launch) -> str | None:
    """Return the id of the branch's tip, as far as loading told."""
    if loaded.head is not None:
        return loaded.head.checkpoint_id
    return None if plan.from_past else tip_id(loaded.saved)


def tip_id(saved: Any) -> str | None:
    """Return the id of a saved checkpoint, if there is one."""
    return saved.checkpoint["id"] if saved is not None else None


def without_id(address: RunnableConfig) -> RunnableConfig:
    """Return the config of the same branch's tip."""
    return {"configurable": {k: v for k, v in address["configurable"].items() if k != "checkpoint_id"}}


def config_for_each(inputs: Sequence[Any], config: Any) -> list[RunnableConfig | None]:
    """Return one config for each input."""
    if not isinstance(inputs, Sequence) or isinstance(inputs, str | bytes):
        raise wrong("inputs", inputs, "a list")
    if not isinstance(config, Mapping | Sequence | None) or isinstance(config, str | bytes):
        raise wrong("config", config, "a dict, or a list of them")
    if config is None or isinstance(config, dict):
        same: RunnableConfig | None = config  # type: ignore[assignment]
        return [same] * len(inputs)
    if len(config) != len(inputs):
        raise InvalidArgumentError(
            f"{len(inputs)} inputs, but {len(config)} configs. Pass one for each input, or one dict for all."
        )
    return list(config)
