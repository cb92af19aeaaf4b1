"""Opens SQLite connections the way we use them, and makes sure that the file is ours.

A file that holds our tables carries our application id, and a table that names the components in it
with the version of their tables. Opening checks both, and brings older versions up to date. Nothing
here knows what the components store.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from threadmark._checks import shown
from threadmark._db.sqlite_errors import translated
from threadmark.errors import (
    InvalidArgumentError,
    StorageBusyError,
    StorageCorruptError,
    StorageFormatError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

__all__ = ["MEMORY", "Opener", "opener_for"]

MEMORY = ":memory:"
APPLICATION_ID = 0x746D726B
"""`tmrk`: what tools such as `file` and later versions recognise our files by."""

_CACHED_STATEMENTS = 256
_RETRY_SECONDS = 0.01

_HAS_COMPONENTS = "SELECT 1 FROM sqlite_schema WHERE name = 'threadmark_components'"
_CREATE_COMPONENTS = """
CREATE TABLE IF NOT EXISTS threadmark_components (
    component TEXT PRIMARY KEY, version INTEGER NOT NULL
) WITHOUT ROWID
"""
_GET_VERSION = "SELECT version FROM threadmark_components WHERE component = ?"
_SET_VERSION = "INSERT OR REPLACE INTO threadmark_components (component, version) VALUES (?, ?)"


@dataclass(slots=True)
class Opener:
    """Knows how to open one database, and prepares it before its first use."""

    name: str
    component: str
    migrations: Sequence[Sequence[str]]
    busy_timeout: float
    shared: bool
    given: sqlite3.Connection | None = None
    _ready: bool = False
    _file: tuple[str, tuple[int, int]] | None = None

    @property
    def in_memory(self) -> bool:
        """Whether there is one connection only, because another would see another database."""
        return ":memory:" in self.name or "mode=memory" in self.name

    def writer(self, durable: bool) -> sqlite3.Connection:
        """Open a connection for writing."""
        return self._opened(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")

    def reader(self) -> sqlite3.Connection:
        """Open a connection that cannot write."""
        return self._opened("PRAGMA query_only = ON")

    def check_file(self) -> None:
        """Make sure that the file is still the one that was opened first: what is written to a file that was
        deleted, or exchanged for another, is lost.

        Raises:
            StorageUnavailableError: It is not.
        """
        if self._file is None:
            return
        path, known = self._file
        if _identity(path) != known:
            raise StorageUnavailableError(
                f"{path} was deleted or exchanged for another file while it was open. Close what has it "
                f"open, and open it again."
            )

    def _opened(self, pragma: str) -> sqlite3.Connection:
        self.check_file()
        try:
            connection = self.given or self._connect()
        except sqlite3.Error as error:
            _explain_missing(self.name)
            raise translated(error, self.name) from error
        try:
            # Two threads may both get here; preparing twice is harmless.
            if not self._ready:
                self._prepare(connection)
                self._file = None if self.in_memory else _file_of(connection)
                self._ready = True
            if not self.in_memory:
                connection.execute(pragma)
        except BaseException as error:
            if self.given is None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                raise translated(error, self.name) from error
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.name,
            timeout=self.busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_CACHED_STATEMENTS,
            uri=self.name.startswith("file:"),
        )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = self._checked_version(connection)
        if version == len(self.migrations):
            return
        if not self.in_memory:
            # Both only take effect outside a transaction, and the first only in an empty file.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._until_free(lambda: connection.execute("PRAGMA journal_mode = WAL"))
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._migrate(connection, self._checked_version(connection))
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _checked_version(self, connection: sqlite3.Connection) -> int:
        """Return the version of our tables, 0 when there are none; refuse what is not ours."""
        # The tables first: both are made in one transaction, which may end between the two questions.
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION_ID and not self.shared and (application or tables):
            raise StorageFormatError(
                f"{self.name} is a database of another application and was left alone. Use another "
                f"path, or pass shared=True to keep our tables beside the others."
            )
        if not connection.execute(_HAS_COMPONENTS).fetchone():
            return 0
        row = connection.execute(_GET_VERSION, (self.component,)).fetchone()
        version = row[0] if row else 0
        if type(version) is not int or version < 0:
            raise StorageCorruptError(
                f"{self.name} does not say which version its {self.component} tables have. Restore a backup.",
                table="threadmark_components",
                column="version",
            )
        if version > len(self.migrations):
            raise StorageFormatError(
                f"{self.name} holds {self.component} tables of version {version}, and this release "
                f"knows versions up to {len(self.migrations)}. Install a newer threadmark."
            )
        return version

    def _migrate(self, connection: sqlite3.Connection, version: int) -> None:
        if not self.shared:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(_CREATE_COMPONENTS)
        for statements in self.migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(_SET_VERSION, (self.component, len(self.migrations)))

    def _until_free(self, action: Callable[[], object]) -> None:
        # Changing the journal mode reports a busy database at once, whatever the busy timeout.
        deadline = time.monotonic() + self.busy_timeout
        while True:
            try:
                action()
                return
            except sqlite3.OperationalError as error:
                busy = isinstance(translated(error, self.name), StorageBusyError)
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from all others, `None` if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _file_of(connection: sqlite3.Connection) -> tuple[str, tuple[int, int]] | None:
    """Return the path of the file that a connection has open, and its identity."""
    path = next((row[2] for row in connection.execute("PRAGMA database_list") if row[1] == "main"), "")
    identity = _identity(path) if path else None
    return None if identity is None else (path, identity)


def _explain_missing(name: str) -> None:
    """Say why a file cannot be opened, if that is easy to see.

    Raises:
        StorageReadOnlyError: Its folder is missing, or it is a folder itself.
    """
    if name.startswith("file:"):
        return
    folder = os.path.dirname(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise StorageReadOnlyError(f"{name}: the folder {folder} does not exist. Create it first.")
    if os.path.isdir(name):
        raise StorageReadOnlyError(f"{name} is a folder. Name a file in it.")


def opener_for(
    target: str | os.PathLike[str] | sqlite3.Connection,
    component: str,
    migrations: Sequence[Sequence[str]],
    busy_timeout: float,
    shared: bool,
) -> Opener:
    """Return the opener for a path, a URI or a connection.

    Raises:
        InvalidArgumentError: The target is none of these, or a connection that we cannot use.
    """
    if not isinstance(target, sqlite3.Connection):
        return Opener(_path(target), component, migrations, busy_timeout, shared)
    name = _path_of(target)
    given = target if name == MEMORY else None
    return Opener(name, component, migrations, busy_timeout, shared, given)


def _path(target: object) -> str:
    if isinstance(target, (str, os.PathLike)):
        path = os.fspath(target)
        if isinstance(path, str) and path and "\x00" not in path:
            return path
    raise InvalidArgumentError(
        f"A SQLite database (conn) is a path, ':memory:', a file: URI or a connection, not {shown(target)}."
    )


def _path_of(connection: sqlite3.Connection) -> str:
    try:
        files = connection.execute("PRAGMA database_list").fetchall()
    except sqlite3.Error as error:
        raise InvalidArgumentError(
            f"The connection cannot be used: {error}. Pass the path instead."
        ) from error
    name = next((row[2] for row in files if row[1] == "main" and row[2]), MEMORY)
    if name == MEMORY and (connection.row_factory or getattr(connection, "autocommit", -1) is False):
        raise InvalidArgumentError(
            "A connection to a database in memory is used as it is, so it must have neither a "
            "row_factory nor autocommit=False. Pass a plain sqlite3.connect(':memory:')."
        )
    return name
