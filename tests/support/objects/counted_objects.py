"""A store in memory that counts as a client pays: requests, bytes, and how many requests have to wait for one another.

A multipart upload is sent as the client library sends it, in parts, and ranges that lie close together are one request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from support.objects.in_memory_objects import InMemoryObjects, InMemoryUpload
from support.objects.object_builders import ManualClock, SeededBytes

from broker_core.object_cluster.log_ports import LogPorts, Requests
from broker_core.object_cluster.object_cluster import ObjectCluster
from broker_core.object_store.client_store import COALESCED_GAP_BYTES, PART_BYTES, PARTS_AT_ONCE


class Count(NamedTuple):
    """`turns`: of the requests those that follow one another; what is sent at once is one turn."""

    requests: int = 0
    size_bytes: int = 0
    turns: int = 0

    def __add__(self, other: tuple) -> Count:
        """Of two that work at the same time."""
        return Count(self.requests + other[0], self.size_bytes + other[1], max(self.turns, other[2]))


@dataclass
class _Counter:
    requests: int = 0
    size_bytes: int = 0
    turns: int = 0


class CountedObjects(InMemoryObjects):
    def __init__(self, *, now_ms: Callable[[], int], shared: InMemoryObjects | None = None) -> None:
        """`shared`: the store whose objects they are."""
        super().__init__(now_ms=now_ms)
        if shared is not None:
            self.objects, self.modified_ms = shared.objects, shared.modified_ms
        self.counter = _Counter()

    def taken(self) -> Count:
        """Since the last call."""
        counter, self.counter = self.counter, _Counter()
        return Count(counter.requests, counter.size_bytes, counter.turns)

    def get(self, path):
        self._count(len(self.objects.get(path, b"")))
        return super().get(path)

    def get_ranges(self, path, ranges):
        end = None
        for position, length in sorted(ranges):
            if end is None or position - end > COALESCED_GAP_BYTES:
                self.counter.requests += 1
            end = position + length
            self.counter.size_bytes += length
        self.counter.turns += 1
        return super().get_ranges(path, ranges)

    def list_after(self, prefix, after=""):
        self._count(0)
        return super().list_after(prefix, after)

    def upload(self, path):
        return _CountedUpload(self, path)

    def delete(self, paths):
        self._count(0)
        super().delete(paths)

    def put(self, path, data):
        self._count(len(data))
        super().put(path, data)

    def put_if_absent(self, path, data):
        self._count(len(data))
        return super().put_if_absent(path, data)

    def put_if_matches(self, path, data, etag):
        self._count(len(data))
        return super().put_if_matches(path, data, etag)

    def _count(self, size_bytes, requests=1, turns=1):
        self.counter.requests += requests
        self.counter.turns += turns
        self.counter.size_bytes += size_bytes


class _CountedUpload(InMemoryUpload):
    def finish(self):
        size_bytes = sum(map(len, self._parts))
        part_count = -(-size_bytes // PART_BYTES)
        if part_count <= 1:
            self._store._count(size_bytes)
        else:
            self._store._count(size_bytes, part_count + 2, turns=-(-part_count // PARTS_AT_ONCE) + 2)
        super().finish()


class _RequestsInTurns(Requests):
    """What is sent at once takes as many turns as the longest of it."""

    def __init__(self, store: CountedObjects) -> None:
        self._store = store

    def gather(self, calls: Sequence[Callable]) -> list:
        before, longest, answers = self._store.counter.turns, 0, []
        for call in calls:
            self._store.counter.turns = before
            answers.append(call())
            longest = max(longest, self._store.counter.turns - before)
        self._store.counter.turns = before + longest
        return answers


class CallsInTurns:
    """In the place of `BackgroundCall`: a call takes its turns from when it was begun, not from when it is waited for.
    It runs when it is waited for."""

    def __init__(self, store: CountedObjects) -> None:
        self._store = store

    def __call__(self, call: Callable) -> _CallInTurns:
        return _CallInTurns(self._store, call)


class _CallInTurns:
    def __init__(self, store: CountedObjects, call: Callable) -> None:
        self._store, self._call, self._begun_at = store, call, store.counter.turns

    def answer(self):
        counter = self._store.counter
        now, counter.turns = counter.turns, self._begun_at
        try:
            return self._call()
        finally:
            counter.turns = max(now, counter.turns)


class CountedLog:
    """Processes that share a log and nothing else, each with a count of its own."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._shared = InMemoryObjects(now_ms=self.clock.now_ms)
        self._seeds = iter(range(1_000_000))

    def process(self) -> tuple[ObjectCluster, CountedObjects]:
        store = CountedObjects(now_ms=self.clock.now_ms, shared=self._shared)
        ports = LogPorts(
            store=store,
            clock=self.clock,
            entropy=SeededBytes(next(self._seeds)),
            sleep_ms=lambda ms: None,
            steady_ms=lambda: float(self.clock.milliseconds),
            requests=_RequestsInTurns(store),
        )
        return ObjectCluster(ports, create=True, maintains=False), store
