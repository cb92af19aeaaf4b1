"""Every statement of the Postgres saver, by name, but for the two that `step` and `opening` make.

Plain names stand for the full ones (see `threadmark._db.postgres_tables`). A statement of several parts
first waits for whoever works on the same thread, and then looks: a single statement would look first.
Only transactions that write do so, and hold what they find: a thread may have been created in between.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from threadmark._db.postgres_session import HELD, NEXT
from threadmark._db.postgres_tables import Names
from threadmark.checkpoint._sql.statements import Statements

__all__ = ["CHECKPOINT", "LOST", "statements_for"]

_LOCK_ID = "SELECT 1 FROM tm_threads WHERE thread_id = {} FOR UPDATE"
# Postgres wants to know the types of parameters, also of those that are there for the next part only.
_LOCK = f"SELECT 1 FROM tm_threads WHERE thread = $1 FOR UPDATE{NEXT}"

CHECKPOINT = """
    SELECT c.seq, c.space,
        (SELECT h.ns FROM tm_heads h WHERE h.thread = c.thread AND h.space = c.space LIMIT 1) AS ns,
        c.id, CASE WHEN c.parent IS NOT NULL THEN coalesce(p.id, '') END AS parent_id, c.created,
        c.body_tag, c.body, c.metadata_tag, c.metadata
    FROM tm_checkpoints c
    LEFT JOIN tm_checkpoints p ON p.thread = c.thread AND p.seq = c.parent
"""
"""The columns in which checkpoints are read."""

LOST = """
    CASE WHEN h.space IS NULL THEN (
        SELECT n.seq FROM (
            SELECT c.seq, c.space FROM tm_checkpoints c WHERE c.thread = t.thread ORDER BY c.seq DESC LIMIT 1
        ) n
        WHERE NOT EXISTS (SELECT 1 FROM tm_heads o WHERE o.thread = t.thread AND o.space = n.space)
    ) END
