import pytest
from kio.schema.errors import ErrorCode
from support.nodes.security_node import SecurityNode, ask

from broker_core.protocol.api_table import ApiKey

ANN = [{"entity_type": "user", "entity_name": "ann"}]
DEFAULT = [{"entity_type": "client-id", "entity_name": None}]


def an_entry(entity, **quotas):
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()]
    return {"entity": entity, "ops": ops}


def alter(node, *entries, validate_only=False, version=None, **more):
    return ask(node, ApiKey.ALTER_CLIENT_QUOTAS, version, entries=entries, validate_only=validate_only, **more).entries


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_changed_and_removed(tmp_path, version):
    node = SecurityNode(tmp_path)
    first = an_entry(ANN, producer_byte_rate=1000.0, request_percentage=12.5)
    (answer,) = alter(node, first, version=version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    assert [(each.entity_type, each.entity_name) for each in answer.entity] == [("user", "ann")]
    alter(node, an_entry(ANN, producer_byte_rate=None, request_percentage=20.0), version=version)
    assert node.topics.image.client_quotas.by_entity == {(("user", "ann"),): {"request_percentage": 20.0}}
    assert node.image_from_the_log().client_quotas == node.topics.image.client_quotas


def test_what_is_refused_of_one_entity_changes_nothing_of_it_and_others_are_changed(tmp_path):
    node = SecurityNode(tmp_path)
    answers = alter(
        node, an_entry(ANN, consumer_byte_rate=10.0, nothing=1.0), an_entry(DEFAULT, controller_mutation_rate=0.5)
    )
    assert [answer.error_code.name for answer in answers] == ["invalid_request", "none"]
    assert answers[0].error_message == "Invalid configuration key nothing"
    assert node.topics.image.client_quotas.by_entity == {(("client-id", None),): {"controller_mutation_rate": 0.5}}


def test_a_validation_changes_nothing(tmp_path):
    node = SecurityNode(tmp_path)
    (answer,) = alter(node, an_entry(ANN, consumer_byte_rate=10.0), validate_only=True)
    assert answer.error_code is ErrorCode.none
    assert not node.topics.image.client_quotas.by_entity


def test_an_address_must_be_one(tmp_path):
    node = SecurityNode(tmp_path)
    place = [{"entity_type": "ip", "entity_name": "not.an.address"}]
    (answer,) = alter(node, an_entry(place, connection_creation_rate=5.0))
    assert answer.error_message == "not.an.address is not a valid IP: addresses are given as numbers"


def test_altering_quotas_needs_alter_configs_access_to_the_cluster(tmp_path):
    node = SecurityNode(tmp_path)
    (answer,) = alter(node, an_entry(ANN, consumer_byte_rate=10.0), principal="User:eve")
    assert answer.error_code is ErrorCode.cluster_authorization_failed
    assert not node.topics.image.client_quotas.by_entity
