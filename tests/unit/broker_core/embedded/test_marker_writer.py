from dataclasses import replace

import pytest
from support.clients.transacting import SetClock, begin, everything, is_settled, write

from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.embedded.marker_writer import MarkerWriter
from broker_core.log_directory.internal_topics import TRANSACTION_STATE_PARTITION
from broker_core.model.exceptions import ContradictingMarkerError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_reader import iter_headers
from broker_core.record.control_records import (
    EndTransactionMarker,
    build_end_transaction_marker,
    read_end_transaction_marker,
)
from broker_core.txn.transaction_replies import EndingTransaction

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True, clock=SetClock()) as opened:
        opened.create_topic("t", partition_count=2, configs={"retention.ms": "-1"})
        yield opened


def decided(cluster, *producers, commit=True):
    """The transactions, decided and nothing else of them done."""
    log = cluster._own().transactions._log
    return log.change(
        lambda coordinator: coordinator.plan_end(producers, commit=commit, new_producer_id=lambda: 99, now_ms=1)
    )


def completed(cluster, endings):
    cluster._own().transactions._log.change(lambda coordinator: coordinator.plan_complete(endings, now_ms=1))


def markers_of(cluster):
    return cluster._own().transactions._markers


def markers_in(cluster, partition):
    """(producer id, epoch, is it a commit) of each marker, in order."""
    found, offset = [], 0
    while offset < cluster.bounds(partition).high_watermark:
        fetched = cluster.fetch(partition, offset, max_bytes=10**6)
        for position, header in iter_headers(fetched.buffer):
            if header.is_control:
                marker = read_end_transaction_marker(fetched.buffer, position)
                found.append((header.producer_id, header.producer_epoch, marker.is_commit))
        offset = fetched.next_offset
    return found


def open_both(cluster, name="id"):
    producer = begin(cluster, name, T0, T1)
    write(cluster, producer, T0, name)
    return producer


def test_every_partition_gets_a_fencing_marker_even_without_records(cluster):
    producer = open_both(cluster)
    endings = decided(cluster, producer)
    assert markers_of(cluster).write(endings) == {}
    expected = [(producer.producer_id, producer.producer_epoch + 1, True)]
    assert markers_in(cluster, T0) == markers_in(cluster, T1) == expected


def test_an_existing_marker_is_not_written_again(cluster):
    endings = decided(cluster, open_both(cluster), commit=False)
    markers_of(cluster).write(endings)
    ends = [cluster.bounds(p).log_end_offset for p in (T0, T1)]
    with EmbeddedCluster(cluster.path, clock=SetClock()) as other:
        assert markers_of(other).write(endings) == markers_of(cluster).write(endings) == {}
    assert [cluster.bounds(p).log_end_offset for p in (T0, T1)] == ends


def write_marker(cluster, partition, ending, *, is_commit):
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
        producer_id=ending.producer_id,
        producer_epoch=ending.producer_epoch,
        timestamp_ms=1,
    )
    cluster._opened().access.write(partition, lambda store: store.append_control(marker, now_ms=1))


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("is_in_snapshot", [False, True])
def test_a_marker_of_the_other_kind_is_an_error_of_its_transaction_alone(cluster, is_commit, is_in_snapshot):
    """It was taken for the marker of the end, because its kind was not read: the transaction counted as completed."""
    contradicted, other = open_both(cluster, "id"), open_both(cluster, "other")
    endings = decided(cluster, contradicted, other, commit=is_commit)
    write_marker(cluster, T0, endings[0], is_commit=not is_commit)
    if is_in_snapshot:
        cluster._opened().access.write(T0, lambda store: store.roll(1))
    with EmbeddedCluster(cluster.path, clock=SetClock()) as later:
        errors = markers_of(later if is_in_snapshot else cluster).write(endings)
    assert errors.keys() == {endings[0]}
    error = errors[endings[0]]
    assert isinstance(error, ContradictingMarkerError)
    assert (error.partition, error.producer_id) == (T0, contradicted.producer_id)
    assert f"t-0: producer {contradicted.producer_id} has" in str(error)
    ends = [(producer.producer_id, producer.producer_epoch + 1, is_commit) for producer in (contradicted, other)]
    assert markers_in(cluster, T1) == ends
    assert markers_in(cluster, T0) == [(*ends[0][:2], not is_commit), ends[1]]


def test_a_transaction_with_a_marker_of_the_other_kind_is_never_completed(cluster):
    producer = open_both(cluster)
    (ending,) = decided(cluster, producer)
    write_marker(cluster, T0, ending, is_commit=False)
    for _ in range(2):
        with pytest.raises(ContradictingMarkerError, match=r"an abort marker .* 'id' decided a commit"):
            cluster.end_transaction(producer, commit=True)
    with pytest.raises(ContradictingMarkerError):
        cluster.init_producer("id")
    assert cluster._own().transactions._log.state.look(lambda coordinator: coordinator.ending()) == (ending,)
    assert begin(cluster, "another", T0).producer_id != producer.producer_id


def test_the_marker_of_the_last_transaction_is_no_error_where_an_old_client_kept_its_epoch(cluster):
    """Its second transaction added the partition and wrote nothing there."""
    producer = open_both(cluster)
    log = cluster._own().transactions._log

    def end(commit):
        return log.change(
            lambda coordinator: coordinator.plan_end(
                [producer], commit=commit, new_producer_id=lambda: 99, now_ms=1, client_version=0
            )
        )

    first = end(True)
    assert markers_of(cluster).write(first) == {}
    completed(cluster, first)
    cluster.add_partitions_to_transaction(producer, [T0])
    assert markers_of(cluster).write(end(False)) == {}
    assert len(markers_in(cluster, T0)) == 1


