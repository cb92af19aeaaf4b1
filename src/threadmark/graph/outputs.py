"""From what a node returns, or a condition answers, to writes. Pure functions, made once per node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from threadmark._checks import shown
from threadmark.constants import END, ROOT, TASKS
from threadmark.errors import InvalidUpdateError, ParentCommand
from threadmark.graph.schema import updates_from
from threadmark.pregel.plan import Write
from threadmark.types import Command, Send

__all__ = ["OutputWriter", "StartWriter", "router"]

log = logging.getLogger("threadmark.graph")


class OutputWriter:
    """Turns a node's output into writes.

    Args:
        name: The node.
        keys: The state keys.
        nodes: The names that `goto` may use.
        edges: Writes that follow every output.
        many: The output is the list of what a generator yielded.
        plain: The keys without a reducer: of several values that a generator yields, the last counts.
        strict: Say in the log when a key is not part of the state. Sub-graphs return keys of their own.
        says: How a sentence about an output begins; by default, that the node returned it.
    """

    __slots__ = ("follow", "known", "many", "name", "nodes", "plain", "reported", "says", "strict", "updates")

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        nodes: Collection[str],
        edges: Sequence[Write],
        *,
        many: bool = False,
        plain: Collection[str] = (),
        strict: bool = True,
        says: str | None = None,
    ) -> None:
        self.name = name
        self.says = says or f"Node {name!r} returned"
        self.known = frozenset(keys)
        self.nodes = nodes
        self.follow = list(edges)
        self.many = many
        self.plain = plain
        self.strict = strict
        self.reported: set[str] = set()
        self.updates: Callable[[Any], list[Write]] = self.whole if ROOT in self.known else self.keyed

    def __call__(self, output: Any) -> list[Write]:
        """Return the writes of an output.

        Raises:
            InvalidUpdateError: The output is no update, or goes to a node that does not exist.
            ParentCommand: The output is a command for the graph around this one.
        """
        return self.updates(output) + self.follow

    def keyed(self, output: Any) -> list[Write]:
        """Return the updates of a state with keys."""
        if isinstance(output, dict):
            writes = [(k, v) for k, v in output.items() if k in self.known]
            if len(writes) < len(output):
                self.report(output)
            return writes
        if output is None:
            return []
        if isinstance(output, Command):
            return self.command(output)
        if isinstance(output, list | tuple):
            return self.sequence(output)
        found = updates_from(output, self.known)
        if found is None:
            raise refusal(self.says, output)
        return found

    def whole(self, output: Any) -> list[Write]:
        """Return the update of a state of one piece."""
        if isinstance(output, Command):
            return self.command(output)
        if isinstance(output, list | tuple) and any(isinstance(part, Command) for part in output):
            return [write for part in output for write in self.whole(part)]
        return [] if output is None else [(ROOT, output)]

    def sequence(self, output: Sequence[Any]) -> list[Write]:
        """Return the writes of several updates and commands."""
        if not self.many and not any(isinstance(part, Command) for part in output):
            raise refusal(self.says, output)
        if not all(part is None or isinstance(part, dict | Command) for part in output):
            raise refusal(self.says, output)
        writes = [write for part in output for write in self.keyed(part)]
        last = {k: i for i, (k, _) in enumerate(writes) if k in self.plain}
        return [write for i, write in enumerate(writes) if last.get(write[0], i) == i]

    def command(self, given: Command[Any]) -> list[Write]:
        """Return the writes of a command: its update, then where it goes."""
        if given.graph == Command.PARENT:
            raise ParentCommand(given)
        if given.graph is not None:
            raise InvalidUpdateError(f"Node {self.name!r}: Command.graph must be None or Command.PARENT.")
        writes = self.command_update(given.update)
        targets = [given.goto] if isinstance(given.goto, str | Send) else given.goto
        if not isinstance(targets, Sequence):
            raise InvalidUpdateError(
                f"Node {self.name!r} goes to {shown(targets)}. Name a node, or pass a Send."
            )
        return writes + [write for target in targets for write in goto(self.name, target, self.nodes)]

    def command_update(self, update: Any) -> list[Write]:
        """Return the writes of a command's update, which may also be a list of pairs."""
        is_pairs = isinstance(update, list | tuple) and all(
            isinstance(p, tuple) and len(p) == 2 for p in update
        )
        if is_pairs and ROOT not in self.known:
            return [(k, v) for k, v in update if k in self.known]
        return [] if update is None else self.updates(update)

    def report(self, output: Mapping[str, Any]) -> None:
        """Say once of each key that is not part of the state that it was dropped."""
        new = sorted(str(k) for k in output if k not in self.known and k not in self.reported)
        self.reported.update(new)
        if new and self.strict:
            keys = ", ".join(new)
            log.warning("%s %s, which the state does not have; dropped.", self.says, keys)


class StartWriter:
    """Turns what a run is given into writes: an input has the keys of the input, a command all of the state.

    Args:
        inputs: For inputs.
        commands: For commands.
    """

    __slots__ = ("commands", "inputs")

    def __init__(self, inputs: OutputWriter, commands: OutputWriter) -> None:
        self.inputs = inputs
        self.commands = commands

    def __call__(self, given: Any) -> list[Write]:
        """Return the writes, those of the first edges among them."""
        return self.commands(given) if isinstance(given, Command) else self.inputs(given)


def refusal(says: str, output: Any) -> InvalidUpdateError:
    """Return the error for an output that is no update."""
    return InvalidUpdateError(
        f"{says} {shown(output)}, of the type {type(output).__name__}. It must be a dict of state keys, "
        f"a Command, or None."
    )


def goto(source: str, target: Any, nodes: Collection[str]) -> list[Write]:
    """Return the writes that make a node run next.

    Raises:
        InvalidUpdateError: There is no such node.
    """
    if isinstance(target, Send):
        if not isinstance(target.node, str) or target.node not in nodes:
            raise InvalidUpdateError(f"Node {source!r} sends to {shown(target.node)}, {no_node(nodes)}")
        return [(TASKS, target)]
    if isinstance(target, str) and target == END:
        return []
    if not isinstance(target, str) or target not in nodes:
        raise InvalidUpdateError(f"Node {source!r} goes to {shown(target)}, {no_node(nodes)}")
    return [(f"branch:to:{target}", None)]


def no_node(nodes: Collection[str]) -> str:
    """Return the end of a sentence that begins with an unknown node."""
    return f"which does not exist. Nodes: {', '.join(sorted(nodes))}."


def router(
    source: str, nodes: Collection[str], path_map: Mapping[Any, str] | None, then: Sequence[Write] = ()
) -> Callable[[Any], list[Write]]:
    """Return the function that turns the answer of a condition into writes.

    Args:
        source: The node that the condition follows.
        nodes: The nodes that exist.
        path_map: From answers to node names.
        then: Writes that follow every answer.
    """

    def target_of(answer: Any) -> Any:
        if isinstance(answer, Send) or path_map is None:
            return answer
        try:
            return path_map[answer]
        except (KeyError, TypeError):
            raise InvalidUpdateError(
                f"The condition after {source!r} answered {shown(answer)}; path_map has {list(path_map)}."
            ) from None

    def route(answer: Any) -> list[Write]:
        answers = answer if isinstance(answer, list | tuple) else [answer]
        targets = [target_of(a) for a in answers]
        for target in targets:
            if target is None:
                raise InvalidUpdateError(
                    f"The condition after {source!r} answered None. Return a node name, a Send, or END."
                )
        return [write for target in targets for write in goto(source, target, nodes)] + list(then)

    return route
