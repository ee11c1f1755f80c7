"""The method of `PlacedWrites` for a directory: a part of `EmbeddedCluster`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from broker_core.embedded.open_log import OpenLog, OwnLog
from broker_core.log_directory.internal_topics import require_no_internal_topic
from broker_core.placed_writes import PlacedAppend
from broker_core.ports import Clock
from broker_core.storage.writable_partition import WritablePartition


class PlacedMethods(ABC):
    """`broker_core.placed_writes` documents the method. It never starts maintenance: a copy of old records must not be
    removed by retention while it is made."""

    _clock: Clock

    @abstractmethod
    def _opened(self) -> OpenLog: ...

    @abstractmethod
    def _own(self) -> OwnLog: ...

    def append_placed(self, appends: Sequence[PlacedAppend]) -> None:
        for one in appends:
            require_no_internal_topic(one.partition.topic, "append to")
        self._own()
        for one in appends:

            def append(store: WritablePartition, one: PlacedAppend = one) -> None:
                store.append_placed(one, now_ms=self._clock.now_ms())

            self._opened().access.write(one.partition, append)