def test_markers_of_several_transactions_are_one_append_per_partition(cluster):
    endings = decided(cluster, *(open_both(cluster, f"id-{number}") for number in range(3)))
    appended = []
    access = cluster._opened().access
    write_to = access.write

    def counting(partition, operation):
        appended.append(partition)
        return write_to(partition, operation)

    access.write = counting
    markers_of(cluster).write(endings)
    assert appended == [T0, T1]
    assert len(markers_in(cluster, T0)) == len(markers_in(cluster, T1)) == 3


def test_a_late_marker_does_not_end_the_next_transaction_of_its_producer(cluster):
    """Order of events: A finds a decided transaction; B writes its markers and completes it; its producer opens the
    next one, with the epoch that the markers carry, and writes; A comes to write its markers."""
    producer = open_both(cluster)
    endings = decided(cluster, producer)
    markers_of(cluster).write(endings)
    completed(cluster, endings)
    following = replace(producer, producer_epoch=producer.producer_epoch + 1)
    cluster.add_partitions_to_transaction(following, [T0])
    write(cluster, following, T0, "next")
    assert markers_of(cluster).write(endings) == {}
    assert len(markers_in(cluster, T0)) == 1
    assert not is_settled(cluster, T0)


def test_an_undecided_transaction_gets_no_marker(cluster):
    producer = open_both(cluster)
    forged = EndingTransaction(
        transactional_id="id",
        producer_id=producer.producer_id,
        producer_epoch=1,
        is_commit=True,
        partitions=(T0, T1),
        coordinator_epoch=0,
        is_epoch_bumped=True,
    )
    assert markers_of(cluster).write([forged]) == {}
    assert markers_in(cluster, T0) == markers_in(cluster, T1) == []


def test_partitions_of_deleted_topics_are_skipped_and_other_errors_are_raised(cluster, tmp_path):
    cluster.create_topic("gone")
    gone = TopicPartition("gone", 0)
    producer = begin(cluster, "id", gone, T0, T1)
    endings = decided(cluster, producer)
    cluster.delete_topic("gone")
    (tmp_path / "log" / "t-0" / ".lock").unlink()
    (tmp_path / "log" / "t-0" / ".lock").mkdir()
    (error,) = markers_of(cluster).write(endings).values()
    assert "Is a directory" in str(error)
    assert "its marker in t-0" in error.__notes__[0]
    assert len(markers_in(cluster, T1)) == 1
    (tmp_path / "log" / "t-0" / ".lock").rmdir()
    assert markers_of(cluster).write(endings) == {}
    assert len(markers_in(cluster, T0)) == 1


def test_a_topic_recreated_just_after_it_was_found_missing_does_not_block_an_end(cluster):
    cluster.create_topic("passing")
    passing = TopicPartition("passing", 0)
    endings = decided(cluster, begin(cluster, "id", passing, T0))
    cluster.delete_topic("passing")
    access = cluster._opened().access
    write_to, refused = access.write, []

    def refused_and_made_again(partition, operation):
        try:
            return write_to(partition, operation)
        except UnknownTopicError:
            refused.append(partition)
            cluster.create_topic("passing")
            raise

    access.write = refused_and_made_again
    assert markers_of(cluster).write(endings) == {}
    assert refused == [passing]
    assert len(markers_in(cluster, passing)) == len(markers_in(cluster, T0)) == 1


def test_a_marker_is_written_despite_a_small_segment_or_message_limit(cluster):
    producer = open_both(cluster)
    cluster.alter_topic_configs("t", {"max.message.bytes": "10", "internal.segment.bytes": "20"})
    cluster.end_transaction(producer, commit=True)
    assert is_settled(cluster, T0)
    assert everything(cluster, T0) == ["id"]


def test_a_marker_never_has_a_lower_coordinator_epoch_than_the_log(cluster):
    producer = open_both(cluster)
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=7),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        timestamp_ms=1,
    )
    cluster._opened().access.write(T0, lambda store: store.append_control(marker, now_ms=1))
    write(cluster, producer, T0, "more", base_sequence=1)
    cluster.end_transaction(producer, commit=True)
    assert markers_in(cluster, T0)[-1] == (producer.producer_id, producer.producer_epoch + 1, True)


def test_a_partition_with_a_newer_producer_epoch_gets_no_marker(cluster, caplog):
    producer = open_both(cluster)
    newer = build_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=0),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch + 5,
        timestamp_ms=1,
    )
    cluster._opened().access.write(T0, lambda store: store.append_control(newer, now_ms=1))
    cluster.end_transaction(producer, commit=True)
    assert len(markers_in(cluster, T0)) == 1
    assert "partition=t-0" in caplog.text


def test_a_roll_caused_by_a_marker_is_reported(cluster):
    told = []
    writer = markers_of(cluster)
    state, access = writer._state, writer._access
    endings = decided(cluster, open_both(cluster))
    cluster.alter_topic_configs("t", {"internal.segment.bytes": "100"})
    MarkerWriter(state, access, SetClock(), on_rolled=told.append).write(endings)
    assert told == [T0]
    assert TRANSACTION_STATE_PARTITION not in told
