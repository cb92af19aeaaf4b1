"""Removes expired items now and then, from a thread that ends with its store.

Expired items are never returned, swept or not; sweeping only gives their space back. This module
knows nothing of a store but how to make it sweep.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future

from threadmark.errors import ThreadmarkError

__all__ = ["Sweeper"]

_log = logging.getLogger("threadmark.store")


class Sweeper:
    """A thread that calls a method at intervals, until it is stopped or the method's object is gone.

    Args:
        sweep: The method.
    """

    def __init__(self, sweep: Callable[[], object]) -> None:
        self._sweep = weakref.WeakMethod(sweep)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._done: Future[None] = Future()

    def start(self, seconds: float) -> Future[None]:
        """Start the thread, unless it runs, and return a future that is done when it has ended."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._stopped = threading.Event()
                self._done = Future()
                self._thread = threading.Thread(
                    target=_run,
                    args=(self._sweep, seconds, self._stopped, self._done),
                    name="threadmark-sweep",
                    daemon=True,
                )
                self._thread.start()
            return self._done

    def stop(self, timeout: float | None = None) -> bool:
        """End the thread after the sweep that it may be in; return whether it has ended.

        Args:
            timeout: How many seconds to wait for that.
        """
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopped.set()
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()


def _run(
    method: weakref.WeakMethod[Callable[[], object]],
    seconds: float,
    stopped: threading.Event,
    done: Future[None],
) -> None:
    while not stopped.wait(seconds):
        sweep = method()
        if sweep is None:
            break
        try:
            sweep()
        except ThreadmarkError:
            # The database may be busy or away for a while; the next round will tell.
            _log.exception("Sweeping expired items failed; trying again in %g s", seconds)
        del sweep
    done.set_result(None)
