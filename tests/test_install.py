"""The core needs two packages and nothing else: a program runs where only they are installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROGRAM = """
import asyncio
from typing import Literal, TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import MissingDependencyError
from threadmark.graph import StateGraph, add_messages
from threadmark.graph.state import END, START
from threadmark.store.memory import InMemoryStore
from threadmark.types import Command


class GraphState(TypedDict):
    name: str
    address: str


def get_address(state: GraphState) -> Command[Literal["__end__"]]:
    return Command(update={"name": "pavaneeshwar", "address": "Hyderabad residency"})


graph = StateGraph(GraphState)
graph.add_node("get_address", get_address)
graph.add_edge(START, "get_address")
graph.add_edge("get_address", END)
here = {"configurable": {"thread_id": "12345"}}

saver = InMemorySaver()
app = graph.compile(checkpointer=saver, store=InMemoryStore())
app.invoke({}, config=here)
assert list(saver.__dict__) == ["serde", "storage", "writes", "blobs", "stack"]
assert len(saver.storage["12345"][""]) == 3

with SqliteSaver.from_conn_string("file.db") as saver:
    app = graph.compile(checkpointer=saver)
    asyncio.run(app.ainvoke({}, here))
    assert app.get_state(here).values["name"] == "pavaneeshwar"

try:
    add_messages([], ["hello"])
except MissingDependencyError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with threadmark and what its core needs."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (site / "threadmark").symlink_to(ROOT / "src" / "threadmark")
    for name in ("ormsgpack", "typing_extensions"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        found = Path(spec.origin)
        found = found.parent if found.stem == "__init__" else found
        (site / found.name).symlink_to(found)
    return home / "bin" / "python"


def run(python: Path, program: str, folder: Path) -> str:
    """Run a program and return what it prints."""
    done = subprocess.run(
        [str(python), "-I", "-c", program], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_environment_holds_only_the_core(python: Path, tmp_path: Path) -> None:
    extras = ("pydantic", "langchain_core", "numpy", "psycopg", "cryptography", "zstandard")
    program = f"import importlib.util as u; print([n for n in {extras!r} if u.find_spec(n)])"
    assert run(python, program, tmp_path) == "[]\n"
    assert str(python) != sys.executable


def test_a_program_runs_and_is_told_what_messages_need(python: Path, tmp_path: Path) -> None:
    assert "threadmark[langchain]" in run(python, PROGRAM, tmp_path)
