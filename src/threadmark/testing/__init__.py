"""Tools for those who write savers and stores of their own, and the kits that ours must pass.

`check_saver(factory)` runs the saver kit and returns a report; `SAVER_CHECKS` are its parts, for test
suites that want one test for each. `check_store(factory)` and `STORE_CHECKS` are the same for stores.
Nothing here needs a test framework.
"""

from __future__ import annotations

from threadmark.testing.faults import Stopped, abandoned
from threadmark.testing.kit import Check, Report, Result
from threadmark.testing.savers import SAVER_CHECKS, check_saver, run_saver_check
from threadmark.testing.stores import STORE_CHECKS, StoreOptions, check_store, run_store_check

__all__ = [
    "SAVER_CHECKS",
    "STORE_CHECKS",
    "Check",
    "Report",
    "Result",
    "Stopped",
    "StoreOptions",
    "abandoned",
    "check_saver",
    "check_store",
    "run_saver_check",
    "run_store_check",
]
