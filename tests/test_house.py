"""What holds for every file of the project, whoever wrote it."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"

REGISTRIES = ("pypi" + ".org", "python" + "hosted", "npm" + "js", "conda" + ".io", "index" + "-url")
"""Parts of the names of package registries. In pieces, so that this file holds none."""

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bfor now\b")


def files() -> list[Path]:
    """The files of the project: all that is under version control, or would be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


def texts() -> Iterator[tuple[Path, str]]:
    """The project's files that hold text."""
    for path in files():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def sources() -> Iterator[tuple[Path, ast.Module]]:
    """The library's modules as syntax trees."""
    for path in sorted((SRC / "threadmark").rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def place(path: Path, node: ast.AST) -> str:
    """Where something stands, as editors understand it."""
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def test_no_file_names_a_package_registry() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}" for path, text in texts() for name in REGISTRIES if name in text
    ]
    assert found == []


def test_nothing_is_left_for_later() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in texts()
        if path.is_relative_to(SRC) or path.is_relative_to(ROOT / "docs")
        for number, line in enumerate(text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert found == []


def test_there_are_no_stubs() -> None:
    """What a class leaves to those that derive from it is an abstract method, not one that fails."""
    found = [
        place(path, node)
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node)
    ]
    assert found == []


def test_the_library_prints_nothing() -> None:
    found = [
        place(path, node)
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert found == []


def test_no_failure_is_swallowed() -> None:
    """No `except:` and no handler of `Exception` whose body is only `pass`."""
    found = []
    for path, tree in sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            empty = all(isinstance(statement, ast.Pass) for statement in node.body)
            if node.type is None or (broad and empty):
                found.append(place(path, node))
    assert found == []


def public_modules() -> list[str]:
    """Importable modules none of whose parts begins with an underscore."""
    names = []
    for path in sorted((SRC / "threadmark").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            names.append(".".join(parts))
    return names


def offered(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield the classes and functions that a module offers, and the public methods that classes define."""
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            yield name, value
        if inspect.isclass(value) and value.__module__.startswith("threadmark"):
            for key, member in vars(value).items():
                if not key.startswith("_") and callable(getattr(member, "__func__", member)):
                    yield f"{name}.{key}", member


@cache
def protocol_methods() -> set[str]:
    """The names of the methods that our protocols document, so that those who keep one need not."""
    return {
        item.name
        for _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and "Protocol" in ast.dump(ast.Tuple(node.bases))
        for item in node.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(item)
    }


def documented(value: Any) -> bool:
    """Tell whether something has a docstring of its own."""
    value = getattr(value, "__func__", value)
    return bool((value.__doc__ or "").strip())


def inherited(module: Any, name: str) -> bool:
    """Tell whether a method is one of a base class or a protocol that documents it."""
    owner, _, method = name.partition(".")
    bases = inspect.getmro(getattr(module, owner))[1:] if method else ()
    return method in protocol_methods() or any(documented(vars(base).get(method)) for base in bases)


@pytest.mark.parametrize("name", public_modules())
def test_a_public_module_and_all_it_offers_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), "a module opens with a paragraph"
    bare = [where for where, value in offered(module) if not documented(value)]
    assert [where for where in bare if not inherited(module, where)] == []


PROMISES = ROOT / "docs" / "promises.md"
ROW = re.compile(r"^\|(?! *-)(.+)\|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
CODE = re.compile(r"`(src/[\w/]+(?:\.py)?)`")


def rows() -> list[list[str]]:
    """The rows of the table of promises."""
    found = [[cell.strip() for cell in row.split("|")] for row in ROW.findall(PROMISES.read_text("utf-8"))]
    return [cells for cells in found if not cells[0].startswith("claim")]


def test_every_promise_names_code_and_a_test_that_exist() -> None:
    assert len(rows()) >= 10
    for claim, code, tests in rows():
        assert CODE.findall(code), claim
        assert all((ROOT / path).exists() for path in CODE.findall(code)), claim
        assert TEST.findall(tests), claim
        for path, function in TEST.findall(tests):
            assert (ROOT / path).exists(), f"{claim}: {path}"
            assert not function or f"def {function}(" in (ROOT / path).read_text("utf-8"), (
                f"{claim}: {function}"
            )


def test_every_link_in_the_docs_leads_somewhere() -> None:
    broken = []
    for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8")):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)} -> {target}")
    assert broken == []
