from dataclasses import replace
from uuid import UUID

import pytest

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import MalformedMessageError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.raft.observer_events import FetchAnswer, QuorumAnswer, SnapshotAnswer
from broker_core.raft.quorum_values import SnapshotId
from broker_core.raft.voter_events import (
    AddVoterRequest,
    BeginEpochRequest,
    ChangeAnswer,
    EndEpochRequest,
    RemoveVoterRequest,
    ReplicaFetchRequest,
    SnapshotFetchRequest,
    UpdateVoterRequest,
    VersionsAnswer,
    VersionsRequest,
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
from broker_core.raft.voter_set import ReplicaKey, VoterNode

PLACES = {"CONTROLLER": BrokerAddress(host="node-1", port=9093), "OTHER": BrokerAddress(host="::1", port=65535)}
NODE = VoterNode(node_id=1, directory_id=UUID(int=7), endpoints=PLACES)
LEADER = {"leader_id": 2, "leader_epoch": 5, "endpoints": {2: BrokerAddress(host="node-2", port=9093)}}
REQUESTS = [
    VoteRequest(
        epoch=5, candidate_id=1, candidate_directory_id=UUID(int=7), voter_id=2, voter_directory_id=UUID(int=9),
        last_epoch=4, last_offset=10, is_pre_vote=True,
    ),
    BeginEpochRequest(epoch=5, leader_id=1, voter_id=2, voter_directory_id=UUID(int=9), endpoints=PLACES),
    EndEpochRequest(epoch=5, leader_id=1, preferred=(ReplicaKey(3, UUID(int=3)), ReplicaKey(2)), endpoints=PLACES),
    ReplicaFetchRequest(
        epoch=5, replica_id=1, directory_id=UUID(int=7), fetch_offset=10, last_fetched_epoch=4, high_watermark=9,
        max_wait_ms=500, max_bytes=1000,
    ),
    SnapshotFetchRequest(
        epoch=5, replica_id=1, snapshot_id=SnapshotId(end_offset=20, epoch=4), position=30, max_bytes=1000,
        directory_id=UUID(int=7),
    ),
    AddVoterRequest(voter=NODE, is_answered_when_committed=False),
    RemoveVoterRequest(voter=NODE.key),
    UpdateVoterRequest(epoch=5, voter=replace(NODE, kraft_versions=(0, 3))),
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
    [ChangeAnswer(error=126, message="it is a voter"), ChangeAnswer()],
    [ChangeAnswer(error=127, message=None)],
    [QuorumAnswer(**LEADER), QuorumAnswer(error=7, leader_id=2, leader_epoch=5)],
]


def on_the_wire(message):
    data = b"".join(bytes(part) for part in encode(message))
    return decode(type(message), memoryview(data))[0]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_in_its_newest_version_is_read_as_it_was_written(request_):
    version = VOTER_VERSIONS[api_key_of(request_)][-1]
    message = on_the_wire(request_message(request_, "cluster", version=version))
    assert read_request(message) == (request_, "cluster")


@pytest.mark.parametrize(("request_", "version"), [(r, v) for r in REQUESTS for v in VOTER_VERSIONS[api_key_of(r)]])
def test_every_version_is_written_and_read(request_, version):
    message = on_the_wire(request_message(request_, "cluster", version=version))
    found, _ = read_request(message)
    assert type(found) is type(request_) and getattr(found, "epoch", None) == getattr(request_, "epoch", None)
    if isinstance(request_, EndEpochRequest):
        assert [key.node_id for key in found.preferred] == [3, 2]
    if isinstance(request_, AddVoterRequest):
        assert found.is_answered_when_committed is (version == 0), "version 0 knows no other way"


@pytest.mark.parametrize(
    ("request_", "answer"), [(r, a) for r, answers in zip(REQUESTS, ANSWERS, strict=True) for a in answers]
)
def test_an_answer_is_read_as_it_was_written(request_, answer):
    for version in VOTER_VERSIONS[api_key_of(request_)]:
        message = request_message(request_, "cluster", version=version)
        found = read_answer(on_the_wire(answer_message(answer, message)))
        is_newest = version == VOTER_VERSIONS[api_key_of(request_)][-1]
        assert (found.error, found.leader_id, found.leader_epoch) == (
            answer.error,
            answer.leader_id,
            answer.leader_epoch,
        )
        assert found == answer or not is_newest


def test_an_answer_of_another_cluster_has_its_error_at_the_top():
    message = request_message(REQUESTS[0], "cluster", version=2)
    assert read_answer(on_the_wire(answer_message(VoteAnswer(error=104), message))) == VoteAnswer(error=104)


def test_a_request_about_another_topic_is_malformed():
    message = request_message(REQUESTS[1], "cluster", version=1)
    other = type(message.topics[0])(topic_name="other", partitions=message.topics[0].partitions)
    for topics in ((), (other,), message.topics * 2):
        changed = type(message)(
            cluster_id="cluster", voter_id=2, topics=topics, leader_endpoints=message.leader_endpoints
        )
        with pytest.raises(MalformedMessageError, match="quorum"):
            read_request(changed)


@pytest.mark.parametrize(
    ("features", "found"),
    [({"kraft.version": (0, 1), "metadata.version": (7, 30)}, (0, 1)), ({"metadata.version": (7, 30)}, None)],
)
def test_a_node_names_the_kraft_versions_that_it_knows_among_its_features(features, found):
    asked = on_the_wire(request_message(VersionsRequest(), "cluster", version=4))
    assert asked.client_software_name == "spark-streamlog"
    supported = [{"name": name, "min_version": low, "max_version": high} for name, (low, high) in features.items()]
    answer = build(message_types(18, 4).response, {"supported_features": supported})
    assert read_answer(on_the_wire(answer)) == VersionsAnswer(kraft_versions=found)
