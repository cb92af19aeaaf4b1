"""A drawing shows every node and edge, whatever the names are."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from threadmark.constants import END, START
from threadmark.pregel.draw import Drawing, DrawnEdge

LOOP = Drawing.of(
    ["plan", "act", "report"],
    [
        (START, "plan", None, False),
        ("plan", "act", "more", True),
        ("plan", "report", "done", True),
        ("act", "plan", None, False),
    ],
)


def test_the_parts_are_plain_data_and_dead_ends_lead_to_the_end() -> None:
    assert list(LOOP.nodes) == [START, "plan", "act", "report", END]
    assert LOOP.edges[-1] == DrawnEdge("report", END)
    assert [e.data for e in LOOP.edges if e.conditional] == ["more", "done"]


def test_mermaid_shows_conditions_as_dotted_arrows_with_labels() -> None:
    assert LOOP.draw_mermaid() == (
        "graph TD;\n"
        '\tn0(["__start__"]);\n'
        '\tn1("plan");\n'
        '\tn2("act");\n'
        '\tn3("report");\n'
        '\tn4(["__end__"]);\n'
        "\tn0 --> n1;\n"
        '\tn1 -.->|"more"| n2;\n'
        '\tn1 -.->|"done"| n3;\n'
        "\tn2 --> n1;\n"
        "\tn3 --> n4;\n"
    )


def test_text_shows_a_tree_and_marks_what_stands_above() -> None:
    assert LOOP.draw_ascii() == (
        "__start__\n--> plan\n+..> [more] act\n|    --> plan (above)\n+..> [done] report\n     --> __end__\n"
    )


def test_mermaid_puts_the_nodes_of_a_sub_graph_into_a_box() -> None:
    inner = Drawing.of(["x"], [(START, "x", None, False)])
    middle = Drawing.of(["in", "y"], [(START, "in", None, False), ("in", "y", None, False)]).expand(
        "in", inner
    )
    outer = Drawing.of(["sub", "z"], [(START, "sub", None, False), ("sub", "z", None, False)])
    assert outer.expand("sub", middle).draw_mermaid() == (
        "graph TD;\n"
        '\tn0(["__start__"]);\n'
        '\tsubgraph s0n1["sub"]\n'
        '\t\tsubgraph s1n1["in"]\n'
        '\t\t\tn1("x");\n'
        "\t\tend\n"
        '\t\tn2("y");\n'
        "\tend\n"
        '\tn3("z");\n'
        '\tn4(["__end__"]);\n'
        "\tn1 --> n2;\n"
        "\tn0 --> n1;\n"
        "\tn2 --> n3;\n"
        "\tn3 --> n4;\n"
    )


def test_metadata_stands_below_the_name() -> None:
    drawing = Drawing.of(["a"], [(START, "a", None, False)], {"a": {"cost": 3}})
    assert '("a<br/>cost = 3")' in drawing.draw_mermaid()


def test_a_sub_graph_takes_the_place_of_its_node() -> None:
    inner = Drawing.of(["x", "y"], [(START, "x", None, False), ("x", "y", None, False)])
    outer = Drawing.of(["sub", "after"], [(START, "sub", None, False), ("sub", "after", None, False)])
    whole = outer.expand("sub", inner)
    assert list(whole.nodes) == [START, "sub:x", "sub:y", "after", END]
    assert [(e.source, e.target) for e in whole.edges] == [
        ("sub:x", "sub:y"),
        (START, "sub:x"),
        ("sub:y", "after"),
        ("after", END),
    ]


names = st.text(min_size=1).filter(lambda name: name not in (START, END))


@given(st.lists(names, min_size=1, max_size=6, unique=True), st.data())
def test_any_name_is_drawn_as_text_and_nothing_else(nodes: list[str], data: st.DataObject) -> None:
    ends = st.sampled_from(nodes)
    edges = data.draw(st.lists(st.tuples(ends, ends, st.none() | st.text(), st.booleans()), max_size=8))
    drawing = Drawing.of(nodes, [(START, nodes[0], None, False), *edges])
    statement = re.compile(r'\tn\d+(\(\["[^"]*"\]\)|\("[^"]*"\)| (-->|-\.->)(\|"[^"]*"\|)? n\d+);')
    head, *lines = drawing.draw_mermaid().split("\n")[:-1]
    assert head == "graph TD;"
    assert all(statement.fullmatch(line) for line in lines)
    assert len(lines) == len(drawing.nodes) + len(drawing.edges)
    assert "<" not in drawing.draw_mermaid()
    drawn = drawing.draw_ascii().split("\n")
    assert len(drawn) > len(drawing.edges)
