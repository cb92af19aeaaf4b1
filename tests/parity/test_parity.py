"""The same program shows the same on LangGraph and on threadmark, but for the listed differences."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.programs import Case, cases
from parity.trace import trace

RUNS = [
    pytest.param(case, mode, saver, id=f"{case.name}-{mode}-{saver}")
    for case in cases()
    for mode in case.modes
    for saver in case.savers
]


@pytest.mark.parametrize(("case", "mode", "saver"), RUNS)
def test_a_program_runs_with_only_its_imports_changed(
    case: Case, mode: str, saver: str, tmp_path: Path
) -> None:
    expected = trace("langgraph", case.run, mode, case.peer_saver or saver, tmp_path)
    assert expected, "a program must show something"
    assert trace("threadmark", case.run, mode, saver, tmp_path) == expected
