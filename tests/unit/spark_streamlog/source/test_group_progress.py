import logging

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import at, read_options

from broker_core.model.exceptions import DiskFullError, StorageError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.retention_pin import pinned_until_ms
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.source.group_progress import RETRY_INTERVAL_MS, progress_of

T0 = TopicPartition("t", 0)
TTL_MS = 60_000


class Progress:
    """A stream's progress in the group `g`, at a time that the test sets; counts what really reached the log."""

    def __init__(self, **given):
        self.cluster = InMemoryCluster()
        self.cluster.create_topic("t", partition_count=2)
        self.now_ms = 1_000_000
        self.commit_count = 0
        self.error = None
        self.cluster.before_commit_offsets = self._on_commit
        options = read_options(QueryKind.STREAM, **({"groupId": "g"} | given))
        self.progress = progress_of(self.cluster, options, now_ms=lambda: self.now_ms)

    def _on_commit(self):
        self.commit_count += 1
        if self.error:
            raise self.error

    def store(self, **offsets):
        self.progress.store(at(**offsets))

    @property
    def offsets(self):
        return {tp: entry.offset for tp, entry in self.cluster.fetch_offsets("g").items()}

    @property
    def pin_end_ms(self):
        return pinned_until_ms(self.cluster.fetch_offsets("g")[T0].metadata)


def test_without_a_group_there_is_no_progress_to_store():
    assert progress_of(InMemoryCluster(), read_options(QueryKind.STREAM)) is None


def test_offsets_are_stored_once_each():
    one = Progress()
    for _ in range(3):
        one.store(t_0=5, t_1=0)
    one.now_ms += 10**9
    one.store(t_0=5, t_1=0)
    assert (one.offsets, one.commit_count) == (at(t_0=5, t_1=0), 1)
    one.store(t_0=6, t_1=0)
    assert (one.offsets, one.commit_count) == (at(t_0=6, t_1=0), 2)
    assert one.cluster.fetch_offsets("g")[T0].metadata == ""


def test_deleted_partitions_are_left_out():
    one = Progress()
    one.store(t_0=5, t_9=1, gone_0=7)
    assert one.offsets == at(t_0=5)
    one.store(gone_0=7)
    assert (one.offsets, one.commit_count) == (at(t_0=5), 1)


@pytest.mark.parametrize("error", [DiskFullError("no space"), OSError("gone")])
def test_a_failure_is_logged_once_and_retried_later(caplog, error):
    one = Progress()
    one.error = error
    with caplog.at_level(logging.WARNING, logger="spark_streamlog"):
        for _ in range(3):
            one.store(t_0=5)
        one.now_ms += RETRY_INTERVAL_MS
        one.store(t_0=6)
        assert one.commit_count == 2
        one.error = None
        one.now_ms += RETRY_INTERVAL_MS
        one.store(t_0=6)
    assert one.offsets == at(t_0=6)
    assert caplog.text.count(f"cannot be stored in the group g: {error}") == 1


# -- pins --


def test_a_pin_is_renewed_after_a_third_of_its_lease():
    one = Progress(pinRetention="60s")
    one.store(t_0=5)
    assert one.pin_end_ms == 1_000_000 + TTL_MS
    one.now_ms += TTL_MS // 3 - 1
    one.store(t_0=5)
    assert one.pin_end_ms == 1_000_000 + TTL_MS
    one.now_ms += 1
    one.store(t_0=5)
    assert (one.pin_end_ms, one.commit_count) == (1_020_000 + TTL_MS, 2)


def test_a_pin_moves_with_the_progress():
    one = Progress(pinRetention="60s")
    one.store(t_0=5)
    one.now_ms += 1
    one.store(t_0=6)
    assert (one.offsets, one.pin_end_ms) == (at(t_0=6), 1_000_001 + TTL_MS)


def test_a_clock_set_back_does_not_delay_a_renewal():
    one = Progress(pinRetention="60s")
    one.store(t_0=5)
    one.now_ms -= 500_000
    one.store(t_0=5)
    assert one.pin_end_ms == 500_000 + TTL_MS


def test_a_first_pin_that_cannot_be_stored_fails_the_query():
    one = Progress(pinRetention="60s")
    one.error = StorageError("the directory is read-only")
    with pytest.raises(ConditionError, match=r"STREAMLOG_PIN_LOST.*group g: the directory is read-only"):
        one.store(t_0=5)


def test_a_pin_that_cannot_be_renewed_fails_the_query_when_its_lease_ends(caplog):
    one = Progress(pinRetention="60s")
    one.store(t_0=5)
    one.error = StorageError("no")
    one.now_ms += TTL_MS - 1
    one.store(t_0=6)
    assert "cannot be stored" in caplog.text
    one.now_ms += TTL_MS // 10
    with pytest.raises(ConditionError, match="STREAMLOG_PIN_LOST"):
        one.store(t_0=6)


def test_a_short_lease_is_retried_soon():
    one = Progress(pinRetention="3s")
    one.store(t_0=5)
    one.error = StorageError("no")
    one.now_ms += 1000
    one.store(t_0=5)
    one.error = None
    one.now_ms += 299
    one.store(t_0=5)
    assert one.commit_count == 2
    one.now_ms += 1
    one.store(t_0=5)
    assert one.pin_end_ms == 1_001_300 + 3_000
