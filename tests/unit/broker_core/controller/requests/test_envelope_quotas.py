"""Requests that count against a quota, as a broker seals them and the active controller opens them."""

from dataclasses import replace
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from support.controller.small_cluster import SmallCluster

from broker_core.controller.requests.envelope import ENVELOPE, SealedRequest, forwarded_api, request_in
from broker_core.controller.requests.registry import CONTROLLER_APIS
from broker_core.metadata.metadata_records import ClientQuotaRecord, EntityData
from broker_core.model.exceptions import RequestRefusedError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build


@pytest.fixture
def cluster():
    return SmallCluster(1, 2)


def sealed_creation(name, partition_count, *, version=7, principal="User:ann", client_id="etl"):
    topic = {"name": name, "num_partitions": partition_count, "replication_factor": 1}
    message = build(message_types(19, version).request, {"topics": [topic], "timeout": timedelta(seconds=1)})
    request = Request(api_key=19, api_version=version, correlation_id=7, client_id=client_id, message=message)
    return SealedRequest(request, principal=principal, host="10.0.0.9")


def create(cluster, sealed, now_ms=0):
    """(error, ms of throttling) of the topic, as the broker reads it."""
    inner = request_in(sealed.message)
    result = forwarded_api(inner, CONTROLLER_APIS[inner.api_key]).plan(cluster.controller, inner.message, now_ms)
    for record in result.records:
        cluster.controller.image.replay(record)
    answer = sealed.answer_in(build(message_types(ENVELOPE, 0).response, result.reply))
    return answer.topics[0].error_code.name, answer.throttle_time / timedelta(milliseconds=1)


def limit_mutations(cluster, rate, *entity):
    parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
    record = ClientQuotaRecord(entity=parts, key="controller_mutation_rate", value=rate, remove=False)
    cluster.controller.image.replay(record)


def test_a_sealed_request_is_opened_as_it_was_with_its_client():
    inner = request_in(sealed_creation("t", 3).message)
    assert (inner.api_key, inner.api_version, inner.client_id, inner.principal) == (19, 7, "etl", "User:ann")
    assert inner.message.topics[0].name == "t"


def test_partitions_beyond_a_client_s_mutation_rate_are_refused_and_the_broker_is_told_for_how_long(cluster):
    limit_mutations(cluster, 1.0, ("user", "ann"))
    assert create(cluster, sealed_creation("a", 13)) == ("none", 0)
    assert create(cluster, sealed_creation("b", 1)) == ("throttling_quota_exceeded", 2_000)
    assert "b" not in cluster.controller.image.topics
    assert create(cluster, sealed_creation("b", 1, principal="User:bob")) == ("none", 0)
    assert create(cluster, sealed_creation("c", 1), now_ms=2_000) == ("none", 0)


def test_an_old_client_s_partitions_are_created_and_it_is_throttled(cluster):
    limit_mutations(cluster, 1.0, ("client-id", None))
    assert create(cluster, sealed_creation("a", 13, version=5)) == ("none", 2_000)


def test_what_comes_without_a_client_is_not_opened():
    sealed = sealed_creation("t2", 30)
    nameless = replace(sealed.message, request_principal=b"")
    with pytest.raises(RequestRefusedError) as refused:
        request_in(nameless)
    assert refused.value.error_code is ErrorCode.principal_deserialization_failure


def test_the_controller_s_own_refusals_reach_the_broker():
    sealed = sealed_creation("t", 3)
    refusal = build(message_types(ENVELOPE, 0).response, {"error_code": ErrorCode.invalid_request})
    with pytest.raises(RequestRefusedError) as refused:
        sealed.answer_in(refusal)
    assert refused.value.error_code is ErrorCode.invalid_request
