"""The house stands as drawn: imports point downwards, there are no circles, and the core needs nothing but
its two dependencies.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

SRC = Path(__file__).parents[1] / "src"

FLOORS = (
    {"cli", "server", "testing"},
    {"graph", "func"},
    {"pregel"},
    {"cache", "channels", "managed", "runtime"},
    {"types"},
    {"checkpoint", "store"},
    {"_db"},
    {"config", "_checks"},
    {"constants", "errors"},
)
"""Top to bottom. What stands on one floor does not import what stands beside it."""

BESIDE = {("managed", "channels")}
"""Pairs on one floor of which the first may import the second."""

LATE = {("errors", "types")}
"""Upward imports inside functions: `NodeInterrupt` makes an `Interrupt` when it is raised."""

HEAVY = ("langchain_core", "pydantic", "numpy", "psycopg", "cryptography", "zstandard", "pandas", "attr")
CORE = ("ormsgpack", "typing_extensions")


class Edge(NamedTuple):
    """An import of one of our modules by another.

    Attributes:
        by: The module that imports.
        of: What it imports.
        when: `"now"`, `"late"` inside a function, `"typing"` for checkers only.
    """

    by: str
    of: str
    when: str


@cache
def modules() -> dict[str, Path]:
    """All modules by name."""
    found = {}
    for path in sorted((SRC / "threadmark").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports() -> list[tuple[str, str, str]]:
    """Every import in the source: who, of what, when."""
    return [
        (name, target, when)
        for name, path in modules().items()
        for target, when in imports_in(ast.parse(path.read_text(encoding="utf-8")), "now")
    ]


def imports_in(node: ast.AST, when: str) -> Iterator[tuple[str, str]]:
    """Yield the imports below a node of the syntax tree."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, when) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield (full if full in modules() else node.module), when
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and when == "now":
        when = "late"
    for child in ast.iter_child_nodes(node):
        guarded = isinstance(node, ast.If) and child in node.body and "TYPE_CHECKING" in ast.dump(node.test)
        yield from imports_in(child, "typing" if guarded else when)


def edges(*kinds: str) -> list[Edge]:
    """Imports between our own modules."""
    return [Edge(*found) for found in imports() if found[1].startswith("threadmark") and found[2] in kinds]


def part(module: str) -> str:
    """Return the name of the folder or file directly below the package that a module is in."""
    return module.split(".")[1] if "." in module else ""


def floor(name: str) -> int:
    """Return the floor of a part, counted from the top. The package itself is above all."""
    return next((at for at, parts in enumerate(FLOORS) if name in parts), -1)


def test_every_part_has_a_floor() -> None:
    assert {part(name) for name in modules()} - {""} <= set().union(*FLOORS)


def test_imports_point_downwards() -> None:
    assert edges("now")
    upwards = [
        edge
        for edge in edges("now", "late")
        if (by := part(edge.by)) != (of := part(edge.of))
        and floor(by) >= floor(of)
        and (by, of) not in BESIDE
        and not (edge.when == "late" and (by, of) in LATE)
    ]
    assert upwards == []


def test_there_are_no_circles() -> None:
    graph: dict[str, set[str]] = {}
    for edge in edges("now"):
        graph.setdefault(edge.by, set()).add(edge.of)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("family", ["checkpoint", "store"])
def test_no_backend_knows_another_and_no_contract_knows_a_backend(family: str) -> None:
    backends = {f"threadmark.{family}.{name}" for name in ("memory", "sqlite", "postgres")}

    def backend(module: str) -> str | None:
        return next((b for b in backends if module == b or module.startswith(f"{b}.")), None)

    known = [e for e in edges("now", "late", "typing") if backend(e.of) and part(e.by) == family]
    assert known
    assert [e for e in known if backend(e.by) != backend(e.of)] == []


def test_nothing_but_the_two_dependencies_is_imported_with_a_module() -> None:
    allowed = {*sys.stdlib_module_names, *CORE, "threadmark"}
    postgres = {"psycopg", "psycopg_pool"}
    foreign = {
        (by, of)
        for by, of, when in imports()
        if when == "now"
        and of.split(".")[0] not in allowed
        and not (of.split(".")[0] in postgres and "postgres" in by)
    }
    assert foreign == set()


def loaded(program: str) -> set[str]:
    """Run a program in a fresh interpreter and return the packages that it has loaded."""
    code = f"{program}\nimport sys, json\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout))


def test_the_core_loads_no_heavy_package() -> None:
    found = loaded(
        "import threadmark.graph, threadmark.checkpoint.sqlite, threadmark.checkpoint.memory\n"
        "import threadmark.store.memory, threadmark.store.sqlite, threadmark.types, threadmark.runtime\n"
        "from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer"
    )
    assert found.isdisjoint(HEAVY)


def test_a_run_on_sqlite_loads_no_heavy_package(tmp_path: Path) -> None:
    program = f"""
from typing import Annotated, TypedDict
import operator
from threadmark import START, SqliteSaver, StateGraph
class State(TypedDict):
    items: Annotated[list[str], operator.add]
graph = StateGraph(State).add_node("a", lambda s: {{"items": ["a"]}}).add_edge(START, "a")
with SqliteSaver.from_conn_string({str(tmp_path / "file.db")!r}) as saver:
    app = graph.compile(checkpointer=saver)
    here = {{"configurable": {{"thread_id": "1"}}}}
    assert app.invoke({{"items": []}}, here) == {{"items": ["a"]}}
    assert len(list(app.get_state_history(here))) == 3
"""
    assert loaded(program).isdisjoint(HEAVY)


def test_the_package_itself_loads_nothing_until_it_is_asked() -> None:
    program = "import threadmark, sys\nassert [m for m in sys.modules if 'threadmark' in m] == ['threadmark']"
    assert "ormsgpack" not in loaded(program)


def test_the_package_offers_what_it_says() -> None:
    import threadmark

    assert len(threadmark.__all__) == len(set(threadmark.__all__))
    for name in threadmark.__all__:
        assert name in dir(threadmark)
        assert getattr(threadmark, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        threadmark.no_such_name  # type: ignore[attr-defined]  # noqa: B018
