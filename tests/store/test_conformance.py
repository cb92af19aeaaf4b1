"""Every store of ours keeps every promise of the kit, through its sync and its async methods."""

from __future__ import annotations

from typing import Any

import pytest

from threadmark.testing.store import CHECKS, Check
from threadmark.testing.store.harness import Opener


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("face", ["sync", "async"])
def test_store_keeps(check: Check, face: Any, open_store: Opener) -> None:
    check.run(open_store, face)
