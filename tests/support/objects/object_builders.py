"""Builders for the log on object storage: ranges, commits, images, and a log in memory."""

from __future__ import annotations

import random
from uuid import UUID

from support.objects.in_memory_objects import InMemoryObjects
from support.objects.sequential_requests import SequentialRequests

from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.object_cluster import ObjectCluster
from broker_core.object_log.commit import AppendRanges, Commit, PutTopic
from broker_core.object_log.data_range import AppendedRange, DataRange
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.object_names import data_path

LOG_ID = UUID("0b6d3c1e-7f7a-4d0e-9c54-0d8f6a3b2c11")
TOPIC_ID = UUID("5b1c0ad2-4a3e-4c58-8f0d-6d7e8f901234")
OTHER_ID = UUID("6c2d1be3-5b4f-4d69-9a1e-7e8f90123456")
SOME_MS = 1_764_000_000_000


def a_path(number: int, begun_ms: int = SOME_MS) -> str:
    """Of the data object with this number."""
    return data_path(begun_ms, number.to_bytes(16, "big"))


def a_range(number: int = 0, *, offsets: int = 10, size: int = 100, max_ms: int = SOME_MS, **fields) -> DataRange:
    """Of an object of its own."""
    values = {
        "object": a_path(number),
        "position": 0,
        "size_bytes": size,
        "offset_count": offsets,
        "record_count": offsets,
        "first_timestamp_ms": max_ms,
        "max_timestamp_ms": max_ms,
    }
    return DataRange(**(values | fields))


def an_append(*ranges: DataRange, topic_id: UUID = TOPIC_ID, partition: int = 0) -> AppendRanges:
    return AppendRanges(ranges=tuple(AppendedRange(topic_id, partition, one) for one in ranges))


def a_topic(name: str = "t", *, partitions: int = 2, topic_id: UUID = TOPIC_ID, **configs: str) -> PutTopic:
    """Settings with `_` for `.`."""
    settings = {setting.replace("_", "."): value for setting, value in configs.items()}
    return PutTopic(name=name, topic_id=topic_id, partition_count=partitions, configs=settings)


def a_commit(
    number: int, *changes, app=None, time_ms: int = SOME_MS, log_id: UUID = LOG_ID, previous_writer: str = ""
) -> Commit:
    return Commit(
        log_id=log_id,
        number=number,
        writer=f"{number:032x}",
        time_ms=time_ms,
        changes=tuple(changes),
        app=app,
        previous_writer=previous_writer,
    )


def an_image(*steps, time_ms: int = SOME_MS) -> LogImage:
    """One commit a step: a change, or a list of changes."""
    image = LogImage(LOG_ID)
    for step in steps:
        changes = step if isinstance(step, list) else [step]
        image.apply(a_commit(image.number + 1, *changes, time_ms=time_ms))
    return image


class ManualClock:
    def __init__(self, milliseconds: int = SOME_MS) -> None:
        self.milliseconds = milliseconds

    def now_ms(self) -> int:
        return self.milliseconds


class SeededBytes:
    def __init__(self, seed: int = 0) -> None:
        self._dice = random.Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._dice.randbytes(count)


class MemoryLog:
    """A store in memory, a clock, and clusters over them that share nothing but the store."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = InMemoryObjects(now_ms=self.clock.now_ms)
        self.slept_ms: list[float] = []
        self._seeds = iter(range(1_000_000))

    def ports(self, store=None) -> LogPorts:
        return LogPorts(
            store=store or self.store,
            clock=self.clock,
            entropy=SeededBytes(next(self._seeds)),
            sleep_ms=self.slept_ms.append,
            steady_ms=lambda: float(self.clock.milliseconds),
            requests=SequentialRequests(),
        )

    def open(self, store=None, *, create: bool = True, maintains: bool = False) -> ObjectCluster:
        return ObjectCluster(self.ports(store), create=create, maintains=maintains)
