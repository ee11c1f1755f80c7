import time

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from support.brokers.scripted_broker import NO_TIME, ScriptedBroker, schema_of
from support.nodes.scripted_coordinator import ScriptedCoordinator, ScriptedTransaction

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import GroupNotEmptyError, OffsetMetadataTooLargeError, UnknownGroupError
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 2
        yield scripted


@pytest.fixture
def coordinator(broker):
    return ScriptedCoordinator(broker)


def commit_answer(code):
    schema = schema_of(ApiKey.OFFSET_COMMIT, 8)
    one = schema.OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return schema.OffsetCommitResponse(
        throttle_time=NO_TIME, topics=(schema.OffsetCommitResponseTopic(name="t", partitions=(one,)),)
    )


def test_offsets_are_committed_and_fetched(broker, coordinator):
    client = broker.client()
    client.commit_offsets("g", {T0: GroupOffset(offset=5, metadata="m"), T1: GroupOffset(offset=6)})
    assert client.fetch_offsets("g") == {T0: GroupOffset(offset=5, metadata="m"), T1: GroupOffset(offset=6)}
    assert client.fetch_offsets("g", [T1, TopicPartition("t", 9)]) == {T1: GroupOffset(offset=6)}
    assert client.fetch_offsets("other") == {}
    assert client.fetch_offsets("g", []) == {}
    asked = broker.asked(ApiKey.OFFSET_COMMIT)[0]
    assert (asked.generation_id_or_member_epoch, asked.member_id) == (-1, "")


def test_offsets_of_a_decided_transaction_are_awaited(broker, coordinator):
    coordinator.offsets["g", "t", 0] = (5, "")
    coordinator.entries["a"] = ScriptedTransaction(
        producer_id=1, state="PrepareCommit", pending={("g", "t", 0): (9, "")}
    )

    def fetch(request):
        if len(broker.asked(ApiKey.OFFSET_FETCH)) == 3:
            coordinator._finish(coordinator.entries["a"], commit=True)
        return coordinator.fetch(request)

    broker.script(ApiKey.OFFSET_FETCH, fetch)
    assert broker.client().fetch_offsets("g", [T0]) == {T0: GroupOffset(offset=9)}


def test_offsets_of_an_open_transaction_are_ignored(broker, coordinator, monkeypatch):
    monkeypatch.setattr("broker_core.client.remote_group_offsets._STABLE_WAIT_SECONDS", 0.05)
    coordinator.offsets["g", "t", 0] = (5, "")
    coordinator.entries["a"] = ScriptedTransaction(producer_id=1, state="Ongoing", pending={("g", "t", 0): (9, "")})
    began = time.monotonic()
    assert broker.client().fetch_offsets("g", [T0]) == {T0: GroupOffset(offset=5)}
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.unknown_member_id, GroupNotEmptyError),
        (ErrorCode.illegal_generation, GroupNotEmptyError),
        (ErrorCode.offset_metadata_too_large, OffsetMetadataTooLargeError),
    ],
)
def test_a_refused_commit_is_raised(broker, code, kind):
    broker.script(ApiKey.OFFSET_COMMIT, commit_answer(code))
    with pytest.raises(kind, match="commit offsets of group 'g': t-0"):
        broker.client().commit_offsets("g", {T0: GroupOffset(offset=1)})


def test_a_loading_coordinator_is_retried(broker, coordinator):
    broker.script(ApiKey.OFFSET_COMMIT, commit_answer(ErrorCode.coordinator_load_in_progress), coordinator.commit)
    broker.client().commit_offsets("g", {T0: GroupOffset(offset=1)})
    assert coordinator.offsets == {("g", "t", 0): (1, "")}


def test_groups_are_listed_from_every_broker(broker):
    schema = schema_of(ApiKey.LIST_GROUPS, 4)

    def listed(*names):
        return schema.ListGroupsResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            groups=tuple(
                schema.ListedGroup(group_id=GroupId(name), protocol_type="", group_state="Empty") for name in names
            ),
        )

    with ScriptedBroker(node_id=2) as other:
        broker.nodes[2] = ("127.0.0.1", other.port)
        broker.script(ApiKey.LIST_GROUPS, listed("b"))
        other.script(ApiKey.LIST_GROUPS, listed("a", "c"))
        assert broker.client().list_groups() == ("a", "b", "c")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.none, None),
        (ErrorCode.group_id_not_found, UnknownGroupError),
        (ErrorCode.non_empty_group, GroupNotEmptyError),
    ],
)
def test_a_group_is_deleted_or_the_refusal_is_raised(broker, code, kind):
    schema = schema_of(ApiKey.DELETE_GROUPS, 2)
    result = schema.DeletableGroupResult(group_id=GroupId("g"), error_code=code)
    broker.script(ApiKey.DELETE_GROUPS, schema.DeleteGroupsResponse(throttle_time=NO_TIME, results=(result,)))
    if kind is None:
        broker.client().delete_group("g")
        return
    with pytest.raises(kind, match="delete group 'g'"):
        broker.client().delete_group("g")
