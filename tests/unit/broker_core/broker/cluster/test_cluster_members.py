from uuid import UUID

import pytest

from broker_core.broker.cluster.cluster_members import ClusterMembers
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import (
    BrokerEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.identifiers import TopicPartition

TOPIC_ID = UUID(int=7)


@pytest.fixture
def image():
    image = MetadataImage()
    for node_id in (1, 2, 3):
        ends = tuple(
            BrokerEndpoint(name=name, host=f"host-{node_id}", port=9000 + place, security_protocol=0)
            for place, name in enumerate(("PLAINTEXT", "OUTSIDE"))
        )
        image.replay(
            RegisterBrokerRecord(
                broker_id=node_id,
                incarnation_id=UUID(int=node_id),
                broker_epoch=node_id,
                end_points=ends,
                rack=f"rack-{node_id}",
                fenced=node_id == 3,
            )
        )
    image.replay(TopicRecord(name="__consumer_offsets", topic_id=TOPIC_ID))
    for number in range(4):
        image.replay(
            PartitionRecord(
                partition_id=number,
                topic_id=TOPIC_ID,
                replicas=(1, 2, 3),
                isr=(1, 2),
                leader=1 + number % 2,
                leader_epoch=5,
                partition_epoch=6,
            )
        )
    return image


@pytest.fixture
def members(image):
    return ClusterMembers(cluster_id="c", node_id=2, image_now=lambda: image)


def test_brokers_are_those_that_are_not_fenced_and_requests_for_the_controller_come_here(members):
    assert (members.brokers, members.fenced_brokers, members.controller) == ([1, 2], [3], 2)


def test_a_fenced_broker_names_another_one_for_requests_to_the_controller(image):
    assert ClusterMembers(cluster_id="c", node_id=3, image_now=lambda: image).controller == 1


def test_a_partition_has_the_leader_replicas_and_in_sync_set_of_the_image_and_fenced_ones_are_offline(members):
    found = members.leader_of(TopicPartition("__consumer_offsets", 1))
    assert (found.leader_id, found.leader_epoch, found.replica_ids) == (2, 5, (1, 2, 3))
    assert (found.in_sync_ids, found.offline_ids) == ((1, 2), [3])


def test_an_unknown_partition_has_no_leader(members):
    assert members.leader_of(TopicPartition("other", 0)).leader_id == -1


def test_the_coordinator_of_a_key_leads_the_partition_that_its_hash_names(members):
    # hello: 99162322 % 4 = 2, led by 1; a: 97 % 4 = 1, led by 2
    assert [members.coordinator_of("__consumer_offsets", key) for key in ("hello", "a")] == [1, 2]


def test_a_broker_is_told_by_the_clients_listener_or_by_any(members):
    assert members.endpoint_of(1, "OUTSIDE") == BrokerAddress(host="host-1", port=9001)
    assert members.endpoint_of(1, "GONE") == BrokerAddress(host="host-1", port=9000)
    assert (members.rack_of(1), members.rack_of(9)) == ("rack-1", None)
