"""The Postgres saver answers random programs as the model and the other savers do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from checkpoint.test_model import Savers
from threadmark.checkpoint._sql import lists
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.postgres import PostgresSaver

from .server import fresh


@pytest.mark.parametrize("pipeline", [True, False])
def test_random_programs(uri: str, pipeline: bool) -> None:
    schema = fresh()
    opened = PostgresSaver(uri, schema=schema, pipeline=pipeline)
    opened.setup()

    class WithPostgres(Savers):
        def __init__(self) -> None:
            super().__init__()
            super().teardown()
            # Rows of lists are put together after many items; here few must do.
            lists._FOLD = 4
            for thread_id in ("a", "b"):
                opened.delete_thread(thread_id)
            self.savers: Any = {"memory": InMemorySaver(), "postgres": opened}

        def teardown(self) -> None:
            """The saver is used by the next program."""
            lists._FOLD = self.fold

        @rule()
        def reopen(self) -> None:
            """Another process goes on."""
            twin = PostgresSaver(uri, schema=schema, pipeline=not pipeline)
            self.savers["postgres"], before = twin, self.savers["postgres"]
            if before is not opened:
                before.close()

    run_state_machine_as_test(
        WithPostgres,
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    opened.close()
