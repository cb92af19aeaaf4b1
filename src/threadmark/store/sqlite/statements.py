"""All SQL of the SQLite store.

Values, keys, namespaces and JSON paths are bound. Two things are put into statements as text: the
columns of a record, and `{narrowed}`, what `prefilter` makes of a filter, which consists of its own
templates only. Namespaces are compared as bytes: see `threadmark.store.namespaces`.
"""

from __future__ import annotations

MIGRATIONS = [
    [
        # seq is the version that created the item. It is never used again, and sorts items by age.
        # vectors_at is the key of the item's row in threadmark_vectors.
        """
        CREATE TABLE threadmark_items (
            seq INTEGER PRIMARY KEY,
            namespace BLOB NOT NULL,
            key BLOB NOT NULL,
            value TEXT NOT NULL,
            version INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            ttl INTEGER,
            expires_at INTEGER,
            fields TEXT,
            vectors_at INTEGER,
            has_words INTEGER NOT NULL
        )
        """,
        "CREATE UNIQUE INDEX threadmark_items_by_key ON threadmark_items (namespace, key)",
        "CREATE INDEX threadmark_items_by_age ON threadmark_items (namespace, seq)",
        """
        CREATE INDEX threadmark_items_by_expiry ON threadmark_items (expires_at)
        WHERE expires_at IS NOT NULL
        """,
        """
        CREATE INDEX threadmark_items_by_vectors ON threadmark_items (vectors_at)
        WHERE vectors_at IS NOT NULL
        """,
        # One row holds all vectors of an item, as little-endian 32-bit floats.
        """
        CREATE TABLE threadmark_vectors (
            version INTEGER PRIMARY KEY,
            seq INTEGER NOT NULL,
            dims INTEGER NOT NULL,
            vectors BLOB NOT NULL
        )
        """,
        # The texts in it are words that were cut by us, so that all this tokenizer does is to split
        # at spaces. The first column names the namespaces that the item is below.
        "CREATE VIRTUAL TABLE threadmark_words USING fts5(spaces, words, tokenize = 'ascii')",
        # The one row holds the last version that was given.
        "CREATE TABLE threadmark_versions (last INTEGER NOT NULL)",
        "INSERT INTO threadmark_versions (last) VALUES (0)",
    ],
]

_RECORD = """seq, namespace, key, CAST(value AS BLOB), version, created_at, updated_at, ttl,
    expires_at, fields, vectors_at, has_words"""
_BELOW = "namespace >= ? AND namespace < ?"
_ALIVE = "(expires_at IS NULL OR expires_at > ?)"

# Writing. All of it happens inside a transaction that holds the write lock.

NEXT_VERSION = "UPDATE threadmark_versions SET last = last + 1 RETURNING last"

INSERT = """
INSERT INTO threadmark_items
    (value, version, updated_at, ttl, expires_at, fields, vectors_at, has_words, seq,
     created_at, namespace, key)
VALUES (CAST(? AS TEXT), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
REPLACE = """
UPDATE threadmark_items
SET value = CAST(? AS TEXT), version = ?, updated_at = ?, ttl = ?, expires_at = ?, fields = ?,
    vectors_at = ?, has_words = ?
WHERE seq = ?
"""
REMOVE = "DELETE FROM threadmark_items WHERE seq = ?"
TOUCH = "UPDATE threadmark_items SET expires_at = ? + ttl WHERE seq = ? AND version = ?"

ADD_VECTORS = "INSERT INTO threadmark_vectors (version, seq, dims, vectors) VALUES (?, ?, ?, ?)"
DROP_VECTORS = "DELETE FROM threadmark_vectors WHERE version = ?"
ADD_WORDS = "INSERT INTO threadmark_words (rowid, spaces, words) VALUES (?, ?, ?)"
DROP_WORDS = "DELETE FROM threadmark_words WHERE rowid = ?"

# Reading

FIND = f"SELECT {_RECORD} FROM threadmark_items WHERE namespace = ? AND key = ?"

EXPIRED = f"SELECT {_RECORD} FROM threadmark_items WHERE expires_at <= ? LIMIT ?"

COUNT = f"SELECT count(*) FROM threadmark_items WHERE {_BELOW} AND {_ALIVE}"

# The first and the last namespace below a prefix.
ENDS = f"""
SELECT (SELECT min(namespace) FROM threadmark_items WHERE {_BELOW}),
       (SELECT max(namespace) FROM threadmark_items WHERE {_BELOW})
"""

# Records by age: of one namespace, of several, of all. Left alone, SQLite might walk through all items
# to find the few of some namespaces.
PAGE = {
    (reach, descending): f"""
        SELECT {_RECORD} FROM threadmark_items {index}
        WHERE {where} AND {_ALIVE} AND seq {compare} ? AND {{narrowed}}
        ORDER BY seq {order} LIMIT ? OFFSET ?
        """
    for reach, index, where in (
        ("one", "INDEXED BY threadmark_items_by_age", "namespace = ?"),
        ("some", "INDEXED BY threadmark_items_by_key", _BELOW),
        ("all", "NOT INDEXED", _BELOW),
    )
    for descending, compare, order in ((False, ">", "ASC"), (True, "<", "DESC"))
}

# Records in the order of the index, to read them all.
SCAN = f"""
SELECT {_RECORD} FROM threadmark_items INDEXED BY threadmark_items_by_key
WHERE {_BELOW} AND {_ALIVE} AND (namespace, key) > (?, ?) AND {{narrowed}}
ORDER BY namespace, key LIMIT ?
"""

# From one namespace to the next with one look into the index each, however many items they hold.
NAMESPACES = """
WITH RECURSIVE found (namespace) AS (
    SELECT min(namespace) FROM threadmark_items
    WHERE namespace > ?1 AND namespace >= ?2 AND namespace < ?3
    UNION ALL
    SELECT (SELECT min(i.namespace) FROM threadmark_items AS i
            WHERE i.namespace > found.namespace AND i.namespace < ?3)
    FROM found WHERE found.namespace IS NOT NULL
)
SELECT namespace FROM found
WHERE namespace IS NOT NULL AND EXISTS (
    SELECT 1 FROM threadmark_items AS i
    WHERE i.namespace = found.namespace AND (i.expires_at IS NULL OR i.expires_at > ?4)
)
LIMIT ?5
"""

# Vectors that were written after a version, and belong to items as they are now.
NEW_VECTORS = """
SELECT v.version, v.seq, i.namespace, v.dims, v.vectors
FROM threadmark_vectors AS v
JOIN threadmark_items AS i ON i.seq = v.seq AND i.vectors_at = v.version
WHERE v.version > ? ORDER BY v.version LIMIT ?
"""
WITH_VECTORS = "SELECT seq FROM threadmark_items WHERE vectors_at IS NOT NULL"

# The records of some numbers.
AMONG = f"""
SELECT {_RECORD} FROM threadmark_items NOT INDEXED
WHERE seq IN (SELECT value FROM json_each(?)) AND {_BELOW} AND {_ALIVE} AND {{narrowed}}
"""

# Records by words, the best first. FTS5 scores the better the lower; the names of namespaces do not
# count.
MATCHING = f"""
SELECT {_RECORD}, bm25(threadmark_words, 0.0, 1.0) AS score
FROM threadmark_words JOIN threadmark_items ON seq = threadmark_words.rowid
WHERE threadmark_words MATCH ? AND {_BELOW} AND {_ALIVE} AND {{narrowed}}
ORDER BY score, seq LIMIT ? OFFSET ?
"""
