"""The examples in the pages about stores run, and print what the pages say."""

from __future__ import annotations

import re
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["how-to/remember-across-threads.md", "how-to/semantic-search.md", "reference/store.md"]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_print_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    printed = ""
    for language, text in blocks:
        if language == "text":
            assert printed == text
            printed = ""
            continue
        assert printed == "", "the page does not say what this prints"
        with redirect_stdout(StringIO()) as output:
            exec(compile(text, page, "exec", dont_inherit=True), module.__dict__)
        printed = output.getvalue()
