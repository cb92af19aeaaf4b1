"""One Postgres server for all tests of a run, and a schema for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .server import Server


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder that all workers of a run see."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session")
def server(shared_folder: Path) -> Iterator[Server]:
    """The server."""
    running = Server(shared_folder / "postgres")
    yield running
    running.close()


@pytest.fixture(scope="session")
def uri(server: Server) -> str:
    """Where the server is."""
    return server.uri