"""
"""The newest checkpoint of the thread `t`, if it has not the head `h`, and none leads to that checkpoint."""

_THREAD = "t.thread, t.thread_id, t.created, t.updated, t.status, t.expires, t.metadata_tag, t.metadata"

_STATEMENTS = Statements(
    find_standing=f"""
        {_LOCK_ID.format("$3 AND $1::text IS NOT NULL AND $2::text IS NOT NULL")}
        {NEXT}
        SELECT t.thread, t.updated, t.status, t.expires,
            (SELECT max(c.seq) FROM tm_checkpoints c WHERE c.thread = t.thread),
            h.space, h.seq, h.id, {LOST}
        FROM tm_threads t
        LEFT JOIN tm_heads h ON h.thread = t.thread AND h.ns = $1 AND h.branch = $2
        WHERE t.thread_id = $3 {HELD}
    """,
    create_thread="""
        INSERT INTO tm_threads
            (thread_id, created, updated, status, expires, ttl, labels, metadata_tag, metadata)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    """,
    find_thread=f"""
        {_LOCK_ID.format("$1")}
        {NEXT}
        SELECT t.thread FROM tm_threads t WHERE t.thread_id = $1 {HELD}
    """,
    get_upkeep=f"""
        {_LOCK}
        SELECT updated, expires, ttl, labels, metadata_tag, metadata FROM tm_threads WHERE thread = $1
    """,
    touch_thread="""
        UPDATE tm_threads
        SET status = $1, updated = $2, expires = $3, ttl = $4, labels = $5, metadata_tag = $6, metadata = $7
        WHERE thread = $8
    """,
    set_labels="UPDATE tm_threads SET labels = $1 WHERE thread = $2",
    set_ttl="UPDATE tm_threads SET ttl = $1, expires = $2 WHERE thread = $3",
    find_space="SELECT space FROM tm_heads WHERE thread = $1 AND ns = $2 LIMIT 1",
    create_head="""
        INSERT INTO tm_heads (thread, ns, branch, space, seq, id, automatic)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
    """,
    move_head="UPDATE tm_heads SET seq = $1, id = $2 WHERE thread = $3 AND ns = $4 AND branch = $5",
    drop_head="DELETE FROM tm_heads WHERE thread = $1 AND ns = $2 AND branch = $3",
    find_lost="""
        SELECT 1 FROM tm_checkpoints c WHERE c.thread = $1
            AND NOT EXISTS (SELECT 1 FROM tm_heads h WHERE h.thread = $1 AND h.space = c.space)
        LIMIT 1
    """,
    find_gone_tip="""
        SELECT h.id FROM tm_heads h WHERE h.thread = $1 AND ($2::text IS NULL OR h.ns = $2)
            AND NOT EXISTS (SELECT 1 FROM tm_checkpoints c WHERE c.thread = $1 AND c.seq = h.seq)
        LIMIT 1
    """,
    list_heads="SELECT ns, branch, space, seq, id, automatic FROM tm_heads WHERE thread = $1",
    get_thread=f"""
        {_LOCK_ID.format("$1 AND $2::bigint IS NOT NULL")}
        {NEXT}
        SELECT {_THREAD} FROM tm_threads t
        WHERE t.thread_id = $1 AND (t.expires IS NULL OR t.expires > $2) {HELD}
    """,
    page_by_time=f"""
        SELECT {_THREAD} FROM tm_threads t
        WHERE (t.updated, t.thread) < ($1, $2) AND t.updated >= $3
            AND (t.expires IS NULL OR t.expires > $4)
        ORDER BY t.updated DESC, t.thread DESC LIMIT $5
    """,
    page_by_status=f"""
        SELECT {_THREAD} FROM tm_threads t
        WHERE t.status = $1 AND (t.updated, t.thread) < ($2, $3) AND t.updated >= $4
            AND (t.expires IS NULL OR t.expires > $5)
        ORDER BY t.updated DESC, t.thread DESC LIMIT $6
    """,
    page_by_label=f"""
        SELECT {_THREAD} FROM tm_labels l JOIN tm_threads t ON t.thread = l.thread
        WHERE l.name = $1 AND l.value = $2 AND (l.updated, l.thread) < ($3, $4) AND l.updated >= $5
            AND (t.expires IS NULL OR t.expires > $6) AND ($7::text IS NULL OR t.status = $7)
        ORDER BY l.updated DESC, l.thread DESC LIMIT $8
    """,
    count_threads="""
        SELECT count(*) FROM tm_threads
        WHERE (expires IS NULL OR expires > $1) AND ($2::text IS NULL OR status = $2)
    """,
    count_label="""
        SELECT count(*) FROM (SELECT 1 FROM tm_labels WHERE name = $1 AND value = $2 LIMIT $3) AS found
    """,
    add_label="""
        INSERT INTO tm_labels (name, value, updated, thread) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
    """,
    drop_label="DELETE FROM tm_labels WHERE name = $1 AND value = $2 AND updated = $3 AND thread = $4",
    forget_labels="DELETE FROM tm_labels WHERE thread = $1",
    # A row that is there can be locked, so one is made that anybody may take.
    find_lease=f"""
        INSERT INTO tm_leases (thread_id, token, expires) VALUES ($1, '', 0) ON CONFLICT DO NOTHING
        {NEXT}
        SELECT token, expires FROM tm_leases WHERE thread_id = $1 FOR UPDATE
    """,
    set_lease="""
        INSERT INTO tm_leases (thread_id, token, expires) VALUES ($1, $2, $3)
        ON CONFLICT (thread_id) DO UPDATE SET token = excluded.token, expires = excluded.expires
    """,
    drop_lease="DELETE FROM tm_leases WHERE thread_id = $1 AND token = $2",
    forget_lease="DELETE FROM tm_leases WHERE thread_id = $1",
    find_number="SELECT seq FROM tm_checkpoints WHERE thread = $1 AND space = $2 AND id = $3",
    has_child="SELECT 1 FROM tm_checkpoints WHERE thread = $1 AND parent = $2 LIMIT 1",
    create_checkpoint="""
        INSERT INTO tm_checkpoints
            (thread, seq, space, id, parent, created, body_tag, body, metadata_tag, metadata)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    """,
    replace_checkpoint="""
        UPDATE tm_checkpoints
        SET parent = $1, body_tag = $2, body = $3, metadata_tag = $4, metadata = $5
        WHERE thread = $6 AND seq = $7
    """,
    get_checkpoint=CHECKPOINT + "WHERE c.thread = $1 AND c.seq = $2",
    page_of_thread=CHECKPOINT
    + """
        WHERE c.thread = $1 AND c.seq < $2 AND ($3::text IS NULL OR c.id = $3)
            AND ($4::text IS NULL OR c.space = (
                SELECT h.space FROM tm_heads h WHERE h.thread = $1 AND h.ns = $4 LIMIT 1
            ))
        ORDER BY c.seq DESC LIMIT $5
    """,
    page_of_threads="""
        SELECT thread, thread_id, updated FROM tm_threads
        WHERE (expires IS NULL OR expires > $1) AND (updated, thread) < ($2, $3)
        ORDER BY updated DESC, thread DESC LIMIT $4
    """,
    note_run="INSERT INTO tm_runs (thread, run_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    create_value="""
        INSERT INTO tm_values (thread, space, version, channel, sliced, tag, data, slices)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    """,
    get_values="""
        SELECT v.space, v.version, v.channel, v.sliced, v.tag, v.data
        FROM jsonb_array_elements($1::text::jsonb) j
        JOIN tm_values v ON v.thread = $2 AND v.space = (j ->> 0)::bigint
            AND v.version = j ->> 1 AND v.channel = j ->> 2
    """,
    create_chunk="""
        INSERT INTO tm_logs (thread, space, channel, log, start, count, sizes, tag, data)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    """,
    find_log_end="""
        SELECT start + count FROM tm_logs
        WHERE thread = $1 AND space = $2 AND channel = $3 AND log = $4
        ORDER BY start DESC LIMIT 1
    """,
    get_chunks="""
        SELECT l.space, l.channel, l.log, l.start, l.count, l.sizes, l.tag, l.data
        FROM (
            SELECT (j ->> 0)::bigint AS space, j ->> 1 AS channel, j ->> 2 AS log,
                (j ->> 3)::bigint AS low, (j ->> 4)::bigint AS high
            FROM jsonb_array_elements($1::text::jsonb) j
        ) j
        CROSS JOIN LATERAL (
            SELECT max(f.start) AS start FROM tm_logs f
            WHERE f.thread = $2 AND f.space = j.space AND f.channel = j.channel AND f.log = j.log
                AND f.start <= j.low
        ) f
        JOIN tm_logs l ON l.thread = $2 AND l.space = j.space AND l.channel = j.channel AND l.log = j.log
            AND l.start >= f.start AND l.start < j.high
    """,
    add_write="""
        INSERT INTO tm_writes (thread, seq, task_id, idx, channel, tag, data, path)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT DO NOTHING
    """,
    replace_write="""
        INSERT INTO tm_writes (thread, seq, task_id, idx, channel, tag, data, path)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (thread, seq, task_id, idx) DO UPDATE
        SET channel = excluded.channel, tag = excluded.tag, data = excluded.data, path = excluded.path
    """,
    get_writes="""
        SELECT w.seq, w.task_id, w.idx, w.channel, w.tag, w.data, w.path
        FROM jsonb_array_elements($1::text::jsonb) j
        JOIN tm_writes w ON w.thread = $2 AND w.seq = (j #>> '{}')::bigint
        ORDER BY w.seq, w.task_id, w.idx
    """,
    delete_thread=(
        "DELETE FROM tm_writes WHERE thread = $1",
        "DELETE FROM tm_logs WHERE thread = $1",
        "DELETE FROM tm_values WHERE thread = $1",
        "DELETE FROM tm_runs WHERE thread = $1",
        "DELETE FROM tm_checkpoints WHERE thread = $1",
        "DELETE FROM tm_heads WHERE thread = $1",
        "DELETE FROM tm_threads WHERE thread = $1",
    ),
    find_expired="""
        SELECT thread FROM tm_threads WHERE expires IS NOT NULL AND expires <= $1
        LIMIT $2 FOR UPDATE SKIP LOCKED
    """,
    list_bodies=f"""
        {_LOCK}
        SELECT c.seq, c.space,
            (SELECT h.ns FROM tm_heads h WHERE h.thread = c.thread AND h.space = c.space LIMIT 1),
            c.id, c.parent, c.created, c.body_tag, c.body
        FROM tm_checkpoints c WHERE c.thread = $1 ORDER BY c.seq
    """,
    set_parent="UPDATE tm_checkpoints SET parent = $1 WHERE thread = $2 AND seq = $3",
    drop_checkpoint="DELETE FROM tm_checkpoints WHERE thread = $1 AND seq = $2",
    drop_writes="DELETE FROM tm_writes WHERE thread = $1 AND seq = $2",
    list_values="""
        SELECT space, version, channel, CASE WHEN sliced THEN tag END, CASE WHEN sliced THEN data END
        FROM tm_values WHERE thread = $1
    """,
    drop_value="DELETE FROM tm_values WHERE thread = $1 AND space = $2 AND version = $3 AND channel = $4",
    list_chunks="SELECT space, channel, log, start, count FROM tm_logs WHERE thread = $1",
    drop_chunk="""
        DELETE FROM tm_logs
        WHERE thread = $1 AND space = $2 AND channel = $3 AND log = $4 AND start = $5
    """,
    threads_of_run="""
        SELECT t.thread, t.thread_id FROM tm_runs r JOIN tm_threads t ON t.thread = r.thread
        WHERE r.run_id = $1
    """,
    forget_run="DELETE FROM tm_runs WHERE thread = $1 AND run_id = $2",
    free_space=None,
    give_back=None,
    copy_thread_row="""
        INSERT INTO tm_threads
            (thread_id, created, updated, status, expires, ttl, labels, metadata_tag, metadata)
        SELECT $1, $2, $3, status, expires, ttl, labels, metadata_tag, metadata
        FROM tm_threads WHERE thread = $4
    """,
    copy_labels="""
        INSERT INTO tm_labels (name, value, updated, thread)
        SELECT j ->> 0, j ->> 1, $1, $2 FROM tm_threads t, jsonb_array_elements(t.labels::jsonb) j
        WHERE t.thread = $3
    """,
    copy_rows=(
        """
        INSERT INTO tm_heads (thread, ns, branch, space, seq, id, automatic)
        SELECT $1, ns, branch, space, seq, id, automatic FROM tm_heads WHERE thread = $2
        """,
        """
        INSERT INTO tm_checkpoints
            (thread, seq, space, id, parent, created, body_tag, body, metadata_tag, metadata)
        SELECT $1, seq, space, id, parent, created, body_tag, body, metadata_tag, metadata
        FROM tm_checkpoints WHERE thread = $2
        """,
        "INSERT INTO tm_runs (thread, run_id) SELECT $1, run_id FROM tm_runs WHERE thread = $2",
        """
        INSERT INTO tm_values (thread, space, version, channel, sliced, slices, tag, data)
        SELECT $1, space, version, channel, sliced, slices, tag, data FROM tm_values WHERE thread = $2
        """,
        """
        INSERT INTO tm_logs (thread, space, channel, log, start, count, sizes, tag, data)
        SELECT $1, space, channel, log, start, count, sizes, tag, data FROM tm_logs WHERE thread = $2
        """,
        """
        INSERT INTO tm_writes (thread, seq, task_id, idx, channel, tag, data, path)
        SELECT $1, seq, task_id, idx, channel, tag, data, path FROM tm_writes WHERE thread = $2
        """,
    ),
    reseal={
        "checkpoint": "UPDATE tm_checkpoints SET body_tag = $1, body = $2 WHERE thread = $3 AND seq = $4",
        "metadata": """
            UPDATE tm_checkpoints SET metadata_tag = $1, metadata = $2 WHERE thread = $3 AND seq = $4
        """,
        "value": """
            UPDATE tm_values SET tag = $1, data = $2
            WHERE thread = $3 AND space = $4 AND version = $5 AND channel = $6
        """,
        "log": """
            UPDATE tm_logs SET tag = $1, data = $2
            WHERE thread = $3 AND space = $4 AND channel = $5 AND log = $6 AND start = $7
        """,
        "write": """
            UPDATE tm_writes SET tag = $1, data = $2
            WHERE thread = $3 AND seq = $4 AND task_id = $5 AND idx = $6
        """,
        "thread": "UPDATE tm_threads SET metadata_tag = $1, metadata = $2 WHERE thread = $3",
    },
    all_checkpoints="""
        SELECT seq, space, id, body_tag, body, metadata_tag, metadata FROM tm_checkpoints WHERE thread = $1
    """,
    all_values="SELECT space, version, channel, tag, data FROM tm_values WHERE thread = $1",
    all_chunks="SELECT space, channel, log, start, tag, data FROM tm_logs WHERE thread = $1",
    all_writes="SELECT seq, task_id, idx, channel, tag, data FROM tm_writes WHERE thread = $1",
    thread_metadata="SELECT metadata_tag, metadata FROM tm_threads WHERE thread = $1",
)


def statements_for(names: Names) -> Statements:
    """Return the statements with the full names of the tables in them."""
    return Statements(**{f.name: _worded(getattr(_STATEMENTS, f.name), names) for f in fields(_STATEMENTS)})


def _worded(statement: Any, names: Names) -> Any:
    if isinstance(statement, str):
        return names.worded(statement)
    if isinstance(statement, tuple):
        return tuple(_worded(one, names) for one in statement)
    if isinstance(statement, dict):
        return {kind: _worded(one, names) for kind, one in statement.items()}
    return statement
