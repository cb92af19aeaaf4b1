"""A run with `--no-skips` fails if a test was skipped: a promise that nobody checked is not kept.

Property tests take the same examples in every run, so that one commit gives one verdict; `make search`
lets chance choose them, and whatever it finds becomes an example of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# No verdict by the clock: a busy machine is not a defect.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("repeatable"), derandomize=False, print_blob=True)
settings.load_profile("repeatable")

UNCHECKED = ("skipped", "xfailed", "xpassed", "deselected")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail if any test was skipped or xfailed")


def unchecked(config: pytest.Config) -> dict[str, int]:
    """Count the tests that were passed over, by kind."""
    stats: dict[str, list[Any]] = getattr(config.pluginmanager.get_plugin("terminalreporter"), "stats", {})
    return {kind: len(stats[kind]) for kind in UNCHECKED if stats.get(kind)}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    if session.config.getoption("--no-skips") and unchecked(session.config) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return (yield)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--no-skips"):
        for kind, count in unchecked(config).items():
            terminalreporter.write_line(f"--no-skips: {count} {kind}, which counts as a failure", red=True)
