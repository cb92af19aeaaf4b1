"""Finds and runs the examples of a page.

The `python` blocks of a page are one program. A `text` block right after one says what it printed; `...` in
it stands for anything on that line, and a line that is only `...` for any lines. Blocks in other languages
are not run. An example that fails on purpose is followed by the first and the last line of its traceback.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import ModuleType

__all__ = ["Block", "blocks", "matches", "run"]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Block:
    """An example.

    Attributes:
        line: Where it stands in the page.
        code: The program.
        output: What the page says that it prints.
    """

    line: int
    code: str
    output: str


def blocks(page: str) -> list[Block]:
    """Return the examples of a page."""
    found: list[Block] = []
    for match in BLOCK.finditer(page):
        language, text = match.groups()
        if language == "python":
            found.append(Block(page.count("\n", 0, match.start()) + 1, text, ""))
        elif language == "text" and found and not found[-1].output:
            found[-1] = Block(found[-1].line, found[-1].code, text)
    return found


def matches(said: str, printed: str) -> bool:
    """Tell whether a program printed what a page says."""
    pattern = ""
    for line in said.splitlines(keepends=True):
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.split("...")))
    return re.fullmatch(pattern, printed) is not None


def run(page: Path, module: ModuleType) -> list[str]:
    """Run the examples of a page in one module, and return where it does not say what happens."""
    sys.modules[module.__name__] = module
    wrong = []
    for block in blocks(page.read_text(encoding="utf-8")):
        printed = printed_by(block, page, module)
        if not matches(block.output, printed):
            wrong.append(f"{page.name}:{block.line} prints\n{printed}\nnot\n{block.output}")
    return wrong


def printed_by(block: Block, page: Path, module: ModuleType) -> str:
    """Run one example and return what it prints. An error that the page shows is printed, too."""
    with redirect_stdout(StringIO()) as output:
        try:
            execute(block, page, module)
        except Exception as error:
            if TRACEBACK not in block.output:
                raise
            print(f"{TRACEBACK}\n{type(error).__name__}: {error}")
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())


def execute(block: Block, page: Path, module: ModuleType) -> None:
    """Run one example; it may await."""
    source = "\n" * block.line + block.code
    code = compile(source, str(page), "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, module.__dict__))  # noqa: S307 - our own page
    else:
        exec(code, module.__dict__)
