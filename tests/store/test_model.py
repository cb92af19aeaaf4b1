"""All stores do the same as a small model, whatever is put, deleted, searched and let expire.

Two machines: one drives the stores through puts, deletes and the passing of time beside the model; the
other throws filters at values. Names and values are chosen to be taken for one another.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from store.model import Model, accepts
from threadmark.errors import StoreConflictError
from threadmark.store.base import BaseStore, PutOp
from threadmark.store.memory import InMemoryStore
from threadmark.store.sqlite import SqliteStore
from threadmark.testing.stores import Clock
from threadmark.testing.stores.harness import embed

SEGMENTS = st.sampled_from(
    ["a", "b", "a\x00", "a\x00b", "\x00", "%", "a.b", "*", "\ud800", "\U0010ffff", "我"]
)
NAMESPACES = st.lists(SEGMENTS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["", "k", "K", "k\x00", "%", "'", "\ud83d\ude00", "🙂"])
NAMES = st.sampled_from(["a", "b", "a b", "", 'q"', "\\", "n\n", "é", "$", "[0]"])
TEXTS = st.one_of(
    st.sampled_from(["", "a", "A", "10", "9", "a\x00", "a\x00b", "\udfff", "true", "null"]), st.text()
)
NUMBERS = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([0.1, 0.1 + 0.2, 0.3, 2**53, 2**53 + 1, 2.0**53, 2**63, 2**64, 2.0**70, 2**70 + 1, -0.0]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
VALUES = st.dictionaries(NAMES, ANYTHING, max_size=3)

FIELDS = st.sampled_from(["a", "b", "a.b", "b.a", "a b", "a.a.b", "é"])
FILTERS = st.deferred(
    lambda: st.one_of(
        st.dictionaries(FIELDS, CONDITIONS, max_size=2),
        st.fixed_dictionaries({"$not": FILTERS}),
        st.fixed_dictionaries({"$or": st.lists(FILTERS, max_size=3)}),
        st.fixed_dictionaries({"$and": st.lists(FILTERS, max_size=3)}),
    )
)
PLAIN = ANYTHING.filter(lambda value: not (isinstance(value, dict) and "$" in value))
OPERATORS = st.one_of(
    *(st.fixed_dictionaries({name: ANYTHING}) for name in ("$eq", "$ne", "$contains")),
    *(st.fixed_dictionaries({name: NUMBERS | TEXTS}) for name in ("$gt", "$gte", "$lt", "$lte")),
    *(st.fixed_dictionaries({name: st.lists(ANYTHING, max_size=3)}) for name in ("$in", "$nin")),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
CONDITIONS = PLAIN | OPERATORS | st.fixed_dictionaries({"$not": PLAIN | OPERATORS})


class Stores(RuleBasedStateMachine):
    """The stores beside the model. Every read is compared at once."""

    @initialize()
    def open(self) -> None:
        self.clock = Clock()
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "store.db")
        self.model = Model()
        self.sqlite = SqliteStore(self.path, clock=self.clock)
        self.memory = InMemoryStore(clock=self.clock)

    @property
    def stores(self) -> list[BaseStore]:
        return [self.memory, self.sqlite]

    def teardown(self) -> None:
        if hasattr(self, "sqlite"):
            self.sqlite.close()
            self.folder.cleanup()

    @rule(namespace=NAMESPACES, key=KEYS, value=VALUES, ttl=st.sampled_from([None, None, 1, 2.5]))
    def put(self, namespace: Any, key: str, value: Any, ttl: float | None) -> None:
        for store in self.stores:
            store.put(namespace, key, value, ttl=ttl)
        self.model.put(self.clock.now, namespace, key, value, ttl)

    @rule(namespace=NAMESPACES, key=KEYS, value=VALUES)
    def put_if_absent(self, namespace: Any, key: str, value: Any) -> None:
        there = self.model.search(self.clock.now, namespace)
        absent = all(address != (namespace, key) for address, _ in there)
        for store in self.stores:
            try:
                store.put(namespace, key, value, if_absent=True)
            except StoreConflictError:
                assert not absent
            else:
                assert absent
        if absent:
            self.model.put(self.clock.now, namespace, key, value, None)

    @rule(namespace=NAMESPACES, key=KEYS)
    def delete(self, namespace: Any, key: str) -> None:
        for store in self.stores:
            store.delete(namespace, key)
        self.model.delete(namespace, key)

    @rule(namespace=NAMESPACES, keys=st.lists(KEYS, max_size=3), value=VALUES)
    def failing_batch(self, namespace: Any, keys: list[str], value: Any) -> None:
        ops = [PutOp(namespace, key, value if key else None) for key in keys]
        for store in self.stores:
            with pytest.raises(StoreConflictError):
                store.batch([*ops, PutOp(namespace, "never", {}, if_version=10**9)])

    @rule(minutes=st.sampled_from([0.5, 1, 2.5]))
    def time_passes(self, minutes: float) -> None:
        self.clock.pass_minutes(minutes)

    @rule()
    def sweep(self) -> None:
        assert len({store.sweep_ttl() for store in (self.memory, self.sqlite)}) == 1

    @rule()
    def reopen(self) -> None:
        self.sqlite.close()
        self.sqlite = SqliteStore(self.path, clock=self.clock)

    @rule(namespace=NAMESPACES, key=KEYS, refresh=st.booleans())
    def get(self, namespace: Any, key: str, refresh: bool) -> None:
        found = dict(self.model.search(self.clock.now, namespace)).get((namespace, key))
        for store in self.stores:
            item = store.get(namespace, key, refresh_ttl=refresh)
            assert (item is None) == (found is None)
            assert item is None or repr(item.value) == repr(found["value"])
        if found is not None and refresh:
            self.model.refresh(self.clock.now, (namespace, key))

    @rule(
        prefix=NAMESPACES | st.just(()),
        limit=st.integers(0, 4),
        offset=st.integers(0, 3),
        descending=st.booleans(),
    )
    def search(self, prefix: Any, limit: int, offset: int, descending: bool) -> None:
        every = self.model.search(self.clock.now, prefix)
        expected = (every[::-1] if descending else every)[offset : offset + limit]
        for store in self.stores:
            found = store.search(prefix, limit=limit, offset=offset, descending=descending)
            assert [(item.namespace, item.key) for item in found] == [address for address, _ in expected]
            for item, (_, facts) in zip(found, expected, strict=True):
                assert repr(item.value) == repr(facts["value"])
                assert item.created_at.timestamp() == facts["created"]
                assert item.updated_at.timestamp() == facts["updated"]
            assert store.count(prefix) == len(every)

    @rule(prefix=st.just(()) | NAMESPACES, filter=FILTERS)
    def filtered(self, prefix: Any, filter: Any) -> None:
        expected = [address for address, _ in self.model.search(self.clock.now, prefix, filter)]
        for store in self.stores:
            found = [(item.namespace, item.key) for item in store.search(prefix, filter=filter, limit=100)]
            assert found == expected
            assert store.count(prefix, filter=filter) == len(expected)

    @rule()
    def namespaces(self) -> None:
        for store in self.stores:
            assert store.list_namespaces() == self.model.namespaces(self.clock.now)

    @rule(field=FIELDS, descending=st.booleans(), limit=st.integers(1, 3))
    def pages_agree(self, field: str, descending: bool, limit: int) -> None:
        pages = []
        for store in self.stores:
            found: list[Any] = []
            page = store.search((), sort=field, descending=descending, limit=limit)
            while page:
                found += [(item.namespace, item.key) for item in page]
                after = page[-1].cursor
                page = store.search((), sort=field, descending=descending, limit=limit, after=after)
            pages.append(found)
        assert pages[0] == pages[1]
        assert sorted(pages[0]) == sorted(address for address, _ in self.model.search(self.clock.now, ()))


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.fixture(scope="module")
def many() -> Any:
    stores = [InMemoryStore(), SqliteStore(":memory:")]
    yield stores
    stores[1].close()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values=st.lists(VALUES, min_size=1, max_size=6), filters=st.lists(FILTERS, min_size=1, max_size=6))
def test_filters_accept_what_the_model_accepts(many: Any, values: Any, filters: Any) -> None:
    for store in many:
        for item in store.search((), limit=100):
            store.delete(item.namespace, item.key)
        for number, value in enumerate(values):
            store.put(("ns",), str(number), value)
        for filter in filters:
            expected = [str(number) for number, value in enumerate(values) if accepts(filter, value)]
            assert [item.key for item in store.search((), filter=filter)] == expected


WORDS = ["cat", "dog", "fish", "tea", "of"]
SAID = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
DOCUMENTS = st.fixed_dictionaries({"text": SAID, "more": st.lists(SAID, max_size=2), "n": st.integers(0, 3)})
PLACES = st.sampled_from([("a",), ("a", "b"), ("a\x00",), ("b",)])
INDEX: Any = {"embed": embed, "dims": 8, "fields": ["text", "more[*]"]}
CHANGES = st.tuples(
    PLACES, st.sampled_from("kqx"), DOCUMENTS | st.none(), st.sampled_from([None, None, False])
)


@settings(max_examples=120, deadline=None)
@given(
    changes=st.lists(CHANGES, max_size=12),
    prefix=PLACES | st.just(()),
    query=SAID.filter(bool),
    filter=st.sampled_from([None, {"n": 1}, {"n": {"$gte": 2}}, {"$not": {"n": 0}}]),
)
def test_queries_find_what_a_loop_finds(changes: Any, prefix: Any, query: str, filter: Any) -> None:
    kept: dict[Any, Any] = {}
    with SqliteStore(":memory:", index=INDEX) as sqlite:
        stores = [InMemoryStore(index=INDEX), sqlite]
        for namespace, key, value, index in changes:
            for store in stores:
                store.batch([PutOp(namespace, key, value, index)])
            kept.pop((namespace, key), None)
            if value is not None and index is None:
                kept[namespace, key] = [text for text in (value["text"], *value["more"]) if text], value
        near, said = {}, set()
        for address, (texts, value) in kept.items():
            if address[0][: len(prefix)] == prefix and accepts(filter or {}, value):
                if texts:
                    near[address] = pytest.approx(max(cosine(text, query) for text in texts), abs=1e-5)
                if set(" ".join(texts).split()) & set(query.split()):
                    said.add(address)
        for store in stores:
            found = {}
            for mode in ("semantic", "keyword", "hybrid"):
                items = store.search(prefix, query=query, filter=filter, limit=100, mode=mode)  # type: ignore[arg-type]
                found[mode] = {(item.namespace, item.key): item.score for item in items}
                assert len(found[mode]) == len(items)
                scores = list(found[mode].values())
                assert scores == sorted(scores, reverse=True)
            assert found["semantic"] == near
            assert set(found["keyword"]) == said
            assert set(found["hybrid"]) == set(near) | said


def cosine(a: str, b: str) -> float:
    one, other = embed([a])[0], embed([b])[0]
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(x * y for x, y in zip(one, other, strict=True)) / lengths
