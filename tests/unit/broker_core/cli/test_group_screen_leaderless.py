"""Commands at a cluster in which a partition has no leader: they show the others, and do not wait for one.

Each such partition was waited for until `default.api.timeout.ms`, 15 seconds."""

import time

import pytest
from kio.schema.errors import ErrorCode
from support.brokers.scripted_broker import NO_TIME, ScriptedBroker, offsets_answer, schema_of
from support.nodes.scripted_coordinator import ScriptedCoordinator

from broker_core.cli.group_screen import rows_of_group
from broker_core.cluster import GroupDescription, GroupMember, GroupOffset
from broker_core.group_lag import NO_LEADER
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


@pytest.fixture
def broker():
    """Of three partitions number 0 and 2 have no leader; the bounds of number 1 are 4 and 9."""
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 3
        del scripted.versions[ApiKey.DESCRIBE_TOPIC_PARTITIONS]  # as of Kafka before 3.8: Metadata tells of leaders
        scripted.leaders |= {("t", 0): -1, ("t", 2): -1}
        scripted.script(ApiKey.LIST_OFFSETS, *[offsets_answer(("t", 1, offset)) for offset in (4, 9, 9)])
        ScriptedCoordinator(scripted)
        scripted.script(ApiKey.CONSUMER_GROUP_DESCRIBE, an_empty_group())
        yield scripted


def an_empty_group():
    schema = schema_of(ApiKey.CONSUMER_GROUP_DESCRIBE, 0)
    group = schema.DescribedGroup(
        error_code=ErrorCode.none,
        group_id="g",
        group_state="Empty",
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="range",
        members=(),
    )
    return schema.ConsumerGroupDescribeResponse(throttle_time=NO_TIME, groups=(group,))


@pytest.fixture
def remote(streamlog, broker):
    """The command line at the broker; fails if it waited for a leader."""

    def call(*arguments):
        begun = time.monotonic()
        outcome = streamlog(*arguments, "--bootstrap-server", broker.address, with_path=False)
        assert time.monotonic() - begun < 14  # the command's patience is 15 s
        return outcome

    return call


def test_a_group_is_described_with_the_partitions_that_have_a_leader(remote, broker):
    broker.client().commit_offsets("g", {each: GroupOffset(offset=9) for each in (T0, T1, T2)})
    described = remote("group", "describe", "g")
    assert described.status == 0
    assert [line.split()[:4] for line in described.out.decode().splitlines()[-3:]] == [
        ["t-0", "9", "-", "-"],
        ["t-1", "9", "9", "0"],
        ["t-2", "9", "-", "-"],
    ]
    for partition in (T0, T2):
        assert f"log end offset - of {partition}: {NO_LEADER}" in described.err
    as_json = remote("group", "describe", "g", "--json").json["partitions"]
    assert [(each["offset"], each["log_end_offset"], each["error"]) for each in as_json] == [
        (9, None, NO_LEADER), (9, 9, None), (9, None, NO_LEADER),
    ]  # fmt: skip


def test_an_assigned_partition_without_a_leader_and_a_commit_is_shown_at_once(broker):
    member = GroupMember(member_id="m", client_id="app", host="/10.0.0.1", partitions=(T1, T2))
    group = GroupDescription(group_id="g", state=GroupState.STABLE, members=(member,))
    begun = time.monotonic()
    rows = rows_of_group(broker.client(default__api__timeout__ms=60_000), group, [])
    assert time.monotonic() - begun < 30
    assert [(row.partition, row.log_end_offset, row.error) for row in rows] == [(T1, 9, None), (T2, None, NO_LEADER)]


@pytest.mark.parametrize("command", ["list", "describe"])
def test_topics_are_shown_with_the_partitions_that_have_a_leader(remote, command):
    shown = remote("topic", command, *["t"][: command == "describe"], "--json")
    assert shown.status == 0
    topic = shown.json[0] if command == "list" else shown.json
    if command == "list":
        assert topic["offsets"] == 5
    else:
        ends = [(each["partition"], each["leader"], each["log_end_offset"]) for each in topic["partitions"]]
        assert ends == [(0, None, None), (1, 1, 9), (2, None, None)]
    for partition in (T0, T2):
        assert f"offsets of {partition} are unknown: {NO_LEADER}" in shown.err
