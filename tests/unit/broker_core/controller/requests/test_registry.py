"""What an active controller answers: every request in every version, planned and refused; envelopes."""

import struct
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.controller.small_cluster import FEATURES, SmallCluster, directory

from broker_core.controller.requests.envelope import ENVELOPE, forwarded_api, request_in
from broker_core.controller.requests.registry import CONTROLLER_APIS, IN_ENVELOPES, QUORUM_APIS
from broker_core.model.exceptions import RequestRefusedError
from broker_core.protocol.api_table import message_types, versions_with_schemas
from broker_core.protocol.connection import ClientSide
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode

VERSIONS = [(key, version) for key, api in CONTROLLER_APIS.items() for version in api.versions]

WITHOUT_DIRECTORIES = ((62, 0), (62, 1))
"""Registrations that are refused at this level of metadata.version."""


ANONYMOUS_DATA = b"\0\0\x05User\x0aANONYMOUS\0\0"
"""User:ANONYMOUS as brokers of Kafka write it: the version, two compact strings, no token, no tagged field."""


@pytest.fixture
def cluster():
    cluster = SmallCluster(1, 2)
    cluster.create("t", (1, 2))
    return cluster


def values_of(key, cluster):
    broker, topic = cluster.image.registrations.brokers[1], cluster.image.topics["t"]
    sender = {"broker_id": 1, "broker_epoch": broker.broker_epoch}
    features = [
        {"name": each.name, "min_supported_version": 0, "max_supported_version": each.max_supported_version}
        for each in FEATURES
    ]
    listener = {"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0}
    state = cluster.partition("t")
    resource = {"resource_type": 2, "resource_name": "t"}
    acl_filter = {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    return {
        19: {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "timeout": 1000},
        20: {"topics": [{"name": "t", "topic_id": None}], "topic_names": ["t"], "timeout": 1000},
        29: acl_filter,
        30: {
            "creations": [
                {
                    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a",
                    "host": "*", "operation": 3, "permission_type": 3,
                }
            ]
        },
        31: {"filters": [acl_filter]},
        32: {"resources": [{**resource, "configuration_keys": None}], "include_synonyms": True},
        33: {"resources": [{**resource, "configs": [{"name": "retention.ms", "value": "7"}]}], "validate_only": False},
        37: {"topics": [{"name": "t", "count": 2, "assignments": None}], "timeout": 1000, "validate_only": False},
        43: {"election_type": 0, "topic_partitions": None, "timeout": 1000},
        44: {
            "resources": [{**resource, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "7"}]}],
            "validate_only": False,
        },
        49: {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "alice"}],
                    "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}],
                }
            ],
            "validate_only": False,
        },
        51: {
            "deletions": [],
            "upsertions": [
                {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"salted"}
            ],
        },
        45: {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [2, 1]}]}], "timeout": 1000},
        46: {"topics": None, "timeout": 1000},
        57: {
            "feature_updates": [
                {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1, "allow_downgrade": False}
            ],
            "timeout": 1000,
        },
        56: {
            **sender,
            "topics": [
                {
                    "topic_id": topic.topic_id,
                    "partitions": [
                        {
                            "partition_index": 0, "leader_epoch": 0, "partition_epoch": state.partition_epoch,
                            "new_isr": [1], "new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": -1}],
                        }
                    ],
                }
            ],
        },
        62: {
            "broker_id": 3, "cluster_id": "cluster", "incarnation_id": UUID(int=333), "listeners": [listener],
            "features": features, "rack": None, "log_dirs": [directory(3)], "previous_broker_epoch": -1,
        },
        63: {**sender, "current_metadata_offset": 99, "want_fence": False, "want_shut_down": False},
        64: {"broker_id": 1},
        67: sender,
        73: {
            **sender,
            "directories": [
                {
                    "id_": directory(1),
                    "topics": [{"topic_id": topic.topic_id, "partitions": [{"partition_index": 0}]}],
                }
            ],
        },
        70: {
            "controller_id": 9, "incarnation_id": UUID(int=999), "zk_migration_ready": False, "listeners": [listener],
            "features": features,
        },
    }[key]  # fmt: skip


