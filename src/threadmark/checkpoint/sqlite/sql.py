"""Every statement that the SQLite saver runs, and the tables that they run on.

The tables are described in `docs/format.md`. A thread is known by the number of its row, which SQLite
never gives out twice, so it also tells a thread from an earlier one of the same id.
"""

from __future__ import annotations

from threadmark.checkpoint._sql.statements import Statements

__all__ = ["MIGRATIONS", "STATEMENTS"]

_VERSION_1 = (
    """
    CREATE TABLE tm_threads (
        thread INTEGER PRIMARY KEY AUTOINCREMENT,
        thread_id TEXT NOT NULL UNIQUE,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        status TEXT NOT NULL,
        expires INTEGER,
        ttl INTEGER,
        labels TEXT,
        metadata_tag TEXT,
        metadata BLOB
    )
    """,
    "CREATE INDEX tm_threads_by_time ON tm_threads (updated, thread)",
    "CREATE INDEX tm_threads_by_status ON tm_threads (status, updated, thread)",
    "CREATE INDEX tm_threads_by_expiry ON tm_threads (expires) WHERE expires IS NOT NULL",
    """
    CREATE TABLE tm_labels (
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        updated INTEGER NOT NULL,
        thread INTEGER NOT NULL,
        PRIMARY KEY (name, value, updated, thread)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE tm_leases (
        thread_id TEXT PRIMARY KEY,
        token TEXT NOT NULL,
        expires INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE tm_heads (
        thread INTEGER NOT NULL,
        ns TEXT NOT NULL,
        branch TEXT NOT NULL,
        space INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        id TEXT NOT NULL,
        automatic INTEGER NOT NULL,
        PRIMARY KEY (thread, ns, branch)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX tm_heads_by_space ON tm_heads (thread, space)",
    """
    CREATE TABLE tm_checkpoints (
        thread INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        space INTEGER NOT NULL,
        id TEXT NOT NULL,
        parent INTEGER,
        created INTEGER NOT NULL,
        body_tag TEXT NOT NULL,
        body BLOB NOT NULL,
        metadata_tag TEXT NOT NULL,
        metadata BLOB NOT NULL,
        PRIMARY KEY (thread, seq)
    ) WITHOUT ROWID
    """,
    "CREATE UNIQUE INDEX tm_checkpoints_by_id ON tm_checkpoints (thread, space, id)",
    """
    CREATE TABLE tm_runs (
        thread INTEGER NOT NULL,
        run_id TEXT NOT NULL,
        PRIMARY KEY (thread, run_id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX tm_runs_by_id ON tm_runs (run_id)",
    """
    CREATE TABLE tm_values (
        thread INTEGER NOT NULL,
        space INTEGER NOT NULL,
        version TEXT NOT NULL,
        channel TEXT NOT NULL,
        sliced INTEGER NOT NULL,
        tag TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (thread, space, version, channel)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE tm_logs (
        thread INTEGER NOT NULL,
        space INTEGER NOT NULL,
        channel TEXT NOT NULL,
        log TEXT NOT NULL,
        start INTEGER NOT NULL,
        count INTEGER NOT NULL,
        sizes BLOB,
        tag TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (thread, space, channel, log, start)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE tm_writes (
        thread INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        task_id TEXT NOT NULL,
        idx INTEGER NOT NULL,
        channel TEXT NOT NULL,
        tag TEXT NOT NULL,
        data BLOB NOT NULL,
        path TEXT NOT NULL,
        PRIMARY KEY (thread, seq, task_id, idx)
    ) WITHOUT ROWID
    """,
)

MIGRATIONS = (_VERSION_1,)

_CHECKPOINT = """
    SELECT c.seq, c.space,
        (SELECT h.ns FROM tm_heads h WHERE h.thread = c.thread AND h.space = c.space LIMIT 1),
        c.id, CASE WHEN c.parent IS NOT NULL THEN coalesce(p.id, '') END, c.created,
        c.body_tag, c.body, c.metadata_tag, c.metadata
    FROM tm_checkpoints c
    LEFT JOIN tm_checkpoints p ON p.thread = c.thread AND p.seq = c.parent
"""

_THREAD = "t.thread, t.thread_id, t.created, t.updated, t.status, t.expires, t.metadata_tag, t.metadata"

STATEMENTS = Statements(
    find_standing="""
        SELECT t.thread, t.updated, t.status, t.expires,
            (SELECT max(c.seq) FROM tm_checkpoints c WHERE c.thread = t.thread),
            h.space, h.seq, h.id,
            CASE WHEN h.space IS NULL THEN (
                SELECT n.seq FROM (
                    SELECT c.seq, c.space FROM tm_checkpoints c WHERE c.thread = t.thread
                    ORDER BY c.seq DESC LIMIT 1
                ) n
                WHERE NOT EXISTS (SELECT 1 FROM tm_heads o WHERE o.thread = t.thread AND o.space = n.space)
            ) END
        FROM tm_threads t
        LEFT JOIN tm_heads h ON h.thread = t.thread AND h.ns = ? AND h.branch = ?
        WHERE t.thread_id = ?
    """,
    create_thread="""
        INSERT INTO tm_threads
            (thread_id, created, updated, status, expires, ttl, labels, metadata_tag, metadata)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    """,
    find_thread="SELECT thread FROM tm_threads WHERE thread_id = ?",
    get_upkeep="""
        SELECT updated, expires, ttl, labels, metadata_tag, metadata FROM tm_threads WHERE thread = ?
    """,
    touch_thread="""
        UPDATE tm_threads
        SET status = ?, updated = ?, expires = ?, ttl = ?, labels = ?, metadata_tag = ?, metadata = ?
        WHERE thread = ?
    """,
    set_labels="UPDATE tm_threads SET labels = ? WHERE thread = ?",
    set_ttl="UPDATE tm_threads SET ttl = ?, expires = ? WHERE thread = ?",
    find_space="SELECT space FROM tm_heads WHERE thread = ? AND ns = ? LIMIT 1",
    create_head="""
        INSERT INTO tm_heads (thread, ns, branch, space, seq, id, automatic)
        VALUES (?, ?, ?, ?, ?, ?, ?)
    """,
    move_head="UPDATE tm_heads SET seq = ?, id = ? WHERE thread = ? AND ns = ? AND branch = ?",
    drop_head="DELETE FROM tm_heads WHERE thread = ? AND ns = ? AND branch = ?",
    find_lost="""
        SELECT 1 FROM tm_checkpoints c WHERE c.thread = ?1
            AND NOT EXISTS (SELECT 1 FROM tm_heads h WHERE h.thread = ?1 AND h.space = c.space)
        LIMIT 1
    """,
    find_gone_tip="""
        SELECT h.id FROM tm_heads h WHERE h.thread = ?1 AND (?2 IS NULL OR h.ns = ?2)
            AND NOT EXISTS (SELECT 1 FROM tm_checkpoints c WHERE c.thread = ?1 AND c.seq = h.seq)
        LIMIT 1
    """,
    list_heads="SELECT ns, branch, space, seq, id, automatic FROM tm_heads WHERE thread = ?",
    get_thread=f"""
        SELECT {_THREAD} FROM tm_threads t
        WHERE t.thread_id = ?1 AND (t.expires IS NULL OR t.expires > ?2)
    """,
    page_by_time=f"""
        SELECT {_THREAD} FROM tm_threads t
        WHERE (t.updated, t.thread) < (?1, ?2) AND t.updated >= ?3
            AND (t.expires IS NULL OR t.expires > ?4)
        ORDER BY t.updated DESC, t.thread DESC LIMIT ?5
    """,
    page_by_status=f"""
        SELECT {_THREAD} FROM tm_threads t
        WHERE t.status = ?1 AND (t.updated, t.thread) < (?2, ?3) AND t.updated >= ?4
            AND (t.expires IS NULL OR t.expires > ?5)
        ORDER BY t.updated DESC, t.thread DESC LIMIT ?6
    """,
    page_by_label=f"""
        SELECT {_THREAD} FROM tm_labels l JOIN tm_threads t ON t.thread = l.thread
        WHERE l.name = ?1 AND l.value = ?2 AND (l.updated, l.thread) < (?3, ?4) AND l.updated >= ?5
            AND (t.expires IS NULL OR t.expires > ?6) AND (?7 IS NULL OR t.status = ?7)
        ORDER BY l.updated DESC, l.thread DESC LIMIT ?8
    """,
    count_threads="""
        SELECT count(*) FROM tm_threads
        WHERE (expires IS NULL OR expires > ?1) AND (?2 IS NULL OR status = ?2)
    """,
    count_label="""
        SELECT count(*) FROM (SELECT 1 FROM tm_labels WHERE name = ?1 AND value = ?2 LIMIT ?3)
    """,
    add_label="INSERT OR REPLACE INTO tm_labels (name, value, updated, thread) VALUES (?, ?, ?, ?)",
    drop_label="DELETE FROM tm_labels WHERE name = ? AND value = ? AND updated = ? AND thread = ?",
    forget_labels="DELETE FROM tm_labels WHERE thread = ?",
    find_lease="SELECT token, expires FROM tm_leases WHERE thread_id = ?",
    set_lease="INSERT OR REPLACE INTO tm_leases (thread_id, token, expires) VALUES (?, ?, ?)",
    drop_lease="DELETE FROM tm_leases WHERE thread_id = ? AND token = ?",
    forget_lease="DELETE FROM tm_leases WHERE thread_id = ?",
    find_number="SELECT seq FROM tm_checkpoints WHERE thread = ? AND space = ? AND id = ?",
    has_child="SELECT 1 FROM tm_checkpoints WHERE thread = ? AND parent = ? LIMIT 1",
    create_checkpoint="""
        INSERT INTO tm_checkpoints
            (thread, seq, space, id, parent, created, body_tag, body, metadata_tag, metadata)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """,
    replace_checkpoint="""
        UPDATE tm_checkpoints
        SET parent = ?, body_tag = ?, body = ?, metadata_tag = ?, metadata = ?
        WHERE thread = ? AND seq = ?
    """,
    get_checkpoint=_CHECKPOINT + "WHERE c.thread = ?1 AND c.seq = ?2",
    page_of_thread=_CHECKPOINT
    + """
        WHERE c.thread = ?1 AND c.seq < ?2 AND (?3 IS NULL OR c.id = ?3)
            AND (?4 IS NULL OR c.space = (
                SELECT h.space FROM tm_heads h WHERE h.thread = ?1 AND h.ns = ?4 LIMIT 1
            ))
        ORDER BY c.seq DESC LIMIT ?5
    """,
    page_of_threads="""
        SELECT thread, thread_id, updated FROM tm_threads
        WHERE (expires IS NULL OR expires > ?1) AND (updated, thread) < (?2, ?3)
        ORDER BY updated DESC, thread DESC LIMIT ?4
    """,
    note_run="INSERT INTO tm_runs (thread, run_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
    create_value="""
        INSERT INTO tm_values (thread, space, version, channel, sliced, tag, data)
        VALUES (?, ?, ?, ?, ?, ?, ?)
    """,
    get_values="""
        SELECT v.space, v.version, v.channel, v.sliced, v.tag, v.data
        FROM json_each(?1) j CROSS JOIN tm_values v
        ON v.thread = ?2 AND v.space = json_extract(j.value, '$[0]')
            AND v.version = json_extract(j.value, '$[1]') AND v.channel = json_extract(j.value, '$[2]')
    """,
    create_chunk="""
        INSERT INTO tm_logs (thread, space, channel, log, start, count, sizes, tag, data)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    """,
    find_log_end="""
        SELECT start + count FROM tm_logs
        WHERE thread = ? AND space = ? AND channel = ? AND log = ?
        ORDER BY start DESC LIMIT 1
    """,
    get_chunks="""
        SELECT l.space, l.channel, l.log, l.start, l.count, l.sizes, l.tag, l.data
        FROM (
            SELECT json_extract(value, '$[0]') AS space, json_extract(value, '$[1]') AS channel,
                json_extract(value, '$[2]') AS log, json_extract(value, '$[3]') AS low,
                json_extract(value, '$[4]') AS high
            FROM json_each(?1)
        ) j CROSS JOIN tm_logs l
        ON l.thread = ?2 AND l.space = j.space AND l.channel = j.channel AND l.log = j.log
            AND l.start < j.high AND l.start >= (
                SELECT max(f.start) FROM tm_logs f
                WHERE f.thread = ?2 AND f.space = j.space AND f.channel = j.channel AND f.log = j.log
                    AND f.start <= j.low
            )
    """,
    add_write="""
        INSERT INTO tm_writes (thread, seq, task_id, idx, channel, tag, data, path)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT DO NOTHING
    """,
    replace_write="""
        INSERT OR REPLACE INTO tm_writes (thread, seq, task_id, idx, channel, tag, data, path)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    """,
    get_writes="""
        SELECT w.seq, w.task_id, w.idx, w.channel, w.tag, w.data, w.path
        FROM json_each(?1) j CROSS JOIN tm_writes w ON w.thread = ?2 AND w.seq = j.value
    """,
    delete_thread=(
        "DELETE FROM tm_writes WHERE thread = ?",
        "DELETE FROM tm_logs WHERE thread = ?",
        "DELETE FROM tm_values WHERE thread = ?",
        "DELETE FROM tm_runs WHERE thread = ?",
        "DELETE FROM tm_checkpoints WHERE thread = ?",
        "DELETE FROM tm_heads WHERE thread = ?",
        "DELETE FROM tm_threads WHERE thread = ?",
    ),
    find_expired="SELECT thread FROM tm_threads WHERE expires IS NOT NULL AND expires <= ? LIMIT ?",
    list_bodies="""
        SELECT c.seq, c.space,
            (SELECT h.ns FROM tm_heads h WHERE h.thread = c.thread AND h.space = c.space LIMIT 1),
            c.id, c.parent, c.created, c.body_tag, c.body
        FROM tm_checkpoints c WHERE c.thread = ?
    """,
    set_parent="UPDATE tm_checkpoints SET parent = ? WHERE thread = ? AND seq = ?",
    drop_checkpoint="DELETE FROM tm_checkpoints WHERE thread = ? AND seq = ?",
    drop_writes="DELETE FROM tm_writes WHERE thread = ? AND seq = ?",
    list_values="""
        SELECT space, version, channel, CASE WHEN sliced THEN tag END, CASE WHEN sliced THEN data END
        FROM tm_values WHERE thread = ?
    """,
    drop_value="DELETE FROM tm_values WHERE thread = ? AND space = ? AND version = ? AND channel = ?",
    list_chunks="SELECT space, channel, log, start, count FROM tm_logs WHERE thread = ?",
    drop_chunk="""
        DELETE FROM tm_logs
        WHERE thread = ? AND space = ? AND channel = ? AND log = ? AND start = ?
    """,
    threads_of_run="""
        SELECT t.thread, t.thread_id FROM tm_runs r JOIN tm_threads t ON t.thread = r.thread
        WHERE r.run_id = ?
    """,
    forget_run="DELETE FROM tm_runs WHERE thread = ? AND run_id = ?",
    free_space="PRAGMA freelist_count",
    give_back="PRAGMA incremental_vacuum(1000)",
    copy_thread_row="""
        INSERT INTO tm_threads
            (thread_id, created, updated, status, expires, ttl, labels, metadata_tag, metadata)
        SELECT ?, ?, ?, status, expires, ttl, labels, metadata_tag, metadata
        FROM tm_threads WHERE thread = ?
    """,
    copy_labels="""
        INSERT INTO tm_labels (name, value, updated, thread)
        SELECT json_extract(j.value, '$[0]'), json_extract(j.value, '$[1]'), ?, ?
        FROM tm_threads t, json_each(t.labels) j WHERE t.thread = ?
    """,
    copy_rows=(
        "INSERT INTO tm_heads SELECT ?, ns, branch, space, seq, id, automatic FROM tm_heads WHERE thread = ?",
        """
        INSERT INTO tm_checkpoints
        SELECT ?, seq, space, id, parent, created, body_tag, body, metadata_tag, metadata
        FROM tm_checkpoints WHERE thread = ?
        """,
        "INSERT INTO tm_runs SELECT ?, run_id FROM tm_runs WHERE thread = ?",
        """
        INSERT INTO tm_values SELECT ?, space, version, channel, sliced, tag, data
        FROM tm_values WHERE thread = ?
        """,
        """
        INSERT INTO tm_logs SELECT ?, space, channel, log, start, count, sizes, tag, data
        FROM tm_logs WHERE thread = ?
        """,
        """
        INSERT INTO tm_writes SELECT ?, seq, task_id, idx, channel, tag, data, path
        FROM tm_writes WHERE thread = ?
        """,
    ),
    reseal={
        "checkpoint": "UPDATE tm_checkpoints SET body_tag = ?, body = ? WHERE thread = ? AND seq = ?",
        "metadata": "UPDATE tm_checkpoints SET metadata_tag = ?, metadata = ? WHERE thread = ? AND seq = ?",
        "value": """
            UPDATE tm_values SET tag = ?, data = ?
            WHERE thread = ? AND space = ? AND version = ? AND channel = ?
        """,
        "log": """
            UPDATE tm_logs SET tag = ?, data = ?
            WHERE thread = ? AND space = ? AND channel = ? AND log = ? AND start = ?
        """,
        "write": """
            UPDATE tm_writes SET tag = ?, data = ?
            WHERE thread = ? AND seq = ? AND task_id = ? AND idx = ?
        """,
        "thread": "UPDATE tm_threads SET metadata_tag = ?, metadata = ? WHERE thread = ?",
    },
    all_checkpoints="""
        SELECT seq, space, id, body_tag, body, metadata_tag, metadata
        FROM tm_checkpoints WHERE thread = ?
    """,
    all_values="SELECT space, version, channel, tag, data FROM tm_values WHERE thread = ?",
    all_chunks="SELECT space, channel, log, start, tag, data FROM tm_logs WHERE thread = ?",
    all_writes="SELECT seq, task_id, idx, channel, tag, data FROM tm_writes WHERE thread = ?",
    thread_metadata="SELECT metadata_tag, metadata FROM tm_threads WHERE thread = ?",
)
