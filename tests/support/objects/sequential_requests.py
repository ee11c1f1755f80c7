"""Requests of an object log one after the other, in the thread of the caller: the order is the same in each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from broker_core.object_cluster.log_ports import Requests

Value = TypeVar("Value")


class SequentialRequests(Requests):
    def gather(self, calls: Sequence[Callable[[], Value]]) -> list[Value]:
        return [call() for call in calls]
