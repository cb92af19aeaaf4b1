"""The Postgres store keeps every promise of the kit, and answers random programs as the others do."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from store.model import accepts
from store.test_model import FILTERS, VALUES, Stores
from threadmark.store.base import PutOp
from threadmark.store.memory import InMemoryStore
from threadmark.store.postgres import PostgresStore
from threadmark.store.vectors import numpy
from threadmark.testing.stores import STORE_CHECKS, StoreCheck, StoreOptions, run_store_check

from .server import fresh

SEARCHING = [check for check in STORE_CHECKS if check.group == "searching"]


def made(uri: str, options: StoreOptions, **more: Any) -> PostgresStore:
    store = PostgresStore(
        uri, schema=fresh(), index=options.index, ttl=options.ttl, clock=options.clock, **more
    )
    store.setup()
    return store


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("check", STORE_CHECKS, ids=str)
def test_store_keeps(check: StoreCheck, face: Any, uri: str) -> None:
    run_store_check(check, lambda options: made(uri, options), face)


@pytest.mark.parametrize("check", SEARCHING, ids=str)
def test_exact_search_keeps(check: StoreCheck, uri: str) -> None:
    run_store_check(check, lambda options: made(uri, options, exact=True, pipeline=False), "sync")


def test_random_programs(uri: str) -> None:
    schema = fresh()
    with PostgresStore(uri, schema=schema) as first:
        first.setup()

    class WithPostgres(Stores):
        @initialize()
        def open(self) -> None:
            super().open()
            self.sqlite.close()
            self.sqlite: Any = PostgresStore(uri, schema=schema, clock=self.clock)
            for namespace in self.sqlite.list_namespaces(limit=1000):
                found = self.sqlite.search(namespace, limit=1000)
                self.sqlite.batch([PutOp(item.namespace, item.key, None) for item in found])
            self.clock.pass_minutes(10_000)
            self.sqlite.sweep_ttl()

        @rule()
        def reopen(self) -> None:
            self.sqlite.close()
            self.sqlite = PostgresStore(uri, schema=schema, clock=self.clock)

    run_state_machine_as_test(
        WithPostgres,
        settings=settings(
            max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.fixture(scope="module")
def store(uri: str) -> Any:
    with PostgresStore(uri, schema=fresh()) as opened:
        opened.setup()
        yield opened


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(values=st.lists(VALUES, min_size=1, max_size=6), filters=st.lists(FILTERS, min_size=1, max_size=6))
def test_filters_accept_what_the_model_accepts(store: Any, values: Any, filters: Any) -> None:
    store.batch([PutOp(("ns",), item.key, None) for item in store.search((), limit=100)])
    store.batch([PutOp(("ns",), str(n), value) for n, value in enumerate(values)])
    for filter in filters:
        expected = {str(n) for n, value in enumerate(values) if accepts(filter, value)}
        assert {item.key for item in store.search((), filter=filter, limit=100)} == expected


@pytest.mark.parametrize("distance", ["cosine", "inner_product", "l2"])
def test_scores_are_those_of_the_store_in_memory(uri: str, distance: Any) -> None:
    np = numpy()
    random = np.random.default_rng(7)
    vectors = {f"text {n}": random.normal(size=16).tolist() for n in range(300)}

    def embed(texts: list[str]) -> Any:
        return [vectors[text] for text in texts]

    index: Any = {"embed": embed, "dims": 16, "fields": ["text"], "distance_type": distance}
    exact, ours = InMemoryStore(index=index), PostgresStore(uri, schema=fresh(), index=index)
    ours.setup()
    batch = [PutOp(("a", str(n % 3)), str(n), {"text": text}) for n, text in enumerate(vectors)]
    found = {}
    for store in (exact, ours):
        store.batch(batch)
        found[store] = store.search(("a",), query="text 5", limit=300)
    assert [i.score for i in found[ours]] == pytest.approx([i.score for i in found[exact]], abs=1e-4)
    assert len({i.key for i in found[ours]}) == 300
    ours.close()


def _put_in_turn(uri: str, schema: str, keys: list[str], times: int) -> None:
    with PostgresStore(uri, schema=schema) as store:
        for n in range(times):
            store.batch([PutOp(("shared",), key, {"n": n}) for key in keys])


def test_batches_that_cross_each_other_all_get_through(uri: str) -> None:
    schema = fresh()
    with PostgresStore(uri, schema=schema) as store:
        store.setup()
        context = multiprocessing.get_context("spawn")
        keys = [f"k{n}" for n in range(6)]
        orders = [keys, keys[::-1], keys[3:] + keys[:3]]
        workers = [context.Process(target=_put_in_turn, args=(uri, schema, order, 15)) for order in orders]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert [worker.exitcode for worker in workers] == [0, 0, 0]
        assert {item.key: item.value["n"] for item in store.search(("shared",))} == dict.fromkeys(keys, 14)
