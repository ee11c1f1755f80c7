import pytest
from drawn_history import drawn_records

from broker_core.metadata.image_snapshot import snapshot_records
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_record_codec import decode_metadata_record, encode_metadata_record
from broker_core.metadata.metadata_records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from broker_core.model.exceptions import InconsistentMetadataError

GROUPS = (
    "FeatureLevel", "RegisterBroker", "RegisterController", "Topic Partition", "Config", "ClientQuota", "ProducerIds",
    "AccessControlEntry", "UserScramCredential", "DelegationToken",
)  # fmt: skip


def an_image(seed, count=400):
    image = MetadataImage()
    for record in drawn_records(seed, count):
        try:
            image.replay(record)
        except InconsistentMetadataError:
            continue
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
    image.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    return image


def replayed(records: list[MetadataRecord]):
    image = MetadataImage()
    for record in records:
        image.replay(decode_metadata_record(encode_metadata_record(record)))
    return image


@pytest.mark.parametrize("seed", range(20, 28))
def test_a_snapshot_makes_an_equal_image(seed):
    image = an_image(seed)
    records = list(snapshot_records(image))
    copied = replayed(records)
    assert list(snapshot_records(copied)) == records
    assert copied.partitions == image.partitions
    assert copied.topics == image.topics
    assert _without_versions(copied) == _without_versions(image)


def _without_versions(image):
    """Registrations remember in which version they were written; everything else has to be equal as it is."""
    brokers = {n: (b.broker_epoch, b.fenced, b.log_dirs, b.rack) for n, b in image.registrations.brokers.items()}
    other = (image.client_quotas, image.scram_credentials, image.access_control, image.features)
    return brokers, other, dict(image.delegation_tokens), image.next_producer_id


def test_the_groups_come_in_kafkas_order():
    records = list(snapshot_records(an_image(seed=20, count=1500)))
    kinds = [type(record).__name__.removesuffix("Record") for record in records]
    groups = [next(n for n, group in enumerate(GROUPS) if kind in group.split()) for kind in kinds]
    assert groups == sorted(groups)
    assert len(set(groups)) == len(GROUPS), "a group is missing"
    assert records[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)


@pytest.mark.parametrize(
    ("level", "register", "partition"), [(7, 1, 0), (8, 2, 0), (17, 3, 1), (22, 3, 1), (23, 3, 2), (30, 4, 2)]
)
def test_records_are_written_in_the_versions_of_the_images_level(level, register, partition):
    image = an_image(seed=21)
    image.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0))
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=level))
    records = list(snapshot_records(image))
    assert {r.version for r in records if isinstance(r, RegisterBrokerRecord)} == {register}
    assert {r.version for r in records if isinstance(r, PartitionRecord)} == {partition}
    assert {r.version for r in records if isinstance(r, TopicRecord)} == {0}
    assert all(encode_metadata_record(record) for record in records)
