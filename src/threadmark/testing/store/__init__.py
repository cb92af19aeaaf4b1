"""The store conformance kit: what every store must do, as checks that any store can be put through.

Each check is written once and runs through the sync methods or the async ones. Run all of them and
read the report,

    report = check_store(lambda options: MyStore(index=options.index, ttl=options.ttl))
    assert report.passed, report

or give each a test of its own:

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    @pytest.mark.parametrize("face", ["sync", "async"])
    def test_conformance(check, face):
        check.run(open_store, face)

The kit knows no backend; it needs the contract and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from threadmark.testing.store import expiry, filters, items, listing, naming, searching
from threadmark.testing.store.harness import Check, Feature, Opener, StoreOptions

__all__ = ["CHECKS", "Check", "Opener", "Outcome", "Report", "StoreOptions", "check_store"]

CHECKS: tuple[Check, ...] = (
    *items.CHECKS,
    *naming.CHECKS,
    *listing.CHECKS,
    *filters.CHECKS,
    *expiry.CHECKS,
    *searching.CHECKS,
)
"""All checks, in the order in which they build on each other."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one check.

    Attributes:
        check: The check.
        face: Through which methods it ran.
        error: What went wrong; `None` when it passed.
    """

    check: Check
    face: Literal["sync", "async"]
    error: Exception | None = None


@dataclass(slots=True)
class Report:
    """The outcomes of a run of the kit.

    Attributes:
        outcomes: All of them.
        left_out: The checks of features that the store does not offer.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    left_out: list[Check] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every check that ran passed."""
        return all(outcome.error is None for outcome in self.outcomes)

    def __str__(self) -> str:
        good = sum(outcome.error is None for outcome in self.outcomes)
        lines = [f"{good} of {len(self.outcomes)} checks passed."]
        lines += [
            f"FAILED {outcome.check} ({outcome.face}): {outcome.check.promise} {outcome.error!r}"
            for outcome in self.outcomes
            if outcome.error is not None
        ]
        lines += [f"left out {check}: no {check.feature}" for check in self.left_out]
        return "\n".join(lines)


def check_store(
    open_store: Opener,
    *,
    features: Collection[Feature] = ("ttl", "keyword", "semantic"),
    faces: Collection[Literal["sync", "async"]] = ("sync", "async"),
) -> Report:
    """Put a store through all checks.

    Args:
        open_store: Opens an empty store.
        features: What the store offers beside items and filters.
        faces: Through which methods to check it.
    """
    report = Report()
    for check in CHECKS:
        if check.feature is not None and check.feature not in features:
            report.left_out.append(check)
            continue
        for face in faces:
            error: Exception | None = None
            try:
                check.run(open_store, face)
            except Exception as failure:  # noqa: BLE001 - whatever went wrong is what the report is for
                error = failure
            report.outcomes.append(Outcome(check, face, error))
    return report
