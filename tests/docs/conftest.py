"""A database for the pages about Postgres, which find it where programs do: in `DATABASE_URL`."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from postgres.conftest import server, shared_folder, uri
from postgres.server import fresh

__all__ = ["database", "server", "shared_folder", "uri"]


@pytest.fixture
def database(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an empty database, and name it in the environment."""
    name = fresh()
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    monkeypatch.setenv("DATABASE_URL", make_conninfo(uri, dbname=name))
