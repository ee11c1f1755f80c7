"""The observer over real sockets at a controller that serves what a real Kafka wrote."""

import time
from uuid import UUID

import pytest
from image_history import logged_records
from kio.schema.errors import ErrorCode
from support.brokers.scripted_controller import FETCH, LEADER_EPOCH, LEADER_ID, ScriptedController

from broker_core.client.quorum_follower import QuorumFollower
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_record_codec import decode_metadata_record
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import QuorumError
from broker_core.raft.quorum_values import ElectionState, ReplicaIdentity
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.quorum_log import QuorumLog

IDENTITY = ReplicaIdentity(node_id=98, directory_id=UUID(int=4711), cluster_id="scripted")
SECONDS = 60


@pytest.fixture
def controller():
    with ScriptedController() as scripted:
        yield scripted


def a_follower(controller, tmp_path):
    settings = parse_client_settings({"bootstrap.servers": controller.address, "retry.backoff.ms": "1"})
    return QuorumFollower(settings, IDENTITY, QuorumLog(OsFileSystem(), str(tmp_path / "__cluster_metadata-0")))


def follow(follower, until):
    deadline = time.monotonic() + SECONDS
    follower.run(until=lambda: until() or time.monotonic() > deadline)
    assert until(), f"not after {SECONDS} s: {follower.image_offset}, {follower.observer.election}"


def the_whole_image():
    image = MetadataImage()
    for _, content in logged_records("cluster-metadata-kafka-4.3.1"):
        image.replay(decode_metadata_record(content))
    return image


def test_a_new_observer_gets_the_snapshot_and_the_log_behind_it_byte_for_byte(controller, tmp_path):
    with a_follower(controller, tmp_path) as follower:
        follow(follower, lambda: follower.image_offset == controller.end_offset)
        image = follower.image
        assert follower.observer.election == ElectionState(leader_epoch=LEADER_EPOCH, leader_id=LEADER_ID)
    folder = tmp_path / "__cluster_metadata-0"
    end_offset = controller.snapshot_id.end_offset
    assert (folder / controller.snapshot_name).read_bytes() == controller.files[controller.snapshot_name]
    assert (folder / f"{end_offset:020d}.log").read_bytes() == controller.log_behind_snapshot()
    assert image.topics == the_whole_image().topics
    assert image.partitions == the_whole_image().partitions
    assert len(image.partitions) > 5
    first = controller.asked(FETCH)[0]
    (asked,) = first.topics[0].partitions
    assert (first.replica_state.replica_id, asked.replica_directory_id, asked.high_watermark) == (
        98,
        UUID(int=4711),
        -1,
    )


def test_it_continues_where_it_stopped(controller, tmp_path):
    middle = controller.snapshot_id.end_offset + 30
    with a_follower(controller, tmp_path) as follower:
        follow(follower, lambda: follower.image_offset >= middle)
        stopped_at = follower.observer.log_end_offset
    controller.requests.clear()
    with a_follower(controller, tmp_path) as follower:
        follow(follower, lambda: follower.image_offset == controller.end_offset)
        assert follower.image.partitions == the_whole_image().partitions
    offsets = [message.topics[0].partitions[0].fetch_offset for message in controller.asked(FETCH)]
    assert min(offsets) == stopped_at > middle - 1


def test_a_damaged_snapshot_is_not_installed(controller, tmp_path):
    whole = controller.files[controller.snapshot_name]
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    controller.files[controller.snapshot_name] = bytes(damaged)
    started = time.monotonic()
    with a_follower(controller, tmp_path) as follower:
        follower.run(until=lambda: len(controller.asked(FETCH)) >= 4 or time.monotonic() > started + SECONDS)
        assert follower.image_offset == 0
        assert not list((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))
        controller.files[controller.snapshot_name] = whole
        follow(follower, lambda: follower.image_offset == controller.end_offset)


def test_another_cluster_is_not_followed(controller, tmp_path):
    controller.script(
        FETCH,
        lambda request: controller._answer_as(
            request, error_code=ErrorCode.inconsistent_cluster_id, responses=[], node_endpoints=[], throttle_time=0
        ),
    )
    with a_follower(controller, tmp_path) as follower, pytest.raises(QuorumError, match="belongs to another cluster"):
        follower.run(until=lambda: False)
