"""Every example in the README and the docs runs, and prints what the page says."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from docs.examples import blocks, matches, run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples_in(page: Path) -> list[str]:
    """Return the code of a page's examples."""
    return [block.code for block in blocks(page.read_text(encoding="utf-8"))]


TUTORIAL = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
STORIES = [TUTORIAL, *([page] for page in PAGES if page not in TUTORIAL and examples_in(page))]
"""Pages whose examples are one program: the tutorial goes on from page to page, the others stand alone."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story[0].stem)
def test_the_examples_of_a_page_do_what_it_says(
    story: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if any("DATABASE_URL" in page.read_text(encoding="utf-8") for page in story):
        request.getfixturevalue("database")
    monkeypatch.chdir(tmp_path)
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    assert [wrong for page in story for wrong in run(page, module)] == []


def test_pages_that_should_show_something_do() -> None:
    shows = [p for p in PAGES if p.parent.name in ("tutorial", "how-to") and p.stem != "index"]
    silent = [p.name for p in shows if not examples_in(p)]
    assert silent == []
    assert examples_in(ROOT / "README.md")


@pytest.mark.parametrize(
    ("said", "printed", "fits"),
    [
        ("1\n", "1\n", True),
        ("1\n", "2\n", False),
        ("", "", True),
        ("", "1\n", False),
        ("a ... c\n", "a b c\n", True),
        ("a ... c\n", "a b\nc\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\n", "a\nb\n", False),
    ],
)
def test_output_is_compared(said: str, printed: str, fits: bool) -> None:
    assert matches(said, printed) is fits
