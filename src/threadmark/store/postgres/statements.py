"""All SQL of the Postgres store. Plain names stand for the full ones (see `threadmark._db.postgres_tables`).

Values, keys, namespaces and paths are bound. Three things are put into statements as text: the columns of
a record, `{narrowed}`, what `prefilter` makes of a filter, which consists of its own templates only, and
the size of vectors, a number.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MIGRATIONS", "RECORD", "VECTOR_MIGRATIONS", "Vectors"]

MIGRATIONS: Final = [
    [
        "CREATE SEQUENCE tm_versions",
        # seq is the version that created the item. It is never used again, and sorts items by age.
        # doc is the value once more, for filters, unless it holds what jsonb cannot.
        """
        CREATE TABLE tm_items (
            seq bigint PRIMARY KEY,
            namespace bytea NOT NULL,
            key bytea NOT NULL,
            value bytea NOT NULL,
            doc jsonb,
            words tsvector,
            version bigint NOT NULL,
            created_at bigint NOT NULL,
            updated_at bigint NOT NULL,
            ttl bigint,
            expires_at bigint,
            fields text
        )
        """,
        "CREATE UNIQUE INDEX ix_items_by_key ON tm_items (namespace, key)",
        "CREATE INDEX ix_items_by_age ON tm_items (namespace, seq)",
        "CREATE INDEX ix_items_by_expiry ON tm_items (expires_at) WHERE expires_at IS NOT NULL",
        "CREATE INDEX ix_items_by_doc ON tm_items USING gin (doc jsonb_path_ops)",
        "CREATE INDEX ix_items_without_doc ON tm_items (seq) WHERE doc IS NULL",
        "CREATE INDEX ix_items_by_words ON tm_items USING gin (words)",
    ],
]

VECTOR_MIGRATIONS: Final = [
    [
        "CREATE EXTENSION IF NOT EXISTS vector",
        # An item may have several vectors. They may come from several models, whose sizes differ.
        """
        CREATE TABLE tm_vectors (
            seq bigint NOT NULL,
            part integer NOT NULL,
            namespace bytea NOT NULL,
            dims integer NOT NULL,
            embedding vector NOT NULL,
            PRIMARY KEY (seq, part)
        )
        """,
        "CREATE INDEX ix_vectors_by_namespace ON tm_vectors (namespace)",
    ],
]

RECORD: Final = """
    i.seq, i.namespace, i.key, i.value, i.version, i.created_at, i.updated_at, i.ttl, i.expires_at, i.fields
"""
_ALIVE = "(i.expires_at IS NULL OR i.expires_at > $3)"
_BELOW = "i.namespace >= $1 AND i.namespace < $2"

# Writing. All of it happens inside a transaction.

NEXT_VERSION: Final = "SELECT nextval($1::text::regclass)"

INSERT: Final = """
    INSERT INTO tm_items
        (value, doc, words, version, updated_at, ttl, expires_at, fields, seq, created_at, namespace, key)
    VALUES ($1, $2::text::jsonb, $3::text::tsvector, $4, $5, $6, $7, $8, $9, $10, $11, $12)
"""
REPLACE: Final = """
    UPDATE tm_items
    SET value = $1, doc = $2::text::jsonb, words = $3::text::tsvector, version = $4, updated_at = $5,
        ttl = $6, expires_at = $7, fields = $8
    WHERE seq = $9
"""
REMOVE: Final = "DELETE FROM tm_items WHERE seq = ANY($1::bigint[])"
ADD_VECTOR: Final = """
    INSERT INTO tm_vectors (seq, part, namespace, dims, embedding) VALUES ($1, $2, $3, $4, $5::text::vector)
"""
DROP_VECTORS: Final = "DELETE FROM tm_vectors WHERE seq = ANY($1::bigint[])"

# Who locks several items locks them in the order of their keys, or leaves out those that are locked, so that
# nobody waits for one another. What is not there yet cannot be locked: writers to the same places wait
# for one another at numbers that stand for these.
LOCK_PLACES: Final = """
    SELECT pg_advisory_xact_lock_shared($1), pg_advisory_xact_lock(number) FROM unnest($2::bigint[]) AS number
"""
LOCK_ALL_PLACES: Final = "SELECT pg_advisory_xact_lock($1)"
LOCK_ITEMS: Final = """
    SELECT 1 FROM unnest($1::bytea[], $2::bytea[]) AS p (namespace, key)
    JOIN tm_items i ON i.namespace = p.namespace AND i.key = p.key
    ORDER BY i.namespace, i.key FOR UPDATE OF i
"""
TOUCH: Final = """
    UPDATE tm_items i SET expires_at = $1::bigint + i.ttl FROM (
        SELECT i.seq FROM unnest($2::bigint[], $3::bigint[]) AS r (seq, version)
        JOIN tm_items i ON i.seq = r.seq AND i.version = r.version
        ORDER BY i.namespace, i.key FOR UPDATE OF i
    ) l
    WHERE i.seq = l.seq
