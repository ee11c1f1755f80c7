"""A directory that a real Kafka wrote reads back exactly, and stays as it was."""

import pytest
from golden_data import GoldenRecord, bounds, consumer_saw, fingerprint, unpack

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.exceptions import DirectoryReadOnlyError
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition
from broker_core.record import columns

ISOLATIONS = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def cluster(golden):
    with_log = open_embedded(str(golden / "log"))
    yield with_log
    with_log.close()


def read_all(cluster, partition, isolation, *, from_offset, until_offset, max_bytes=1 << 20):
    found = []
    aborted = columns.AbortedFilter() if isolation is IsolationLevel.READ_COMMITTED else None
    offset = from_offset
    while offset < until_offset:
        fetched = cluster.fetch(partition, offset, max_bytes=max_bytes, isolation=isolation)
        if aborted is not None:
            aborted.add(fetched.aborted_transactions)
        decoded = columns.decode(
            fetched.buffer, from_offset=offset, until_offset=until_offset, aborted=aborted, columns=columns.ALL_COLUMNS
        )
        rows = decoded.record_batch.to_pydict()
        for row in zip(
            *(rows[n] for n in ("offset", "timestamp", "timestampType", "key", "value", "headers")), strict=True
        ):
            found.append(as_golden(*row))
        assert fetched.next_offset > offset, "a fetch that does not move on"
        offset = fetched.next_offset
    return found


def as_golden(offset, timestamp, timestamp_type, key, value, headers):
    pairs = None if headers is None else tuple((h["key"], h["value"]) for h in headers)
    milliseconds = round(timestamp.timestamp() * 1000)
    return GoldenRecord(offset, milliseconds, timestamp_type, key, value, pairs)


@pytest.mark.parametrize("name", ISOLATIONS)
@pytest.mark.parametrize("max_bytes", [1, 1000, 1 << 20])
def test_every_record_equals_that_of_kafkas_consumer(golden, cluster, name, max_bytes):
    seen = consumer_saw(golden, name)
    assert sum(map(len, seen.values())) > 5000
    for (topic, number), expected in seen.items():
        begin, end = bounds(golden, name)[(topic, number)]
        partition = TopicPartition(topic, number)
        found = read_all(cluster, partition, ISOLATIONS[name], from_offset=begin, until_offset=end, max_bytes=max_bytes)
        assert found == expected, f"{partition} differs"


@pytest.mark.parametrize("name", ISOLATIONS)
def test_earliest_and_latest_equal_those_of_kafkas_consumer(golden, cluster, name):
    for (topic, number), (begin, end) in bounds(golden, name).items():
        partition = TopicPartition(topic, number)
        earliest = cluster.list_offsets({partition: OffsetSpec.EARLIEST}, ISOLATIONS[name])
        latest = cluster.list_offsets({partition: OffsetSpec.LATEST}, ISOLATIONS[name])
        assert (earliest[partition].offset, latest[partition].offset) == (begin, end)


def test_a_fetch_from_any_offset_starts_at_that_offset(golden, cluster):
    seen = consumer_saw(golden, "read_uncommitted")
    for topic in ("codecs", "transactions", "compacted", "log-append"):
        records = seen[(topic, 0)]
        end = bounds(golden, "read_uncommitted")[(topic, 0)][1]
        for offset in range(end):
            found = read_all(
                cluster, TopicPartition(topic, 0), IsolationLevel.READ_UNCOMMITTED,
                from_offset=offset, until_offset=min(offset + 3, end),
            )  # fmt: skip
            assert found == [r for r in records if offset <= r.offset < offset + 3]


def test_read_committed_from_any_offset_hides_aborted_records(golden, cluster):
    records = consumer_saw(golden, "read_committed")[("transactions", 0)]
    for offset in range(77):
        found = read_all(
            cluster, TopicPartition("transactions", 0), IsolationLevel.READ_COMMITTED, from_offset=offset,
            until_offset=77, max_bytes=300,
        )  # fmt: skip
        assert found == [r for r in records if r.offset >= offset]


def test_the_first_record_at_or_after_any_timestamp_is_found(golden, cluster):
    for (topic, number), records in consumer_saw(golden, "read_uncommitted").items():
        partition = TopicPartition(topic, number)
        times = sorted({r.timestamp_ms for r in records})[:: max(1, len(records) // 60)]
        for asked in [t + step for t in times for step in (-1, 0, 1)]:
            # Kafka answers with the earliest offset whose timestamp is not below the one asked for.
            expected = next(((r.offset, r.timestamp_ms) for r in records if r.timestamp_ms >= asked), None)
            answer = cluster.list_offsets({partition: asked})[partition]
            found = None if answer is None else (answer.offset, answer.timestamp_ms)
            if found != expected:
                # End markers have timestamps too, and Kafka finds them; no consumer sees them.
                assert topic == "transactions", f"{partition} at {asked}: {found}, not {expected}"
                assert found[0] not in {r.offset for r in records}
                assert found[1] >= asked
                assert expected is None or found[0] < expected[0]


def test_reading_does_not_change_the_directory(golden, cluster):
    before = fingerprint(golden / "log")
    for name in ISOLATIONS:
        test_every_record_equals_that_of_kafkas_consumer(golden, cluster, name, 1 << 20)
    cluster.close()
    assert fingerprint(golden / "log") == before


def test_a_write_into_kafkas_directory_is_refused_and_changes_nothing(golden, cluster):
    before = fingerprint(golden / "log")
    with pytest.raises(DirectoryReadOnlyError):
        cluster.create_topic("another")
    with pytest.raises(DirectoryReadOnlyError):
        cluster.delete_records(TopicPartition("codecs", 0), 5)
    with pytest.raises(DirectoryReadOnlyError):
        cluster.init_producer()
    cluster.close()
    assert fingerprint(golden / "log") == before


def test_topics_and_partition_counts_equal_kafkas(golden, cluster):
    topics = cluster.describe_topics()
    assert {name: t.partition_count for name, t in topics.items() if not t.is_internal} == {
        "codecs": 2, "log-append": 1, "transactions": 1, "open-transaction": 1, "segments": 1, "compacted": 1,
        "trimmed": 1, "keyed": 5,
    }  # fmt: skip
    assert {name for name, t in topics.items() if t.is_internal} >= {"__consumer_offsets", "__transaction_state"}
