"""Programs that users of the graph API write, by subject. Each runs on both libraries."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from parity.trace import Program

__all__ = ["Case", "cases", "program"]


@dataclass(frozen=True)
class Case:
    """A program and where it makes sense to run it."""

    name: str
    run: Program
    modes: tuple[str, ...]
    savers: tuple[str, ...]
    peer_saver: str | None


registered: list[Case] = []


def program(
    *,
    modes: tuple[str, ...] = ("sync", "async"),
    savers: tuple[str, ...] = ("memory", "sqlite"),
    peer_saver: str | None = None,
) -> Callable[[Program], Program]:
    """Register a program.

    Args:
        modes: How it runs.
        savers: With which savers; a program that has none needs only one.
        peer_saver: The saver that LangGraph runs it with, where another has a fault.
    """

    def register(run: Program) -> Program:
        subject = run.__module__.rsplit(".", 1)[-1]
        registered.append(Case(f"{subject}.{run.__name__}", run, modes, savers, peer_saver))
        return run

    return register


def cases() -> list[Case]:
    """Return all programs."""
    for found in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{found.name}")
    return registered
