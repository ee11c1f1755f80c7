from uuid import UUID

import pytest
from support.builders.builders import a_batch, a_commit_marker, a_record

from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import (
    ClientQuotaRecord,
    EntityData,
    FeatureLevelRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from broker_core.metadata.metadata_replay import build_metadata_batch, build_snapshot_batches, replay_batches
from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.limits import MAX_SNAPSHOT_BATCH_RECORDS
from broker_core.record.batch_header import read_header, write_placement


def a_metadata_batch(*records, base_offset=0):
    batch = build_metadata_batch(records, now_ms=5)
    write_placement(batch, 0, base_offset=base_offset, leader_epoch=0)
    return batch


def topic(name):
    return TopicRecord(name=name, topic_id=UUID(int=1000 + ord(name)))


def test_records_are_written_as_one_batch_and_replayed_from_it():
    batch = a_metadata_batch(topic("t"), topic("u"), ProducerIdsRecord(broker_id=1, next_producer_id=9))
    header = read_header(batch)
    assert (header.record_count, header.size_bytes, header.max_timestamp) == (3, len(batch), 5)
    image = MetadataImage()
    assert replay_batches(image, batch, from_offset=0) == 3
    assert (set(image.topics), image.next_producer_id) == ({"t", "u"}, 9)


def test_replayed_records_are_not_replayed_again():
    log = a_metadata_batch(topic("t"), topic("u")) + a_metadata_batch(topic("v"), base_offset=2)
    image = MetadataImage()
    assert replay_batches(image, log, from_offset=1) == 3
    assert set(image.topics) == {"u", "v"}


def test_control_batches_are_skipped():
    log = a_commit_marker(base_offset=0) + a_metadata_batch(topic("t"), base_offset=1)
    image = MetadataImage()
    assert replay_batches(image, log, from_offset=0) == 2
    assert set(image.topics) == {"t"}


def test_without_new_records_the_offset_is_unchanged():
    assert replay_batches(MetadataImage(), b"", from_offset=7) == 7


def test_a_metadata_record_without_a_value_is_corrupt():
    with pytest.raises(CorruptBatchError, match="offset 0 has no value"):
        replay_batches(MetadataImage(), a_batch([a_record(value=None)]), from_offset=0)


@pytest.mark.parametrize("more", [0, 1])
def test_a_snapshot_has_at_most_so_many_records_in_a_batch(more):
    image = MetadataImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
    for number in range(MAX_SNAPSHOT_BATCH_RECORDS - 1 + more):
        entity = (EntityData(entity_type="user", entity_name=str(number)),)
        image.replay(ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.0, remove=False))
    batches = list(build_snapshot_batches(image, base_offset=3, leader_epoch=7, timestamp_ms=5))
    headers = [read_header(batch) for batch in batches]
    assert [header.record_count for header in headers] == [MAX_SNAPSHOT_BATCH_RECORDS, 1][: 1 + more]
    assert [header.base_offset for header in headers] == [3, 3 + MAX_SNAPSHOT_BATCH_RECORDS][: 1 + more]
    assert {header.partition_leader_epoch for header in headers} == {7}
    copied = MetadataImage()
    for batch in batches:
        replay_batches(copied, batch, from_offset=0)
    assert copied == image
