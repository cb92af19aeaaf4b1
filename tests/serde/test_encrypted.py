"""Encrypted data is read only in the row that it was written for, with a key that is there."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from threadmark.checkpoint.serde.aes import AesGcm, identity
from threadmark.checkpoint.serde.base import Row, RowSerializer
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer, Keys
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.errors import (
    EncryptionError,
    InvalidArgumentError,
    MissingDependencyError,
    SerializationError,
)

from . import sample_types as t

KEY, OTHER = b"k" * 32, b"o" * 16
ROW = Row("value", "thread", "ns", "cp", "channel", "1")
names = st.text(st.characters(exclude_categories=()), max_size=8)
rows = st.builds(
    Row, st.sampled_from(["checkpoint", "metadata", "value", "log", "write", "item"]), names, names, names,
    names, names,
)  # fmt: skip


def store(serde: EncryptedSerializer, row: Row, value: Any) -> Any:
    return serde.seal(row, serde.inner.dumps_typed(value))


def load(serde: EncryptedSerializer, row: Row, data: Any) -> Any:
    return serde.inner.loads_typed(serde.open(row, data))


@settings(max_examples=200, deadline=None)
@given(row=rows, other=rows, value=st.none() | st.binary() | st.text() | st.lists(st.integers()))
def test_data_is_read_in_its_own_row_only(row: Row, other: Row, value: Any) -> None:
    serde = EncryptedSerializer(KEY)
    sealed = store(serde, row, value)
    assert load(serde, row, sealed) == value
    if other != row:
        with pytest.raises(EncryptionError):
            serde.open(other, sealed)


@given(rows=st.lists(rows, min_size=2, max_size=2, unique=True))
def test_no_two_rows_are_bound_alike(rows: list[Row]) -> None:
    assert identity(rows[0]) != identity(rows[1])
    assert identity(None) not in map(identity, rows)


@pytest.mark.parametrize("field", Row._fields)
def test_every_part_of_a_rows_identity_counts(field: str) -> None:
    serde = EncryptedSerializer(KEY)
    moved = ROW._replace(**{field: "log" if field == "kind" else "another"})
    with pytest.raises(EncryptionError):
        serde.open(moved, store(serde, ROW, 1))


def test_nothing_is_in_clear() -> None:
    serde = EncryptedSerializer(KEY)
    tag, data = store(serde, ROW, {"secret-name": "secret-value"})
    assert b"secret" not in data
    assert tag == "aes-gcm"
    assert store(serde, ROW, None)[0] == "aes-gcm"
    assert store(serde, ROW, 1)[1] != store(serde, ROW, 1)[1], "equal values do not look equal"


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_change_is_noticed(data: st.DataObject) -> None:
    serde = EncryptedSerializer(KEY)
    tag, sealed = store(serde, ROW, {"a": 1})
    at = data.draw(st.integers(0, len(sealed) - 1))
    changed = sealed[:at] + bytes((sealed[at] ^ data.draw(st.integers(1, 255)),)) + sealed[at + 1 :]
    cut = sealed[: data.draw(st.integers(0, len(sealed) - 1))]
    for forged in (changed, cut, sealed + b"\0", data.draw(st.binary())):
        with pytest.raises(EncryptionError):
            serde.open(ROW, (tag, forged))


@pytest.mark.parametrize(
    "tag", ["msgpack", "null", "empty", "bytes", "json", "pickle", "aes", "", "cipher:x"]
)
def test_plaintext_is_refused_unless_a_window_is_open(tag: str) -> None:
    serde = EncryptedSerializer(KEY)
    with pytest.raises(EncryptionError, match="accept_plaintext"):
        serde.open(ROW, (tag, b"\x80"))
    with pytest.raises(EncryptionError):
        serde.loads_typed((tag, b"\x80"))
    window = EncryptedSerializer(KEY, accept_plaintext=True)
    assert window.open(ROW, (tag, b"\x80")) == (tag, b"\x80")
    assert load(window, ROW, store(serde, ROW, 1)) == 1
    with pytest.raises(EncryptionError):
        window.open(ROW._replace(version="2"), store(serde, ROW, 1))


def test_a_missing_key_is_named_and_a_wrong_one_noticed() -> None:
    sealed = store(EncryptedSerializer(Keys("2024", {"2024": KEY})), ROW, 1)
    with pytest.raises(EncryptionError, match="the key '2024', and only '2025'"):
        EncryptedSerializer(Keys("2025", {"2025": OTHER})).open(ROW, sealed)
    with pytest.raises(EncryptionError, match="another key"):
        EncryptedSerializer(Keys("2024", {"2024": OTHER})).open(ROW, sealed)


def test_keys_are_rotated_one_row_at_a_time() -> None:
    old = EncryptedSerializer(OTHER)
    new = EncryptedSerializer(Keys.of(KEY, OTHER))
    sealed = store(old, ROW, {"a": (1,)})
    assert load(new, ROW, sealed) == {"a": (1,)}
    again = new.reseal(ROW, sealed)
    assert again is not None
    assert new.reseal(ROW, again) is None, "what is done is not done again, so a rotation can be resumed"
    assert load(EncryptedSerializer(KEY), ROW, again) == {"a": (1,)}
    with pytest.raises(EncryptionError):
        new.reseal(ROW._replace(version="2"), sealed)


def test_plaintext_is_encrypted_through_the_window() -> None:
    window = EncryptedSerializer(KEY, accept_plaintext=True)
    plain = JsonPlusSerializer().dumps_typed([1])
    sealed = window.reseal(ROW, plain)
    assert sealed is not None
    assert load(EncryptedSerializer(KEY), ROW, sealed) == [1]
    with pytest.raises(EncryptionError):
        EncryptedSerializer(KEY).reseal(ROW, plain)


def test_every_tenant_has_keys_of_its_own() -> None:
    tenants = {"a": b"a" * 32, "b": b"b" * 32}
    asked = []

    def keys(thread_id: str) -> bytes | None:
        asked.append(thread_id)
        return tenants.get(thread_id.partition(":")[0])

    serde = EncryptedSerializer(keys)  # type: ignore[arg-type]
    row = ROW._replace(thread_id="a:1")
    sealed = store(serde, row, 1)
    assert load(serde, row, sealed) == 1
    assert set(asked) == {"a:1"}
    with pytest.raises(EncryptionError):
        serde.open(ROW._replace(thread_id="b:1"), sealed)
    with pytest.raises(EncryptionError, match="no encryption key for the thread 'c'"):
        store(serde, ROW._replace(thread_id="c"), 1)


def test_threads_do_not_share_a_derived_key() -> None:
    tag, sealed = AesGcm(Keys("k", {"k": KEY})).seal(ROW, b"data")
    head, nonce, rest = sealed[:3], sealed[3:15], sealed[15:]
    with pytest.raises(InvalidTag):
        AESGCM(KEY).decrypt(nonce, rest, head + identity(ROW))
    assert tag == "aes-gcm"


def test_a_saver_that_knows_no_rows_gets_encrypted_values() -> None:
    serde = EncryptedSerializer(KEY).allow(t.Point)
    tag, data = serde.dumps_typed([t.Point("secret")])
    assert b"secret" not in data
    assert serde.loads_typed((tag, data)) == [t.Point("secret")]
    with pytest.raises(EncryptionError):
        serde.open(ROW, (tag, data))
    with pytest.raises(EncryptionError):
        serde.loads_typed(store(serde, ROW, 1))


class Xor:
    """A cipher of the user's own. It does not authenticate."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "xor", bytes(byte ^ 7 for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        if ciphername != "xor":
            raise ValueError("not mine")
        return bytes(byte ^ 7 for byte in ciphertext)


