"""Asks the key filters of ranges whether they may have a key. One block of a filter answers for a key.

    ranges with a filter ──► spans not read yet, by object ──► one call for each object, in parallel ──► kept

A filter that cannot be read or is damaged excludes nothing: the range is read, and its reader reports what is wrong. If
the store does not answer, or refuses, the other filters of the look-up are not asked.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final

from broker_core.model.exceptions import ObjectNotFoundError, ObjectStoreError
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_log.data_range import DataRange
from broker_core.object_log.range_filter import filter_denies, filter_span

MAX_LOOKED_UP_RANGE_COUNT: Final = 2_000
"""Filters that one look-up asks, 8 MiB of blocks; of more ranges the largest ones."""
_KEPT_BLOCK_COUNT: Final = 4_096

_Span = tuple[str, int, int]
"""Object, position, bytes."""


class RangeFilters:
    """Thread-safe."""

    def __init__(self, ports: LogPorts) -> None:
        self._ports = ports
        self._lock = threading.Lock()
        self._known: OrderedDict[_Span, bytes] = OrderedDict()
        """Blocks and headers, 16 MiB at most. Data objects never change."""

    def denied(self, ranges: Sequence[DataRange], key: bytes | None) -> list[bool]:
        """For each range whether no record of it has the key."""
        spans = {row: span for row, data in enumerate(ranges) if (span := filter_span(data, key)) is not None}
        asked = sorted(spans, key=lambda row: -ranges[row].size_bytes)[:MAX_LOOKED_UP_RANGE_COUNT]
        contents = self._read([(ranges[row].object, *spans[row]) for row in asked])
        content_of = dict(zip(asked, contents, strict=True))
        return [filter_denies(data, key, content_of.get(row)) for row, data in enumerate(ranges)]

    def _read(self, spans: Sequence[_Span]) -> list[bytes | None]:
        with self._lock:
            found = {span: self._known[span] for span in spans if span in self._known}
        by_object: dict[str, list[_Span]] = {}
        for span in spans:
            if span not in found:
                by_object.setdefault(span[0], []).append(span)
        has_failed = threading.Event()
        answers = self._ports.requests.gather(
            [partial(self._get, name, asked, has_failed) for name, asked in by_object.items()]
        )
        for asked, contents in zip(by_object.values(), answers, strict=True):
            found |= zip(asked, contents, strict=False)
        with self._lock:
            self._known |= found
            while len(self._known) > _KEPT_BLOCK_COUNT:
                self._known.popitem(last=False)
        return [found.get(span) for span in spans]

    def _get(self, name: str, spans: Sequence[_Span], has_failed: threading.Event) -> list[bytes]:
        """Empty if they cannot be read."""
        if has_failed.is_set():
            return []
        try:
            found = self._ports.store.get_ranges(name, [(position, size) for _, position, size in spans])
        except ObjectNotFoundError:
            return []
        except ObjectStoreError:
            has_failed.set()
            return []
        return [bytes(one) for one in found]
