import pytest
from kio.schema.errors import ErrorCode
from support.brokers.scripted_broker import NO_TIME, ScriptedBroker, schema_of
from support.nodes.scripted_coordinator import ScriptedCoordinator

from broker_core.cluster import GroupDescription, GroupMember
from broker_core.group.consumer.consumer_protocol import encode_assignment
from broker_core.model.exceptions import AuthorizationError
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SUBSCRIPTION = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
NOT_OF_THIS_KIND = ErrorCode.group_id_not_found


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        yield scripted


def modern_answer(error_code=ErrorCode.none, state="", assignor="", members=()):
    schema = schema_of(ApiKey.CONSUMER_GROUP_DESCRIBE, 0)
    group = schema.DescribedGroup(
        error_code=error_code,
        group_id="g",
        group_state=state,
        group_epoch=1,
        assignment_epoch=1,
        assignor_name=assignor,
        members=members,
    )
    return schema.ConsumerGroupDescribeResponse(throttle_time=NO_TIME, groups=(group,))


def modern_member(*numbers):
    schema = schema_of(ApiKey.CONSUMER_GROUP_DESCRIBE, 0)
    topic = schema.TopicPartitions(topic_id=None, topic_name="t", partitions=numbers)
    return schema.Member(
        member_id="m",
        instance_id="static",
        member_epoch=1,
        client_id="app",
        client_host="/10.0.0.1",
        assignment=schema.Assignment(topic_partitions=(topic,)),
        target_assignment=schema.Assignment(topic_partitions=()),
    )


def classic_answer(error_code=ErrorCode.none, state="Stable", protocol_type="consumer", assignment=b""):
    schema = schema_of(ApiKey.DESCRIBE_GROUPS, 5)
    member = schema.DescribedGroupMember(
        member_id="m", client_id="app", client_host="/10.0.0.1", member_metadata=b"", member_assignment=assignment
    )
    group = schema.DescribedGroup(
        error_code=error_code,
        group_id="g",
        group_state=state,
        protocol_type=protocol_type,
        protocol_data="range",
        members=(member,) if state == "Stable" else (),
    )
    return schema.DescribeGroupsResponse(throttle_time=NO_TIME, groups=(group,))


def test_a_consumer_group_is_described_by_consumer_group_describe(broker):
    answer = modern_answer(state="Reconciling", assignor="uniform", members=(modern_member(1, 0),))
    broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, answer)
    member = GroupMember(member_id="m", client_id="app", host="/10.0.0.1", instance_id="static", partitions=(T0, T1))
    assert broker.client().describe_group("g") == GroupDescription(
        group_id="g", state=GroupState.RECONCILING, assignor="uniform", members=(member,)
    )
    assert broker.asked(ApiKey.DESCRIBE_GROUPS) == []


@pytest.mark.parametrize("code", [NOT_OF_THIS_KIND, ErrorCode.unsupported_version])
def test_a_group_that_is_not_a_consumer_group_is_described_as_classic(broker, code):
    broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, modern_answer(code))
    assignment = encode_assignment({"t": frozenset({1, 0})}, SUBSCRIPTION)
    broker.script(ApiKey.DESCRIBE_GROUPS, classic_answer(assignment=assignment))
    member = GroupMember(member_id="m", client_id="app", host="/10.0.0.1", partitions=(T0, T1))
    assert broker.client().describe_group("g") == GroupDescription(
        group_id="g", state=GroupState.STABLE, assignor="range", members=(member,)
    )


def test_a_broker_without_consumer_groups_gets_only_describe_groups(broker):
    del broker.versions[ApiKey.CONSUMER_GROUP_DESCRIBE]
    broker.script(ApiKey.DESCRIBE_GROUPS, classic_answer(state="Empty"))
    assert broker.client().describe_group("g").state is GroupState.EMPTY
    assert broker.asked(ApiKey.CONSUMER_GROUP_DESCRIBE) == []


def test_a_missing_group_is_dead(broker):
    broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, modern_answer(NOT_OF_THIS_KIND))
    broker.script(ApiKey.DESCRIBE_GROUPS, classic_answer(state="Dead", protocol_type=""))
    ScriptedCoordinator(broker)
    assert broker.client().describe_group("g") == GroupDescription(group_id="g", state=GroupState.DEAD)


def test_a_group_with_only_offsets_has_an_unknown_state(broker):
    # A group of streams of a newer Kafka was called dead.
    broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, modern_answer(NOT_OF_THIS_KIND))
    broker.script(ApiKey.DESCRIBE_GROUPS, classic_answer(state="Dead", protocol_type=""))
    ScriptedCoordinator(broker).offsets["g", "t", 0] = (5, "")
    assert broker.client().describe_group("g") == GroupDescription(group_id="g", state=GroupState.UNKNOWN)


@pytest.mark.parametrize(
    ("protocol_type", "assignment"), [("connect", b"whatever it is"), ("consumer", b"\0"), ("consumer", b"")]
)
def test_a_member_with_an_unreadable_assignment_has_no_partitions(broker, protocol_type, assignment):
    broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, modern_answer(NOT_OF_THIS_KIND))
    broker.script(ApiKey.DESCRIBE_GROUPS, classic_answer(protocol_type=protocol_type, assignment=assignment))
    (member,) = broker.client().describe_group("g").members
    assert (member.member_id, member.partitions) == ("m", ())


def test_a_refusal_of_either_request_is_raised(broker):
    broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, modern_answer(ErrorCode.group_authorization_failed))
    with pytest.raises(AuthorizationError, match="describe group 'g'"):
        broker.client().describe_group("g")
    broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, modern_answer(NOT_OF_THIS_KIND))
    broker.script(ApiKey.DESCRIBE_GROUPS, classic_answer(ErrorCode.group_authorization_failed))
    with pytest.raises(AuthorizationError, match="describe group 'g'"):
        broker.client().describe_group("g")


def test_a_coordinator_that_is_not_ready_is_retried(broker):
    loading = modern_answer(ErrorCode.coordinator_load_in_progress)
    broker.script(ApiKey.CONSUMER_GROUP_DESCRIBE, loading, modern_answer(state="Stable"))
    assert broker.client().describe_group("g").state is GroupState.STABLE
