"""Channels: how each key of the state changes. One module for each kind."""

from threadmark.channels.barrier import NamedBarrierValue, NamedBarrierValueAfterFinish
from threadmark.channels.base import BaseChannel
from threadmark.channels.binop import BinaryOperatorAggregate
from threadmark.channels.delta import DeltaChannel
from threadmark.channels.ephemeral import EphemeralValue, UntrackedValue
from threadmark.channels.last_value import AnyValue, LastValue, LastValueAfterFinish
from threadmark.channels.topic import Topic

__all__ = [
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]
