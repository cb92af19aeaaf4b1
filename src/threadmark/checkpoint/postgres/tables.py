"""The tables of the Postgres saver, version by version.

Plain names stand for the full ones (see `threadmark._db.postgres_tables`). Every key leads with the
thread, whose number is made of the time and a random part, so that nothing counts across threads.
Texts are compared byte by byte. A table that holds rows of threads may be split by their hash.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["MIGRATIONS", "migrations"]

_NEW_THREAD = """
    ((extract(epoch FROM clock_timestamp()) * 1000)::bigint << 20) | floor(random() * 1048576)::bigint
"""
_SPLIT = "/* split */"
_SPLIT_LOOSE = "/* split loose */"
_LOOSE = "WITH (fillfactor = 50)"
"""A head moves with every checkpoint, and finds room for that where it is."""

_VERSION_1 = (
    f"""
    CREATE TABLE tm_threads (
        thread bigint PRIMARY KEY DEFAULT ({_NEW_THREAD}),
        thread_id text COLLATE "C" NOT NULL,
        created bigint NOT NULL,
        updated bigint NOT NULL,
        status text COLLATE "C" NOT NULL,
        expires bigint,
        ttl bigint,
        labels text,
        metadata_tag text,
        metadata bytea
    )
    """,
    "CREATE UNIQUE INDEX ix_threads_by_id ON tm_threads (thread_id)",
    "CREATE INDEX ix_threads_by_time ON tm_threads (updated, thread)",
    "CREATE INDEX ix_threads_by_status ON tm_threads (status, updated, thread)",
    "CREATE INDEX ix_threads_by_expiry ON tm_threads (expires) WHERE expires IS NOT NULL",
    """
    CREATE TABLE tm_labels (
        name text COLLATE "C" NOT NULL,
        value text COLLATE "C" NOT NULL,
        updated bigint NOT NULL,
        thread bigint NOT NULL,
        PRIMARY KEY (thread, name, value, updated)
    )
    """,
    "CREATE INDEX ix_labels_by_value ON tm_labels (name, value, updated, thread)",
    """
    CREATE TABLE tm_leases (
        thread_id text COLLATE "C" PRIMARY KEY,
        token text NOT NULL,
        expires bigint NOT NULL
    )
    """,
    f"""
    CREATE TABLE tm_heads (
        thread bigint NOT NULL,
        ns text COLLATE "C" NOT NULL,
        branch text COLLATE "C" NOT NULL,
        space bigint NOT NULL,
        seq bigint NOT NULL,
        id text COLLATE "C" NOT NULL,
        automatic boolean NOT NULL,
        PRIMARY KEY (thread, ns, branch)
    ) {_SPLIT_LOOSE}
    """,
    "CREATE INDEX ix_heads_by_space ON tm_heads (thread, space)",
    f"""
    CREATE TABLE tm_checkpoints (
        thread bigint NOT NULL,
        seq bigint NOT NULL,
        space bigint NOT NULL,
        id text COLLATE "C" NOT NULL,
        parent bigint,
        created bigint NOT NULL,
        body_tag text NOT NULL,
        body bytea NOT NULL,
        metadata_tag text NOT NULL,
        metadata bytea NOT NULL,
        PRIMARY KEY (thread, seq)
    ) {_SPLIT}
    """,
    "CREATE UNIQUE INDEX ix_checkpoints_by_id ON tm_checkpoints (thread, space, id)",
    f"""
    CREATE TABLE tm_runs (
        thread bigint NOT NULL,
        run_id text COLLATE "C" NOT NULL,
        PRIMARY KEY (thread, run_id)
    ) {_SPLIT}
    """,
    "CREATE INDEX ix_runs_by_id ON tm_runs (run_id)",
    f"""
    CREATE TABLE tm_values (
        thread bigint NOT NULL,
        space bigint NOT NULL,
        channel text COLLATE "C" NOT NULL,
        version text COLLATE "C" NOT NULL,
        sliced boolean NOT NULL,
        slices text,
        tag text NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (thread, space, channel, version)
    ) {_SPLIT}
    """,
    f"""
    CREATE TABLE tm_logs (
        thread bigint NOT NULL,
        space bigint NOT NULL,
        channel text COLLATE "C" NOT NULL,
        log text COLLATE "C" NOT NULL,
        start bigint NOT NULL,
        count bigint NOT NULL,
        sizes bytea,
        tag text NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (thread, space, channel, log, start)
    ) {_SPLIT}
    """,
    f"""
    CREATE TABLE tm_writes (
        thread bigint NOT NULL,
        seq bigint NOT NULL,
        task_id text COLLATE "C" NOT NULL,
        idx bigint NOT NULL,
        channel text NOT NULL,
        tag text NOT NULL,
        data bytea NOT NULL,
        path text NOT NULL,
        PRIMARY KEY (thread, seq, task_id, idx)
    ) {_SPLIT}
    """,
)

MIGRATIONS: Sequence[Sequence[str]] = (_VERSION_1,)
"""What leads from one version of the tables to the next."""


def migrations(partitions: int) -> Sequence[Sequence[str]]:
    """Return the migrations; with `partitions` above 0, new tables are split by the hash of the thread."""
    return [[part for one in version for part in _split(one, partitions)] for version in MIGRATIONS]


def _split(statement: str, partitions: int) -> list[str]:
    loose = _LOOSE if _SPLIT_LOOSE in statement else ""
    whole = statement.replace(_SPLIT_LOOSE, _SPLIT)
    if _SPLIT not in whole:
        return [whole]
    if not partitions:
        return [whole.replace(_SPLIT, loose)]
    name = whole.split("CREATE TABLE ", 1)[1].split()[0]
    part = "CREATE TABLE {name}_{i} PARTITION OF {name} FOR VALUES WITH (MODULUS {n}, REMAINDER {i}) {loose}"
    return [
        whole.replace(_SPLIT, "PARTITION BY HASH (thread)"),
        *(part.format(name=name, n=partitions, i=i, loose=loose) for i in range(partitions)),
    ]
