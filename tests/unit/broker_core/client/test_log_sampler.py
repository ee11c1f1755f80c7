import pytest
from support.brokers.in_memory_cluster import InMemoryCluster

from broker_core.client.log_sampler import SAMPLE_BYTES, SAMPLE_COUNT, LogSampler
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers

T0 = TopicPartition("t", 0)


class Fetches:
    """A log that counts what is fetched of it, as `RecordFetch` would fetch it."""

    def __init__(self, *sizes):
        self.log = InMemoryCluster()
        self.log.create_topic("t")
        self.count = 0
        self.sizes = []
        for size in sizes:
            batch = build_batch([Record(value=bytes(size), timestamp_ms=1)] * 10)
            self.sizes.append(len(batch))
            self.log.append(T0, batch)

    def fetch(self, partition, from_offset, max_bytes, isolation):
        self.count += 1
        return self.log.fetch(partition, from_offset, max_bytes=max_bytes, isolation=isolation)

    @property
    def end(self):
        return 10 * len(self.sizes)


def ends_of_batches(fetches):
    everything = fetches.log.fetch(T0, 0, max_bytes=2**31).buffer
    return {0, *(header.next_offset for _, header in iter_headers(everything))}


def test_a_range_within_one_sample_is_exact():
    fetches = Fetches(*[100] * 20)
    sampler, size = LogSampler(fetches), fetches.sizes[0]
    assert sampler.find_offset_within_bytes(T0, 0, 200, 3 * size) == 30
    assert sampler.find_offset_within_bytes(T0, 0, 200, 4 * size - 1) == 30
    assert sampler.find_offset_within_bytes(T0, 100, 200, 10**6) == 200
    assert sampler.bytes_between(T0, 0, 200) == 20 * size
    assert sampler.bytes_between(T0, 50, 100) == 5 * size


def test_at_least_one_whole_batch_is_sampled():
    fetches = Fetches(100, 100)
    sampler = LogSampler(fetches)
    assert sampler.find_offset_within_bytes(T0, 0, 20, 1) == 10
    assert sampler.find_offset_within_bytes(T0, 5, 20, 1) == 10
    assert sampler.find_offset_within_bytes(T0, 0, 20, 0) == 10


def test_a_uniform_log_is_estimated_closely_with_few_fetches():
    fetches = Fetches(*[500] * 1000)
    sampler, size = LogSampler(fetches), fetches.sizes[0]
    wanted_bytes = 600 * size
    found = sampler.find_offset_within_bytes(T0, 0, fetches.end, wanted_bytes)
    assert found in ends_of_batches(fetches)
    assert found == pytest.approx(6000, rel=0.05)
    assert sampler.bytes_between(T0, 0, fetches.end) == pytest.approx(1000 * size, rel=0.05)
    assert fetches.count <= 2 * SAMPLE_COUNT + 2


def test_a_log_that_grows_denser_is_estimated_in_steps():
    fetches = Fetches(*[50] * 500, *[2000] * 500)
    sampler = LogSampler(fetches)
    true_bytes = sum(fetches.sizes)
    assert sampler.bytes_between(T0, 0, fetches.end) == pytest.approx(true_bytes, rel=0.3)
    found = sampler.find_offset_within_bytes(T0, 0, fetches.end, true_bytes // 2)
    assert sum(fetches.sizes[: found // 10]) == pytest.approx(true_bytes // 2, rel=0.5)


def test_batches_larger_than_a_sample_are_estimated():
    fetches = Fetches(*[SAMPLE_BYTES] * 5)
    sampler, size = LogSampler(fetches), fetches.sizes[0]
    assert sampler.find_offset_within_bytes(T0, 0, fetches.end, 3 * size) in ends_of_batches(fetches) - {0}
    assert sampler.bytes_between(T0, 0, fetches.end) == pytest.approx(5 * size, rel=0.01)


def test_ranges_without_records_are_zero():
    fetches = Fetches(100, 100, 100)
    fetches.log.compact_away("t", 1, 2)
    sampler = LogSampler(fetches)
    assert sampler.find_offset_within_bytes(T0, 10, 10, 1000) == 10
    assert sampler.bytes_between(T0, 10, 10) == 0
    assert sampler.find_offset_within_bytes(T0, 10, 30, 1000) == 30
    assert sampler.bytes_between(T0, 10, 30) == 0
