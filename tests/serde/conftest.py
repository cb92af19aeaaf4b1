"""Serializers for the tests of the serializer."""

from __future__ import annotations

import pytest

from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

from . import sample_types


@pytest.fixture(scope="session")
def serde() -> JsonPlusSerializer:
    """Return a serializer that knows the sample types."""
    return JsonPlusSerializer().with_types(sample_types.ALL)
