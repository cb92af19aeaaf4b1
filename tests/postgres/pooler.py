"""A pooler in transaction mode, as pgbouncer is one: each transaction may get another connection.

It forgets all state of a session after each transaction, so that nothing can depend on it.
"""

from __future__ import annotations

import asyncio
import struct
import tempfile
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_PORT = 6432
_PROTOCOL = 196608
_SSL_REQUESTS = (80877103, 80877104)
_FLUSH = b"H"
_LOST = (ConnectionError, asyncio.IncompleteReadError)


@contextmanager
def pooler(uri: str, size: int) -> Iterator[str]:
    """Run a pooler over so many connections to a server, and yield how to connect to it."""
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="pooler")
        thread.start()
        pool = _Pool({str(k): str(v) for k, v in conninfo_to_dict(uri).items()})

        def run(work: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(work, loop).result(30)

        listening = run(pool.open(f"{folder}/.s.PGSQL.{_PORT}", size))
        try:
            yield make_conninfo(uri, host=folder, port=_PORT)
        finally:
            run(pool.close(listening))
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


class _Server:
    """A connection to the server."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.greeting = b""

    async def start(self, user: str, database: str) -> None:
        names = b"".join(s.encode() + b"\0" for s in ("user", user, "database", database))
        self.writer.write(struct.pack("!ii", len(names) + 9, _PROTOCOL) + names + b"\0")
        while True:
            message = await _message(self.reader)
            self.greeting += message
            if message[:1] == b"Z":
                return

    async def forget(self) -> None:
        self.writer.write(b"Q" + struct.pack("!i", 16) + b"DISCARD ALL\0")
        while (await _message(self.reader))[:1] != b"Z":
            pass


class _Pool:
    """The connections to the server that no client has at the moment, the one that waited longest first."""

    def __init__(self, target: dict[str, str]) -> None:
        self._path = f"{target['host']}/.s.PGSQL.{target.get('port', 5432)}"
        self._names = target["user"], target["dbname"]
        self._idle: asyncio.Queue[_Server] = asyncio.Queue()
        self._clients: set[asyncio.Task[Any]] = set()
        self.answering: set[asyncio.Task[None]] = set()

    async def open(self, path: str, size: int) -> asyncio.Server:
        for _ in range(size):
            await self.add()
        return await asyncio.start_unix_server(self._serve, path)

    async def add(self) -> None:
        server = _Server(*await asyncio.open_unix_connection(self._path))
        await server.start(*self._names)
        self._idle.put_nowait(server)

    async def close(self, listening: asyncio.Server) -> None:
        listening.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await asyncio.gather(*self.answering, return_exceptions=True)
        while not self._idle.empty():
            self._idle.get_nowait().writer.close()

    async def take(self) -> _Server:
        return await self._idle.get()

    async def give_back(self, server: _Server) -> None:
        await server.forget()
        self._idle.put_nowait(server)

    async def drop(self, server: _Server) -> None:
        server.writer.close()
        await self.add()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._clients.add(task)
        try:
            if await self._greet(reader, writer):
                await _Client(self, reader, writer).serve()
        except (*_LOST, asyncio.CancelledError):
            pass
        finally:
            self._clients.discard(task)
            writer.close()

    async def _greet(self, reader: StreamReader, writer: StreamWriter) -> bool:
        while True:
            size, code = struct.unpack("!ii", await reader.readexactly(8))
            await reader.readexactly(size - 8)
            if code not in _SSL_REQUESTS:
                break
            writer.write(b"N")
        if code != _PROTOCOL:
            return False
        server = await self.take()
        writer.write(server.greeting)
        self._idle.put_nowait(server)
        return True


class _Client:
    """A client, and the connection to the server that it has during a transaction."""

    def __init__(self, pool: _Pool, reader: StreamReader, writer: StreamWriter) -> None:
        self._pool, self._reader, self._writer = pool, reader, writer
        self._server: _Server | None = None
        self._unanswered = 0
        self._unfinished = False
        self._answering: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        try:
            while (message := await _message(self._reader))[:1] != b"X":
                if self._server is None:
                    if message[:1] == _FLUSH:
                        continue
                    self._server = await self._pool.take()
                    self._answering = asyncio.create_task(self._answer(self._server))
                    self._pool.answering.add(self._answering)
                    self._answering.add_done_callback(self._pool.answering.discard)
                kind = message[:1]
                if kind != _FLUSH:
                    self._unfinished = kind not in (b"Q", b"S")
                    self._unanswered += not self._unfinished
                self._server.writer.write(message)
        finally:
            if self._server is not None and self._answering is not None:
                self._answering.cancel()
                await self._pool.drop(self._server)

    async def _answer(self, server: _Server) -> None:
        """Hand on what the server says, until the transaction is at its end."""
        while True:
            message = await _message(server.reader)
            with suppress(ConnectionError):
                self._writer.write(message)
            if message[:1] == b"Z":
                self._unanswered -= 1
                if message[5:] == b"I" and not self._unanswered and not self._unfinished:
                    break
        self._server = None
        await self._pool.give_back(server)


async def _message(reader: StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
