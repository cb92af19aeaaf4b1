"""The page of differences and the parity programs tell of the same differences."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")


def programs() -> dict[str, bool]:
    """The parity programs, and whether each shows a difference."""
    return {
        f"{path.stem}.{function.name}": "'differs'" in ast.dump(function)
        for path in (ROOT / "tests" / "parity" / "programs").glob("*.py")
        for function in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(function, ast.AsyncFunctionDef) and function.decorator_list
    }


def test_each_difference_that_a_program_shows_is_on_the_page() -> None:
    showing = {name for name, differs in programs().items() if differs}
    assert showing
    assert {name for name in showing if f"`{name}`" not in PAGE} == set()


def test_the_page_names_programs_that_show_a_difference() -> None:
    named = set(re.findall(r"`([a-z]+\.[a-z_]+_[a-z_]+)`", PAGE))
    assert named
    assert {name for name in named if not programs().get(name)} == set()
