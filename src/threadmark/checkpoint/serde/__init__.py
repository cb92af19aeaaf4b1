"""Turning values into bytes and back.

`base` is the contract, `jsonplus` the serializer, `encrypted` puts encryption around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.schema import collect_types

__all__ = ["collect_types"]


def __getattr__(name: str) -> Any:
    # The contract lives in this package and is imported by everybody; walking schemas is not.
    if name == "collect_types":
        from threadmark.checkpoint.serde import schema

        return schema.collect_types
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
