"""Names our tables in a Postgres database, and brings them up to date.

Statements are written with plain names, `tm_threads` for a table and `ix_threads_by_time` for an index;
`Names` puts the schema and the prefix in, quoted. A table says which version the tables of each
component have. Nothing here knows what they store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from psycopg import sql

from threadmark._checks import shown
from threadmark._db.effects import Execute, Operation, Transaction
from threadmark.errors import InvalidArgumentError, StorageFormatError

__all__ = ["Names", "migrate"]

_LONGEST = 63
"""Postgres cuts longer names off, so that two of them could become the same."""
_LONGEST_OWN = 30

_NAME = re.compile(r"\b(tm|ix)_(\w+)")

_HAS_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"
_HAS_TABLE = "SELECT to_regclass($1)::text"
_LOCK = "SELECT pg_advisory_xact_lock($1)"
_CREATE_COMPONENTS = """
    CREATE TABLE IF NOT EXISTS tm_components (component text PRIMARY KEY, version integer NOT NULL)
"""
_GET_VERSION = "SELECT version FROM tm_components WHERE component = $1"
_SET_VERSION = """
    INSERT INTO tm_components (component, version) VALUES ($1, $2)
    ON CONFLICT (component) DO UPDATE SET version = excluded.version
"""


@dataclass(frozen=True, slots=True)
class Names:
    """Where tables are, and what their names begin with.

    Args:
        schema: Their schema; `None`: the one that the connection is in.
        prefix: What their names begin with.

    Raises:
        InvalidArgumentError: Postgres could not keep such names apart.
    """

    schema: str | None
    prefix: str

    def __post_init__(self) -> None:
        if self.schema is not None:
            _check("schema", self.schema, _LONGEST)
        _check("prefix", self.prefix, _LONGEST - _LONGEST_OWN)
        if self.schema == "":
            raise InvalidArgumentError("schema is a name, or None for the schema that a connection is in.")

    def table(self, name: str) -> str:
        """Return a table's full name, quoted."""
        parts = [self.prefix + name] if self.schema is None else [self.schema, self.prefix + name]
        return sql.Identifier(*parts).as_string(None)

    def index(self, name: str) -> str:
        """Return an index's name, quoted. It is in the schema of its table."""
        return sql.Identifier(self.prefix + name).as_string(None)

    def worded(self, text: str) -> str:
        """Return a statement with the full names in it."""
        return _NAME.sub(lambda m: self.table(m[2]) if m[1] == "tm" else self.index(m[2]), text)

    @property
    def lock(self) -> int:
        """The number of the lock for changes of these tables."""
        return int.from_bytes(blake2b(self.table("").encode(), digest_size=8).digest(), signed=True)


def migrate(names: Names, component: str, migrations: Sequence[Sequence[str]]) -> Operation[None]:
    """Create a component's tables, or bring them up to date.

    Args:
        names: Where they are.
        component: Whose tables they are.
        migrations: The statements that lead from one version to the next; the first entry makes
            version 1 from nothing.

    Raises:
        StorageFormatError: They were made by a later release.
    """
    # Most often there is nothing to do, and then nobody waits for the lock.
    version = yield from _version(names, component)
    if version != len(migrations):
        yield Transaction(_migrate(names, component, migrations))


def _version(names: Names, component: str) -> Operation[int]:
    if (yield Execute(_HAS_TABLE, (names.table("components"),)))[0][0] is None:
        return 0
    rows = yield Execute(names.worded(_GET_VERSION), (component,))
    return int(rows[0][0]) if rows else 0


def _migrate(names: Names, component: str, migrations: Sequence[Sequence[str]]) -> Operation[None]:
    yield Execute(_LOCK, (names.lock,))
    if names.schema is not None and not (yield Execute(_HAS_SCHEMA, (names.schema,))):
        yield Execute(f"CREATE SCHEMA IF NOT EXISTS {sql.Identifier(names.schema).as_string(None)}")
    version = yield from _version(names, component)
    if version > len(migrations):
        raise StorageFormatError(
            f"{names.table('components')} says that the {component} tables are of version {version}, and "
            f"this release knows versions up to {len(migrations)}. Install a newer threadmark."
        )
    yield Execute(names.worded(_CREATE_COMPONENTS))
    for statements in migrations[version:]:
        for statement in statements:
            yield Execute(names.worded(statement))
    yield Execute(names.worded(_SET_VERSION), (component, len(migrations)))


def _check(what: str, name: object, longest: int) -> None:
    if not isinstance(name, str) or "\x00" in name:
        raise InvalidArgumentError(f"{what} is a text without NUL, not {shown(name)}.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what} {name!r} holds a lone surrogate.") from error
    if size > longest:
        raise InvalidArgumentError(f"{what} {name!r} is {size} bytes long, and {longest} are the most.")
