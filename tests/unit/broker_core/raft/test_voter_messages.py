from uuid import UUID

import pytest

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import MalformedMessageError
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.raft.observer_events import FetchAnswer, QuorumAnswer, SnapshotAnswer
from broker_core.raft.quorum_values import ReplicaIdentity, SnapshotId
from broker_core.raft.voter_events import (
    BeginEpochRequest,
    EndEpochRequest,
    ReplicaFetchRequest,
    SnapshotFetchRequest,
    VoteAnswer,
    VoteRequest,
)
from broker_core.raft.voter_messages import (
    VOTER_VERSIONS,
    answer_message,
    api_key_of,
    read_answer,
    read_request,
    request_message,
)

IDENTITY = ReplicaIdentity(node_id=1, directory_id=UUID(int=7), cluster_id="cluster")
OWN = BrokerAddress(host="node-1", port=9093)
LEADER = {"leader_id": 2, "leader_epoch": 5, "endpoints": {2: BrokerAddress(host="node-2", port=9093)}}
REQUESTS = [
    VoteRequest(
        epoch=5, candidate_id=1, candidate_directory_id=UUID(int=7), voter_id=2, last_epoch=4, last_offset=10,
        is_pre_vote=True,
    ),
    BeginEpochRequest(epoch=5, leader_id=1, voter_id=2),
    EndEpochRequest(epoch=5, leader_id=1, preferred=(3, 2)),
    ReplicaFetchRequest(
        epoch=5, replica_id=1, directory_id=UUID(int=7), fetch_offset=10, last_fetched_epoch=4, high_watermark=9,
        max_wait_ms=500, max_bytes=1000,
    ),
    SnapshotFetchRequest(
        epoch=5, replica_id=1, snapshot_id=SnapshotId(end_offset=20, epoch=4), position=30, max_bytes=1000
    ),
]  # fmt: skip
ANSWERS = [
    [VoteAnswer(is_granted=True, **LEADER), VoteAnswer(error=74, **LEADER)],
    [QuorumAnswer(**LEADER)],
    [QuorumAnswer(error=75, **LEADER)],
    [
        FetchAnswer(high_watermark=9, records=b"records", **LEADER),
        FetchAnswer(high_watermark=-1, diverging=(4, 8), **LEADER),
        FetchAnswer(high_watermark=9, snapshot_id=SnapshotId(end_offset=20, epoch=4), **LEADER),
        FetchAnswer(error=6, **LEADER),
    ],
    [SnapshotAnswer(size_bytes=50, position=30, chunk=b"piece", **LEADER), SnapshotAnswer(error=98, **LEADER)],
]


def on_the_wire(message):
    data = b"".join(bytes(part) for part in encode(message))
    return decode(type(message), memoryview(data))[0]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_in_its_newest_version_is_read_as_it_was_written(request_):
    version = VOTER_VERSIONS[api_key_of(request_)][-1]
    message = on_the_wire(request_message(request_, IDENTITY, OWN, version=version))
    assert read_request(message) == (request_, "cluster")


@pytest.mark.parametrize(("request_", "version"), [(r, v) for r in REQUESTS for v in VOTER_VERSIONS[api_key_of(r)]])
def test_every_version_is_written_and_read(request_, version):
    message = on_the_wire(request_message(request_, IDENTITY, OWN, version=version))
    found, _ = read_request(message)
    assert (type(found), found.epoch) == (type(request_), request_.epoch)
    if isinstance(request_, EndEpochRequest):
        assert found.preferred == (3, 2)


@pytest.mark.parametrize(
    ("request_", "answer"), [(r, a) for r, answers in zip(REQUESTS, ANSWERS, strict=True) for a in answers]
)
def test_an_answer_is_read_as_it_was_written(request_, answer):
    for version in VOTER_VERSIONS[api_key_of(request_)]:
        message = request_message(request_, IDENTITY, OWN, version=version)
        found = read_answer(on_the_wire(answer_message(answer, message)))
        is_newest = version == VOTER_VERSIONS[api_key_of(request_)][-1]
        assert (found.error, found.leader_id, found.leader_epoch) == (answer.error, 2, 5)
        assert found == answer or not is_newest


def test_an_answer_of_another_cluster_has_its_error_at_the_top():
    message = request_message(REQUESTS[0], IDENTITY, OWN, version=2)
    assert read_answer(on_the_wire(answer_message(VoteAnswer(error=104), message))) == VoteAnswer(error=104)


def test_a_request_about_another_topic_is_malformed():
    message = request_message(REQUESTS[1], IDENTITY, OWN, version=1)
    other = type(message.topics[0])(topic_name="other", partitions=message.topics[0].partitions)
    for topics in ((), (other,), message.topics * 2):
        changed = type(message)(
            cluster_id="cluster", voter_id=2, topics=topics, leader_endpoints=message.leader_endpoints
        )
        with pytest.raises(MalformedMessageError, match="quorum"):
            read_request(changed)