def asked(cluster, key, version, values=None):
    """The request as it comes from the wire."""
    message = build(message_types(key, version).request, values_of(key, cluster) if values is None else values)
    written = b"".join(bytes(part) for part in encode(message))
    return decode(type(message), memoryview(written))[0]


def answered(cluster, key, version, values=None):
    """The answer as it comes from the wire."""
    message, api = asked(cluster, key, version, values), CONTROLLER_APIS[key]
    effects = cluster.controller.request(
        1000, lambda controller, now_ms: api.plan(controller, message, now_ms), cluster.now_ms
    )
    cluster.carry_out(effects)
    return build(message_types(key, version).response, cluster.answers[1000])


def errors_in(value):
    """All error codes in a message."""
    found = []
    for name in getattr(value, "__dataclass_fields__", ()):
        part = getattr(value, name)
        found += [part] if isinstance(part, ErrorCode) else []
        for each in part if isinstance(part, tuple) else (part,):
            found += errors_in(each)
    return found


@pytest.mark.parametrize(("key", "version"), [each for each in VERSIONS if each not in WITHOUT_DIRECTORIES])
def test_every_request_is_answered_in_every_version(cluster, key, version):
    answer = answered(cluster, key, version)
    assert set(errors_in(answer)) <= {ErrorCode.none}
    assert len(b"".join(bytes(part) for part in encode(answer))) > 0


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_request_is_refused_in_every_version(cluster, key, version):
    refusal = CONTROLLER_APIS[key].refuse(asked(cluster, key, version), ErrorCode.not_controller, "somebody else is")
    answer = build(message_types(key, version).response, refusal)
    has_error = key != 43 or version > 0  # ElectLeaders 0 has no error for all
    assert set(errors_in(answer)) == ({ErrorCode.not_controller} if has_error else set())


def test_registration_without_directories_is_refused_at_this_level(cluster):
    with pytest.raises(RequestRefusedError) as refused:
        answered(cluster, 62, 1)
    assert refused.value.error_code is ErrorCode.invalid_registration


def test_the_versions_are_kafkas():
    for key, api in CONTROLLER_APIS.items():
        assert set(api.versions) <= set(versions_with_schemas(key))
        assert api.versions[-1] == versions_with_schemas(key)[-1]


@pytest.mark.parametrize(
    ("key", "error"), [(56, "stale"), (73, "stale"), (63, "not_registered"), (67, "not_registered")]
)
def test_a_broker_that_is_not_registered_hears_what_kafka_tells_it(cluster, key, error):
    values = {**values_of(key, cluster), "broker_id": 77}
    with pytest.raises(RequestRefusedError) as refused:
        answered(cluster, key, CONTROLLER_APIS[key].versions[-1], values)
    assert error in refused.value.error_code.name


# Several things in one request


def test_topics_of_one_request_are_judged_each_on_its_own(cluster):
    names = ["a.b", "a_b", "t", "twice", "twice", "good"]
    values = {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names], "timeout": 1}
    answer = answered(cluster, 19, 7, values)
    assert {each.name: each.error_code.name for each in answer.topics} == {
        "a.b": "none", "a_b": "invalid_topic_exception", "t": "topic_already_exists", "twice": "invalid_request",
        "good": "none",
    }  # fmt: skip
    assert {"a.b", "good"} < set(cluster.image.topics)


def test_a_created_topic_is_answered_with_its_settings_and_where_they_come_from(cluster):
    topic = {
        "name": "new",
        "num_partitions": 2,
        "replication_factor": 1,
        "configs": [{"name": "segment.ms", "value": "9"}],
    }
    (answer,) = answered(cluster, 19, 7, {"topics": [topic], "timeout": 1}).topics
    assert (answer.num_partitions, answer.replication_factor) == (2, 1)
    found = {each.name: (each.value, each.config_source) for each in answer.configs}
    assert found["segment.ms"] == ("9", 1)
    assert found["min.insync.replicas"] == ("1", 3)
    assert found["retention.ms"] == ("604800000", 5)
    assert "flush.policy" not in found


