"""What has to be closed can be closed in every way that there is. What closing means is not known here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from threadmark._db.worker import run_apart

__all__ = ["Closing"]


class Closing(ABC):
    """Is closed by `close`, by `aclose`, or by the end of a `with` or `async with` block."""

    @abstractmethod
    def close(self) -> None:
        """Finish what is under way and close. Closing twice is fine."""

    async def aclose(self) -> None:
        """Close without blocking the event loop."""
        await run_apart(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()
