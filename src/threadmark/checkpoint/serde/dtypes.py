"""NumPy dtypes as plain values: text for simple ones, a map for structured, nested and text ones."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import Any

from threadmark.errors import SerializationError

__all__ = ["describe", "dtype_of", "is_listed", "simple_dtype"]

_SIMPLE = re.compile(
    r"[<>|][biufcSUVmMO]\d*(\[(?:[1-9]\d{0,8})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as|generic)\])?", re.ASCII
)


def is_listed(dtype: Any) -> bool:
    """Tell whether items hold references, so that their bytes mean nothing elsewhere."""
    return bool(dtype.hasobject) or dtype.kind == "T"


def describe(dtype: Any) -> Any:
    """Return the plain value that stands for a dtype.

    Raises:
        SerializationError: There is none.
    """
    if dtype.metadata:
        raise SerializationError("A dtype with metadata cannot be kept. Use a dtype without")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"of": describe(base), "shape": list(shape)}
    if dtype.names is not None:
        described = {"size": dtype.itemsize, "aligned": dtype.isalignedstruct}
        described["fields"] = [_describe_field(name, dtype.fields[name]) for name in dtype.names]
        return described | {"record": True} if _is_record(dtype) else described
    if dtype.kind == "T":
        described = {"coerce": dtype.coerce}
        return described | {"na": dtype.na_object} if hasattr(dtype, "na_object") else described
    if not _SIMPLE.fullmatch(dtype.str) or dtype.type.__module__ != "numpy":
        raise SerializationError(f"Arrays of the dtype {dtype!r} cannot be kept")
    return dtype.str


def _is_record(dtype: Any) -> bool:
    return dtype.type is sys.modules["numpy"].record


def _describe_field(name: str, field: tuple[Any, ...]) -> list[Any]:
    dtype, offset, *title = field
    return [name, describe(dtype), offset, *title]


@lru_cache(256)
def simple_dtype(text: str) -> Any:
    """Return the dtype that a text says.

    Raises:
        SerializationError: There is none.
    """
    if not _SIMPLE.fullmatch(text):
        raise SerializationError(f"There is no dtype {text[:40]!r}")
    return sys.modules["numpy"].dtype(text)


def dtype_of(np: Any, described: Any) -> Any:
    """Return the dtype of a description.

    Raises:
        SerializationError: It describes none.
    """
    if type(described) is str:
        return simple_dtype(described)
    if "of" in described:
        return np.dtype((dtype_of(np, described["of"]), tuple(described["shape"])))
    if "coerce" in described:
        na = {"na_object": described["na"]} if "na" in described else {}
        return np.dtypes.StringDType(coerce=described["coerce"], **na)
    fields = described["fields"]
    dtype = np.dtype(
        {
            "names": [field[0] for field in fields],
            "formats": [dtype_of(np, field[1]) for field in fields],
            "offsets": [field[2] for field in fields],
            "titles": [field[3] if len(field) > 3 else None for field in fields],
            "itemsize": described["size"],
        },
        align=described["aligned"],
    )
    return np.dtype((np.record, dtype)) if described.get("record") else dtype
