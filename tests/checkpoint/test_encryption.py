"""Where the serializer encrypts, nothing of the user's stands in clear, and no row can be forged."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.base import TaskWrites
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer, Keys
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import EncryptionError, InvalidArgumentError, SerializationError, StorageCorruptError

from .helpers import Run, config, fill, shown

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
SECRET = "the-secret-word"


def filled(path: Path, **options: Any) -> None:
    with SqliteSaver(path, serde=EncryptedSerializer(OLD, **options)) as saver:
        for thread_id in ("t", "other"):
            run = Run(saver, thread_id)
            for n in range(3):
                about = {"user": SECRET, "team": "clear"}
                task = TaskWrites(f"task{n}", "~", [("l", SECRET)])
                run.step(f"c{n}", writes=[task] if n else [], about=about, l=[SECRET] * n, d={"k": SECRET})


def everything(path: Path, serde: Any) -> list[Any]:
    with SqliteSaver(path, serde=serde) as saver:
        return [shown(saver, thread_id) for thread_id in ("t", "other")]


def test_nothing_of_the_users_stands_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    filled(path, searchable=["team"])
    assert SECRET.encode() not in path.read_bytes()
    with SqliteSaver(path, serde=EncryptedSerializer(OLD, searchable=["team"])) as saver:
        assert Run(saver).values == {"l": [SECRET] * 2, "d": {"k": SECRET}}
        for wanted in ({"team": "clear"}, {"user": SECRET}, {"user": SECRET, "team": "clear"}):
            found = saver.threads.search(wanted).threads
            assert {thread.thread_id for thread in found} == {"t", "other"}


def labels(path: Path) -> list[tuple[str, str]]:
    other = sqlite3.connect(path)
    try:
        return other.execute("SELECT DISTINCT name, value FROM tm_labels ORDER BY 1, 2").fetchall()
    finally:
        other.close()


def found(saver: Any, **wanted: Any) -> set[str]:
    return {thread.thread_id for thread in saver.threads.search(wanted).threads}


def test_threads_are_found_by_searchable_keys_in_the_index_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    filled(path, searchable=["team"])
    assert labels(path) == [("team", '"clear')]
    with SqliteSaver(path, serde=EncryptedSerializer(OLD, searchable=["team"])) as saver:
        other = sqlite3.connect(path)
        other.execute("DELETE FROM tm_labels WHERE thread = 1")
        other.commit()
        other.close()
        assert found(saver, team="clear") == {"other"}, "what the index lacks is not looked for elsewhere"
        assert found(saver, user=SECRET) == {"t", "other"}, "what is in no index is compared"


def test_rotation_follows_a_change_of_what_may_be_searched(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    filled(path, searchable=["team"])
    for searchable, expected in (
        (["user", "team"], [("team", '"clear'), ("user", f'"{SECRET}')]),
        (["user"], [("user", f'"{SECRET}')]),
        ([], []),
        (["team"], [("team", '"clear')]),
    ):
        with SqliteSaver(path, serde=EncryptedSerializer(OLD, searchable=searchable)) as saver:
            assert saver.rotate() == 2
            assert saver.rotate() == 0
            assert found(saver, team="clear") == found(saver, user=SECRET) == {"t", "other"}
        assert labels(path) == expected


def test_beginning_to_encrypt_takes_labels_out_of_the_clear(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path) as saver:
        Run(saver, "t").step("c0", about={"user": SECRET, "team": "clear"}, l=["x"])
    assert ("user", f'"{SECRET}') in labels(path)
    serde = EncryptedSerializer(OLD, searchable=["team"], accept_plaintext=True)
    with SqliteSaver(path, serde=serde) as saver:
        assert saver.rotate() > 0
    assert labels(path) == [("team", '"clear')]
    with SqliteSaver(path, serde=EncryptedSerializer(OLD, searchable=["team"])) as saver:
        assert found(saver, team="clear") == found(saver, user=SECRET) == {"t"}


@pytest.mark.parametrize("serde", [EncryptedSerializer(NEW), None])
def test_another_key_or_none_reads_nothing_and_overwrites_nothing(tmp_path: Path, serde: Any) -> None:
    path = tmp_path / "x.db"
    filled(path)
    before = everything(path, EncryptedSerializer(OLD))
    with SqliteSaver(path, serde=serde) as saver:
        with pytest.raises(SerializationError):
            saver.get_tuple(config("t"))
        with pytest.raises(SerializationError):
            list(saver.list(None))
    assert everything(path, EncryptedSerializer(OLD)) == before


def test_plaintext_is_refused_once_there_is_encryption(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path) as saver:
        fill(saver)
    with SqliteSaver(path, serde=EncryptedSerializer(OLD)) as saver, pytest.raises(EncryptionError):
        saver.get_tuple(config("t"))


MOVES = {
    "a checkpoint to another thread": """
        UPDATE tm_checkpoints AS c SET (body_tag, body) = (
            SELECT o.body_tag, o.body FROM tm_checkpoints o WHERE o.thread = 2 AND o.seq = c.seq
        ) WHERE c.thread = 1
    """,
    "an older checkpoint over a newer": """
        UPDATE tm_checkpoints AS c SET (body_tag, body) = (
            SELECT o.body_tag, o.body FROM tm_checkpoints o WHERE o.thread = 1 AND o.seq = 1
        ) WHERE c.thread = 1
    """,
    "metadata to another checkpoint": """
        UPDATE tm_checkpoints AS c SET (metadata_tag, metadata) = (
            SELECT o.metadata_tag, o.metadata FROM tm_checkpoints o WHERE o.thread = 1 AND o.seq = 1
        ) WHERE c.thread = 1
    """,
    "a value to another channel": """
        UPDATE tm_values AS v SET (tag, data) = (
            SELECT o.tag, o.data FROM tm_values o
            WHERE o.thread = 1 AND o.channel = 'l' AND o.version = v.version
        ) WHERE v.thread = 1 AND v.channel = 'd'
    """,
    "an older value over a newer": """
        UPDATE tm_values AS v SET (tag, data) = (
            SELECT o.tag, o.data FROM tm_values o WHERE o.thread = 1 AND o.channel = 'd' LIMIT 1
        ) WHERE v.thread = 1 AND v.channel = 'd'
    """,
    "items of a list to another thread": """
        UPDATE tm_logs AS l SET (tag, data) = (
            SELECT o.tag, o.data FROM tm_logs o WHERE o.thread = 2 AND o.start = l.start
        ) WHERE l.thread = 1
    """,
    "items of a list to another place": """
        UPDATE tm_logs AS l SET (tag, data) = (
            SELECT o.tag, o.data FROM tm_logs o WHERE o.thread = 1 AND o.start = 0
        ) WHERE l.thread = 1
    """,
    "a write to another task": """
        UPDATE tm_writes SET task_id = 'other' WHERE thread = 1
    """,
    "a value turned into plaintext": """
        UPDATE tm_values SET tag = 'msgpack', data = x'a3666f6f' WHERE thread = 1 AND channel = 'd'
    """,
    "a value that is removed": "DELETE FROM tm_values WHERE thread = 1 AND channel = 'd'",
    "items that are removed": "DELETE FROM tm_logs WHERE thread = 1 AND start = 0",
    "a flipped bit": "UPDATE tm_values SET data = CAST(x'00' || substr(data, 2) AS BLOB) WHERE thread = 1",
}


@pytest.mark.parametrize("move", MOVES)
def test_a_row_that_was_moved_changed_or_removed_is_noticed(tmp_path: Path, move: str) -> None:
    path = tmp_path / "x.db"
    filled(path)
    other = sqlite3.connect(path)
    assert other.execute(MOVES[move]).rowcount > 0
    other.commit()
    other.close()
    with SqliteSaver(path, serde=EncryptedSerializer(OLD)) as saver:
        with pytest.raises((EncryptionError, StorageCorruptError)):
            list(saver.list(config("t")))
        assert len(list(saver.list(config("other")))) == 3


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_rotation_encrypts_with_the_new_key_and_can_be_begun_again(tmp_path: Path, kind: str) -> None:
    old, both, new = (EncryptedSerializer(key) for key in (OLD, Keys.of(NEW, OLD), NEW))
    saver: Any = SqliteSaver(tmp_path / "x.db", serde=old) if kind == "sqlite" else InMemorySaver(serde=old)
    fill(saver)
    before = shown(saver)
    saver.serde = both
    assert shown(saver) == before
    assert saver.rotate(["unknown"]) == 0
    assert saver.rotate() > 0
    assert saver.rotate() == saver.rotate(["t"]) == 0
    saver.serde = new
    assert shown(saver) == before
    Run(saver).step("after", l=["after"])
    saver.serde = old
    with pytest.raises(EncryptionError):
        saver.get_tuple(config("t"))
    if kind == "sqlite":
        saver.close()


async def test_encryption_can_begin_with_a_window_for_plaintext(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqliteSaver(path) as saver:
        fill(saver)
        before = shown(saver)
    with SqliteSaver(path, serde=EncryptedSerializer(NEW, accept_plaintext=True)) as saver:
        assert shown(saver) == before
        assert await saver.arotate(["t"]) > 0
    with SqliteSaver(path, serde=EncryptedSerializer(NEW)) as saver:
        assert shown(saver) == before


def test_rotation_needs_a_serializer_that_encrypts() -> None:
    for saver in (InMemorySaver(), SqliteSaver(":memory:")):
        with pytest.raises(InvalidArgumentError):
            saver.rotate(["t"])


def test_the_memory_saver_shows_nothing_in_clear() -> None:
    saver = InMemorySaver(serde=EncryptedSerializer(OLD))
    Run(saver).step("c0", about={"user": SECRET}, l=[SECRET], d=SECRET)
    Run(saver).save(TaskWrites("t", "", [("l", SECRET)]))
    assert SECRET not in repr((saver.storage, saver.blobs, saver.writes))
    assert found(saver, user=SECRET) == {"t"}