def test_a_validation_changes_nothing(cluster):
    before = list(cluster.log)
    for key, version in ((19, 7), (37, 3), (44, 1), (33, 2)):
        answer = answered(cluster, key, version, {**values_of(key, cluster), "validate_only": True})
        assert set(errors_in(answer)) <= {ErrorCode.none}
    assert cluster.log == before


def test_a_partition_that_is_named_twice_is_changed_once(cluster):
    values = values_of(56, cluster)
    values["topics"][0]["partitions"] *= 2
    answer = answered(cluster, 56, 3, values)
    assert [each.error_code.name for each in answer.topics[0].partitions] == ["none", "invalid_request"]


def test_more_partitions_than_one_request_may_ask_for_are_refused(cluster):
    for count, is_refused in ((10_001, True), (10_000, False)):
        values = {"topics": [{"name": "wide", "num_partitions": count, "replication_factor": 1}], "timeout": 1}
        if is_refused:
            with pytest.raises(Exception, match="Excessively large"):
                answered(cluster, 19, 7, values)
        else:
            assert set(errors_in(answered(cluster, 19, 7, values))) == {ErrorCode.none}


def test_a_topic_is_deleted_by_name_or_id_and_once(cluster):
    topic_id = cluster.image.topics["t"].topic_id
    values = {"topics": [{"name": "t"}, {"topic_id": topic_id}, {"name": "none"}, {}], "timeout": 1}
    answer = answered(cluster, 20, 6, values)
    assert [each.error_code.name for each in answer.responses] == [
        "none", "invalid_request", "unknown_topic_or_partition", "invalid_request",
    ]  # fmt: skip
    assert "t" not in cluster.image.topics


# Envelopes


def enveloped(content):
    return build(
        message_types(ENVELOPE, 0).request,
        {"request_data": content, "request_principal": ANONYMOUS_DATA, "client_host_address": b"\x7f\0\0\1"},
    )


def framed(cluster, key, version):
    side = ClientSide(client_id="client", max_frame_bytes=10**6)
    side.send_request(build(message_types(key, version).request, values_of(key, cluster)))
    return b"".join(bytes(part) for part in side.data_to_send())[4:], side


def test_an_envelope_holds_a_request_with_its_header_and_its_answer_one_with_its(cluster):
    for key in sorted(IN_ENVELOPES.keys() - QUORUM_APIS.keys() - {64}):
        version = CONTROLLER_APIS[key].versions[-1]
        content, side = framed(cluster, key, version)
        inner = request_in(enveloped(content))
        api = forwarded_api(inner, CONTROLLER_APIS[inner.api_key])
        reply = api.plan(cluster.controller, inner.message, 0).reply
        data = build(message_types(ENVELOPE, 0).response, reply).response_data
        side.receive_data(struct.pack(">i", len(data)) + data)
        assert set(errors_in(side.next_response().message)) <= {ErrorCode.none}


def test_not_being_the_controller_is_told_to_the_broker_and_other_errors_to_its_client(cluster):
    content, side = framed(cluster, 19, 7)
    inner = request_in(enveloped(content))
    api = forwarded_api(inner, CONTROLLER_APIS[inner.api_key])
    assert api.refuse(inner.message, ErrorCode.not_controller, "") == {"error_code": ErrorCode.not_controller}
    data = api.refuse(inner.message, ErrorCode.request_timed_out, "too slow")["response_data"]
    side.receive_data(struct.pack(">i", len(data)) + data)
    assert side.next_response().message.topics[0].error_code is ErrorCode.request_timed_out


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "invalid_request"),
        (b"\0\x13\0\x07", "invalid_request"),
        (struct.pack(">hhih", 62, 4, 1, -1) + b"\0" * 40, "invalid_request"),
        (struct.pack(">hhih", 19, 99, 1, -1), "unsupported_version"),
        (struct.pack(">hhih", 19, 7, 1, -1) + b"\xff" * 9, "invalid_request"),
    ],
)
def test_what_no_client_may_send_is_not_opened(content, error):
    with pytest.raises(RequestRefusedError) as refused:
        request_in(enveloped(content))
    assert refused.value.error_code.name == error
