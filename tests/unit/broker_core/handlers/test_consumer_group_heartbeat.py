import datetime

import pytest
from kio.schema.errors import ErrorCode
from support.nodes.group_node import GroupNode, ask, error_of
from support.nodes.modern_group_node import ModernGroupNode

from broker_core.protocol.api_table import ApiKey


def beat(node, version=None, **fields):
    given = {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout": 60_000, "topic_partitions": ()}
    return ask(node, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **given | {"subscribed_topic_names": ("t",)} | fields)


@pytest.mark.parametrize("version", [0, 1])
def test_every_version_lets_a_member_join_report_and_leave(tmp_path, version):
    node = ModernGroupNode(tmp_path, topics=["t"])
    joined = beat(node, version)
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (ErrorCode.none, "m", 2)
    assert joined.heartbeat_interval == datetime.timedelta(seconds=5)
    (assigned,) = joined.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (node.facts["t"].topic_id, (0, 1))
    owned = [{"topic_id": assigned.topic_id, "partitions": assigned.partitions}]
    known = beat(
        node, version, member_epoch=2, rebalance_timeout=-1, subscribed_topic_names=None, topic_partitions=owned
    )
    assert (known.error_code, known.member_epoch, known.assignment) == (ErrorCode.none, 2, None)
    left = beat(node, version, member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)


def test_version_0_accepts_an_empty_member_id(tmp_path):
    node = ModernGroupNode(tmp_path, topics=["t"])
    assert beat(node, 0, member_id="").member_id
    refused = beat(node, 1, member_id="")
    assert (refused.error_code, refused.error_message) == (ErrorCode.invalid_request, "MemberId can't be empty.")


def test_client_id_and_host_are_stored_like_kafka(tmp_path):
    node = ModernGroupNode(tmp_path, topics=["t"])
    beat(node, instance_id="i", rack_id="r")
    (member,) = node.runtime.coordinator.describe_consumer_group("g").members
    assert (member.client_id, member.client_host, member.instance_id, member.rack_id) == ("cli", "/127.0.0.1", "i", "r")


def test_a_regex_matches_only_topics_with_describe_access(tmp_path):
    node = ModernGroupNode(tmp_path, topics=["ta", "tb", "x"])
    beat(node, subscribed_topic_names=None, subscribed_topic_regex="t.*")
    node.pass_ms(1)
    found = beat(node, member_epoch=1, subscribed_topic_names=None)
    assert {each.topic_id for each in found.assignment.topic_partitions} == {
        node.facts[name].topic_id for name in ("ta", "tb")
    }


def test_joining_needs_read_access_to_the_group_and_describe_access_to_the_topics(tmp_path):
    node = ModernGroupNode(tmp_path, has_authorizer=True, topics=["t"])
    assert beat(node, principal="User:eve").error_code is ErrorCode.group_authorization_failed
    assert beat(node).error_code is ErrorCode.none


def test_coordinator_errors_are_returned(tmp_path):
    node = ModernGroupNode(tmp_path)
    node.runtime.refusal = error_of(ErrorCode.coordinator_load_in_progress)
    assert beat(node).error_code is ErrorCode.coordinator_load_in_progress


def test_a_disabled_protocol_is_reported(tmp_path):
    assert beat(GroupNode(tmp_path)).error_code is ErrorCode.unsupported_version