"""

# Reading

FIND: Final = f"SELECT {RECORD} FROM tm_items i WHERE namespace = $1 AND key = $2"
FIND_FOR_UPDATE: Final = f"{FIND} FOR UPDATE"

EXPIRED: Final = f"""
    SELECT {RECORD} FROM tm_items i WHERE expires_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED
"""
COUNT: Final = f"SELECT count(*) FROM tm_items i WHERE {_BELOW} AND {_ALIVE}"

# Records by age, before or after a number.
PAGE: Final = {
    descending: f"""
        SELECT {RECORD} FROM tm_items i
        WHERE {_BELOW} AND {_ALIVE} AND i.seq {compare} $4 AND {{narrowed}}
        ORDER BY i.seq {order} LIMIT $5 OFFSET $6
    """
    for descending, compare, order in ((False, ">", "ASC"), (True, "<", "DESC"))
}

# Records in the order of the index, to read them all.
SCAN: Final = f"""
    SELECT {RECORD} FROM tm_items i
    WHERE {_BELOW} AND {_ALIVE} AND (i.namespace, i.key) > ($4, $5) AND {{narrowed}}
    ORDER BY i.namespace, i.key LIMIT $6
"""

# From one namespace to the next with one look into the index each, however many items they hold. What is
# filtered afterwards stays in the order in which it was found, and ends when there is enough.
_LIVES: Final = """
    EXISTS (
        SELECT 1 FROM tm_items l
        WHERE l.namespace = i.namespace AND (l.expires_at IS NULL OR l.expires_at > $4)
    ) AS lives
"""
NAMESPACES: Final = f"""
    WITH RECURSIVE found AS (
        SELECT n.namespace, n.lives FROM (
            SELECT i.namespace, {_LIVES} FROM tm_items i
            WHERE i.namespace > $1 AND i.namespace >= $2 AND i.namespace < $3
            ORDER BY i.namespace LIMIT 1
        ) n
        UNION ALL
        SELECT n.namespace, n.lives FROM found, LATERAL (
            SELECT i.namespace, {_LIVES} FROM tm_items i
            WHERE i.namespace > found.namespace AND i.namespace < $3
            ORDER BY i.namespace LIMIT 1
        ) n
    )
    SELECT namespace FROM found WHERE lives LIMIT $5
"""

# Records by words, the best first.
MATCHING: Final = f"""
    SELECT {RECORD}, ts_rank(i.words, $4::text::tsquery, 1) AS score
    FROM tm_items i
    WHERE {_BELOW} AND {_ALIVE} AND i.words @@ $4::text::tsquery AND {{narrowed}}
    ORDER BY score DESC, i.seq LIMIT $5 OFFSET $6
"""

HAS_VECTORS: Final = "SELECT EXISTS (SELECT 1 FROM tm_vectors WHERE dims = $1)"
# Whether it can be used, and whether it is being made.
FIND_INDEX: Final = """
    SELECT i.indisvalid, EXISTS (
        SELECT 1 FROM pg_catalog.pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid
    )
    FROM pg_catalog.pg_index i WHERE i.indexrelid = to_regclass($1)
"""

_OPERATORS: Final = {"ip": "<#>", "l2": "<->"}
_LARGEST_VECTOR = 2_000
_LARGEST_HALF = 4_000
"""The largest vectors that pgvector indexes, with 32 and with 16 bits for each number."""


class Vectors:
    """The statements for vectors of one size, compared in one way.

    Args:
        dims: The size.
        distance: `"ip"` for the inner product, `"l2"` for the distance.
    """

    def __init__(self, dims: int, distance: str) -> None:
        kind = "vector" if dims <= _LARGEST_VECTOR else "halfvec"
        self.index = f"vectors_{dims}_{distance}"
        self.can_be_indexed = dims <= _LARGEST_HALF
        half = f"::halfvec({dims})" if kind == "halfvec" else ""
        near = f"(v.embedding::vector({dims}){half})"
        wanted = f"$4::text::{kind}({dims})"
        apart = f"{near} {_OPERATORS[distance]} {wanted}"
        found = f"""
            SELECT {RECORD}, {apart} AS apart
            FROM tm_vectors v JOIN tm_items i ON i.seq = v.seq
            WHERE v.dims = {dims} AND v.namespace >= $1 AND v.namespace < $2 AND {_ALIVE} AND {{narrowed}}
        """
        self.create_index = f"""
            CREATE INDEX {{how}} IF NOT EXISTS ix_{self.index} ON tm_vectors
            USING hnsw ({near.replace("v.", "")} {kind}_{distance}_ops) WHERE dims = {dims}
        """
        # The setting holds for the statement: without it, the index gives up after a few candidates.
        self.nearest = f"""
            WITH s AS MATERIALIZED (SELECT set_config('hnsw.iterative_scan', 'strict_order', true))
            SELECT f.* FROM s, LATERAL ({found} ORDER BY {apart} LIMIT $5) f
        """
        # What is added hides the order from the index.
        self.exact = f"{found} ORDER BY ({apart}) + 0, i.seq LIMIT $5"
