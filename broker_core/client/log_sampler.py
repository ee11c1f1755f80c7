"""Estimates the bytes in a range of offsets from samples.

The protocol has no request for it. At most twice SAMPLE_COUNT pieces of the log are fetched; the part between two
samples is assumed to be as dense as the first of them. Ranges that one sample covers are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker_core.client.record_fetch import RecordFetch
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.record.batch_reader import iter_headers

SAMPLE_COUNT: Final = 8
SAMPLE_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """Whole batches from an offset on: their bytes, and the offset after them."""

    from_offset: int
    next_offset: int
    size_bytes: int

    @property
    def bytes_per_offset(self) -> float:
        return self.size_bytes / (self.next_offset - self.from_offset)


class LogSampler:
    """Raises what a fetch raises."""

    def __init__(self, fetch: RecordFetch) -> None:
        self._fetch = fetch

    def find_offset_within_bytes(
        self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int
    ) -> int:
        """See `Cluster`. Exact if one sample holds `max_bytes`, else estimated; the result is always the end of a
        batch."""
        here, left = from_offset, max_bytes
        # A sparse part may be followed by a dense one, so a step covers only a part of the range.
        longest_step = max(1, -(-(until_offset - from_offset) // SAMPLE_COUNT))
        for number in range(2 * SAMPLE_COUNT):
            if here >= until_offset:
                return until_offset
            sample = self._sample(partition, here, until_offset, min(left, SAMPLE_BYTES))
            if sample is None:
                return until_offset
            is_first = number == 0
            if left <= SAMPLE_BYTES:
                # The remaining bytes may end within the sample; a batch that does not fit is accepted only as the first
                # one.
                return sample.next_offset if is_first or sample.size_bytes <= left else here
            wanted_bytes = max(sample.size_bytes, left // max(1, SAMPLE_COUNT - number))
            step = min(longest_step, int(wanted_bytes / sample.bytes_per_offset))
            following = max(sample.next_offset, here + step)
            left -= int((following - here) * sample.bytes_per_offset)
            here = following
            if left <= 0:
                break
        return min(until_offset, self._start_of_batch(partition, here, until_offset, at_least=from_offset + 1))

    def bytes_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        """See `Cluster`: estimated."""
        total, here = 0.0, from_offset
        stride = max(1, -(-(until_offset - from_offset) // SAMPLE_COUNT))
        while here < until_offset:
            sample = self._sample(partition, here, until_offset, SAMPLE_BYTES)
            if sample is None:
                break
            end = min(until_offset, max(sample.next_offset, here + stride))
            total += sample.size_bytes + sample.bytes_per_offset * (end - sample.next_offset)
            here = end
        return int(total)

    def _sample(self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int) -> _Sample | None:
        """At least one whole batch; None if there is none before `until_offset`."""
        fetched = self._fetch.fetch(partition, from_offset, max(1, max_bytes), IsolationLevel.READ_UNCOMMITTED)
        size_bytes, next_offset = 0, from_offset
        for _, header in iter_headers(fetched.buffer):
            if header.base_offset >= until_offset:
                next_offset = until_offset
                break
            size_bytes += header.size_bytes
            next_offset = min(header.next_offset, until_offset)
        if next_offset <= from_offset:
            return None
        return _Sample(from_offset=from_offset, next_offset=next_offset, size_bytes=size_bytes)

    def _start_of_batch(self, partition: TopicPartition, offset: int, until_offset: int, *, at_least: int) -> int:
        """The first offset of the batch that holds the offset, or the offset after it if it also holds `at_least` -
        1."""
        if offset >= until_offset:
            return until_offset
        fetched = self._fetch.fetch(partition, offset, 1, IsolationLevel.READ_UNCOMMITTED)
        for _, header in iter_headers(fetched.buffer):
            return header.base_offset if header.base_offset >= at_least else header.next_offset
        return until_offset
