"""A graph as a picture: its nodes and edges as plain data, as Mermaid and as text.

A `Drawing` is made from names and edges alone; it knows neither builders nor plans. Names and labels
come from users and may hold anything, so they are escaped wherever they are drawn.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from threadmark.constants import END, START

__all__ = ["Drawing", "DrawnEdge", "DrawnNode"]


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of a drawing.

    Attributes:
        id: The node's name in the graph; of a node inside a sub-graph, `sub:node`.
        name: What is written in its box.
        metadata: What the user said about it.
        inside: The sub-graphs that it stands in, the outermost first.
    """

    id: str
    name: str
    metadata: Mapping[str, Any] | None = None
    inside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge of a drawing.

    Attributes:
        source: The id of the node that it leaves.
        target: The id of the node that it enters.
        data: Its label: the answer of the condition that takes it.
        conditional: Whether it is taken only sometimes.
    """

    source: str
    target: str
    data: str | None = None
    conditional: bool = False


@dataclass(slots=True)
class Drawing:
    """The nodes and edges of a graph.

    Attributes:
        nodes: The nodes by id, in the order in which they were added.
        edges: The edges.
    """

    nodes: dict[str, DrawnNode] = field(default_factory=dict)
    edges: list[DrawnEdge] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        nodes: Iterable[str],
        edges: Iterable[tuple[str, str, str | None, bool]],
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Drawing:
        """Return the drawing of a graph.

        The start is drawn if an edge leaves it. A node that no edge leaves leads to the end.

        Args:
            nodes: The names of the nodes.
            edges: Source, target, label and whether the edge is conditional.
            metadata: What to write below a node's name.
        """
        found = [DrawnEdge(*edge) for edge in dict.fromkeys(edges)]
        sources = {edge.source for edge in found}
        names = [name for name in nodes if name not in (START, END)]
        found += [DrawnEdge(name, END) for name in names if name not in sources]
        notes = metadata or {}
        ids = [START, *names, END] if START in sources else [*names, END]
        return cls({i: DrawnNode(i, i, notes.get(i)) for i in ids}, found)

    def expand(self, node: str, inner: Drawing) -> Drawing:
        """Return this drawing with a node replaced by the sub-graph inside it."""
        first = [e.target for e in inner.edges if e.source == START]
        last = [e.source for e in inner.edges if e.target == END]
        nodes: dict[str, DrawnNode] = {}
        for key, drawn in self.nodes.items():
            if key != node:
                nodes[key] = drawn
                continue
            for i, n in inner.nodes.items():
                if i not in (START, END):
                    nodes[f"{node}:{i}"] = DrawnNode(f"{node}:{i}", n.name, n.metadata, (node, *n.inside))
        edges = [
            DrawnEdge(f"{node}:{e.source}", f"{node}:{e.target}", e.data, e.conditional)
            for e in inner.edges
            if e.source != START and e.target != END
        ]
        for edge in self.edges:
            for source in [f"{node}:{i}" for i in last] if edge.source == node else [edge.source]:
                for target in [f"{node}:{i}" for i in first] if edge.target == node else [edge.target]:
                    edges.append(DrawnEdge(source, target, edge.data, edge.conditional))
        return Drawing(nodes, edges)

    def draw_mermaid(self) -> str:
        """Return the graph in the language of Mermaid's flow charts. Conditional edges are dotted, and nodes
        of an expanded sub-graph stand in a box of its own.
        """
        numbers = {key: f"n{at}" for at, key in enumerate(self.nodes)}
        lines = ["graph TD;", *self.boxes(numbers, (), "\t")]
        for edge in self.edges:
            arrow = "-.->" if edge.conditional else "-->"
            label = f'|"{escaped(edge.data)}"|' if edge.data else ""
            lines.append(f"\t{numbers[edge.source]} {arrow}{label} {numbers[edge.target]};")
        return "\n".join(lines) + "\n"

    def boxes(self, numbers: Mapping[str, str], inside: tuple[str, ...], indent: str) -> Iterator[str]:
        """Yield the lines of the nodes inside a sub-graph, and around them those of its box."""
        seen: set[str] = set()
        for key, node in self.nodes.items():
            place = node.inside
            if place == inside:
                yield f"{indent}{numbers[key]}{box(node)};"
            elif place[: len(inside)] == inside and place[len(inside)] not in seen:
                name = place[len(inside)]
                seen.add(name)
                yield f'{indent}subgraph s{len(inside)}{numbers[key]}["{escaped(name)}"]'
                yield from self.boxes(numbers, (*inside, name), indent + "\t")
                yield f"{indent}end"

    def draw_ascii(self) -> str:
        """Return the graph as an indented tree of plain text.

        `-->` is an edge that is always taken, `..>` one that is taken on a condition, which stands in
        brackets. A node that was drawn above already ends its line with `(above)`.
        """
        followers: dict[str, list[DrawnEdge]] = {}
        for edge in self.edges:
            followers.setdefault(edge.source, []).append(edge)
        targets = {edge.target for edge in self.edges}
        roots = [key for key in self.nodes if key not in targets]
        lines: list[str] = []
        seen: set[str] = set()
        for key in [*roots, *self.nodes]:
            if key not in seen:
                lines.append(printable(self.nodes[key].name))
                lines += self.below(key, followers, seen, "")
        return "\n".join(lines) + "\n"

    def below(
        self, key: str, followers: Mapping[str, list[DrawnEdge]], seen: set[str], indent: str
    ) -> Iterator[str]:
        """Yield the lines below a node. A chain of nodes stays at one indent."""
        seen.add(key)
        while len(edges := followers.get(key, [])) == 1:
            key = edges[0].target
            yield indent + self.line(edges[0], key in seen)
            if key in seen:
                return
            seen.add(key)
        for at, edge in enumerate(edges):
            known = edge.target in seen
            yield f"{indent}+{self.line(edge, known)}"
            if not known:
                deeper = indent + ("|    " if at + 1 < len(edges) else "     ")
                yield from self.below(edge.target, followers, seen, deeper)

    def line(self, edge: DrawnEdge, known: bool) -> str:
        """Return the text of an edge and its target."""
        arrow = "..>" if edge.conditional else "-->"
        label = f" [{printable(edge.data)}]" if edge.data else ""
        name = printable(self.nodes[edge.target].name)
        return f"{arrow}{label} {name}{' (above)' if known and edge.target != END else ''}"


def box(node: DrawnNode) -> str:
    """Return a node's shape and text in Mermaid: the start and the end are round."""
    text = escaped(node.name)
    if node.metadata:
        text += "<br/>" + "<br/>".join(
            f"{escaped(key)} = {escaped(value)}" for key, value in node.metadata.items()
        )
    return f'(["{text}"])' if node.id in (START, END) else f'("{text}")'


def escaped(text: object) -> str:
    """Return text that neither Mermaid nor a browser takes for anything but text."""
    return html.escape(printable(text)).replace("#", "&#35;")


def printable(text: object) -> str:
    """Return text on one line, without control characters."""
    return "".join(c if c.isprintable() else " " for c in str(text))
