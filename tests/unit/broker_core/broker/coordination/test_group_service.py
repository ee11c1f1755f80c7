import pytest
from kio.schema.errors import ErrorCode
from support.nodes.group_node import GroupNode, error_of

from broker_core.broker.coordination.group_service import member_id_source
from broker_core.group.classic.classic_messages import HeartbeatRequest, JoinProtocol, JoinRequest, SyncRequest
from broker_core.group.group_records import OffsetCommitRecord, OffsetCommitValue
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition

LOST = error_of(ErrorCode.coordinator_not_available)
LOADING = error_of(ErrorCode.coordinator_load_in_progress)
JOIN = JoinRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    protocol_type="consumer",
    protocols=(JoinProtocol(name="range"),),
    requires_known_member_id=False,
)


@pytest.fixture
def node(tmp_path):
    node = GroupNode(tmp_path)
    node.pass_ms(0)
    return node


def request(node, name, given, **options):
    """What it was answered, in a list."""
    answers = []

    def event(coordinator, ticket, now_ms):
        return getattr(coordinator, name)(ticket, given, now_ms)

    node.groups.of("g").request(event, answers.append, lambda error: answers.append(error.error_code), **options)
    return answers


def stable_member(node):
    joined = request(node, "on_join", JOIN)
    node.pass_ms(3_000)
    member_id = joined[0].member_id
    request(node, "on_sync", SyncRequest(group_id="g", generation_id=1, member_id=member_id))
    return member_id


def beat(node, member_id):
    return request(node, "on_heartbeat", HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id))


def test_a_parked_request_is_answered_when_its_timer_fires(node):
    joined = request(node, "on_join", JOIN)
    assert (joined, node.groups.waiting_count) == ([], 1)
    node.pass_ms(2_999)
    assert joined == []
    node.pass_ms(1)
    assert (joined[0].generation_id, node.groups.waiting_count) == (1, 0)


def test_a_reply_waits_until_its_state_is_durable(node):
    joined = request(node, "on_join", JOIN)
    node.runtime.is_prompt = False
    node.pass_ms(3_000)
    assert joined == []
    node.runtime.flush()
    assert joined[0].generation_id == 1


def test_members_without_heartbeats_are_removed_and_heartbeats_extend_the_session(node):
    member_id = stable_member(node)
    for _ in range(4):
        node.pass_ms(9_000)
        assert beat(node, member_id)[0].error_code is ErrorCode.none
    node.pass_ms(10_000)
    assert beat(node, member_id)[0].error_code is ErrorCode.unknown_member_id


def test_a_refused_request_gets_one_error(node):
    node.runtime.refusal = LOADING
    assert request(node, "on_join", JOIN) == [ErrorCode.coordinator_load_in_progress]
    assert node.groups.waiting_count == 0


def test_a_transactional_commit_passes_its_producer_to_the_runtime(node):
    producer = ProducerIdAndEpoch(producer_id=1, producer_epoch=0)
    request(node, "on_join", JOIN, producer=producer)
    assert node.runtime.producers == [producer]


def test_sessions_do_not_expire_while_groups_are_loading(tmp_path):
    node = GroupNode(tmp_path)
    node.pass_ms(0)
    member_id = stable_member(node)
    node.runtime.refusal = LOADING
    node.runtime.lose(LOST, kept_records=len(node.runtime.log))
    node.pass_ms(50_000)
    node.runtime.refusal = None
    node.pass_ms(9_000)
    assert beat(node, member_id)[0].error_code is ErrorCode.none
    node.pass_ms(10_000)
    assert beat(node, member_id)[0].error_code is ErrorCode.unknown_member_id


def test_after_a_log_error_parked_requests_fail_and_members_get_new_sessions(node):
    """The second join is parked and durable; the third one is refused, and the coordinator is rebuilt."""
    member_id = stable_member(node)
    kept = len(node.runtime.log)
    parked = request(node, "on_join", JOIN)
    assert parked == []
    node.runtime.is_prompt = False
    third = request(node, "on_join", JOIN)
    node.runtime.lose(LOST, kept_records=kept)
    node.runtime.is_prompt = True
    assert third == [ErrorCode.coordinator_not_available]
    node.pass_ms(0)
    assert parked == [ErrorCode.coordinator_not_available]
    assert node.groups.waiting_count == 0
    node.pass_ms(9_999)
    assert beat(node, member_id)[0].error_code is ErrorCode.none
    node.pass_ms(10_000)
    assert beat(node, member_id)[0].error_code is ErrorCode.unknown_member_id


def test_the_next_request_detects_a_reloaded_coordinator(node):
    member_id = stable_member(node)
    parked = request(node, "on_join", JOIN)
    node.runtime.lose(LOST, kept_records=len(node.runtime.log))
    assert beat(node, member_id)[0].error_code is ErrorCode.none
    node.pass_ms(0)
    assert parked == [ErrorCode.coordinator_not_available]


def test_offsets_expire_while_the_service_runs(tmp_path):
    node = GroupNode(tmp_path, offsets_retention_ms=1_000)
    node.pass_ms(0)
    request(node, "on_join", JOIN)
    node.pass_ms(3_000)
    node.pass_ms(20_000)
    assert [group.group_id for group in node.runtime.coordinator.list_groups()] == ["g"]
    node.pass_ms(600_000)
    assert node.runtime.coordinator.list_groups() == ()


def test_member_ids_are_random_uuids(tmp_path):
    node = GroupNode(tmp_path)
    new_id = member_id_source(node.entropy)
    assert len({new_id() for _ in range(10)}) == 10
    assert new_id()[14] == "4"


def test_offsets_of_many_groups_expire_in_steps(tmp_path):
    """Of ten thousand groups at once the loop did nothing else for seconds, and the batch of tombstones was refused."""
    node = GroupNode(tmp_path, offsets_retention_ms=1_000)
    node.pass_ms(0)
    for number in range(250):
        place = TopicPartition("orders", 0)
        value = OffsetCommitValue(offset=1, leader_epoch=-1, metadata="", commit_time_ms=1, topic_id=None)
        record = OffsetCommitRecord(group_id=f"g{number}", partition=place, value=value)
        node.runtime.coordinator.replay(record, record_offset=number)
    node.time_ms += 600_000
    left = []
    for _ in range(4):
        node.timers.fire(node.time_ms)
        left.append(len(node.runtime.coordinator.list_groups()))
    assert left == [150, 50, 0, 0]