def test_a_cipher_of_ones_own_is_bound_to_rows_too() -> None:
    serde = EncryptedSerializer(Xor())
    sealed = store(serde, ROW, {"a": 1})
    assert sealed[0] == "cipher:xor"
    assert load(serde, ROW, sealed) == {"a": 1}
    for row, data in ((ROW._replace(channel="x"), sealed), (ROW, ("cipher:other", sealed[1]))):
        with pytest.raises(EncryptionError):
            serde.open(row, data)
    assert serde.reseal(ROW, sealed) == sealed
    assert serde.loads_typed(serde.dumps_typed([1])) == [1]


def test_known_types_reach_the_serializer_inside() -> None:
    serde = EncryptedSerializer(KEY, JsonPlusSerializer(pickle_fallback=True))
    derived = serde.with_types([t.Point])
    assert load(derived, ROW, store(derived, ROW, t.Point(1))) == t.Point(1)
    assert isinstance(derived, RowSerializer)
    assert (derived.seals, serde.inner is derived.inner) == (True, False)
    assert derived.dumps_items([1, "a"]) == [b"\x01", b"\xa1a"]


@pytest.mark.parametrize("variable", ["THREADMARK_AES_KEY", "LANGGRAPH_AES_KEY"])
def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.delenv("THREADMARK_AES_KEY", raising=False)
    monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
    with pytest.raises(InvalidArgumentError, match="THREADMARK_AES_KEY"):
        EncryptedSerializer.from_pycryptodome_aes()
    for text, key in (("x" * 16, b"x" * 16), (KEY.hex(), KEY)):
        monkeypatch.setenv(variable, text)
        sealed = store(EncryptedSerializer.from_pycryptodome_aes(), ROW, 1)
        assert load(EncryptedSerializer.from_pycryptodome_aes(key=key), ROW, sealed) == 1
    monkeypatch.setenv(variable, "short")
    with pytest.raises(InvalidArgumentError, match="16, 24 or 32 bytes"):
        EncryptedSerializer.from_pycryptodome_aes()


def test_bad_keys_are_refused_at_once_and_never_shown() -> None:
    for bad in (b"short", Keys):
        with pytest.raises((InvalidArgumentError, TypeError)):
            EncryptedSerializer(bad).dumps_typed(1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="not among the keys"):
        Keys("a", {"b": KEY})
    with pytest.raises(InvalidArgumentError):
        Keys("", {"": KEY})
    with pytest.raises(InvalidArgumentError, match="a list of keys"):
        EncryptedSerializer(KEY, searchable="user_id")
    assert "kkk" not in repr(Keys.of(KEY)) + repr(EncryptedSerializer(KEY))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(MissingDependencyError, match=r"threadmark\[crypto\]"):
        EncryptedSerializer(os.urandom(32))


def test_what_is_inside_is_still_checked() -> None:
    serde = EncryptedSerializer(KEY)
    sealed = serde.seal(ROW, ("msgpack", b"\xc1"))
    with pytest.raises(SerializationError):
        load(serde, ROW, sealed)
