import pytest
from kio.schema.errors import ErrorCode
from support.nodes.security_node import ADMIN, SecurityNode, ask

from broker_core.handlers.access_rules import REQUIRED_ACCESS
from broker_core.model.access_control import SUPPORTED_OPERATIONS, ResourceType
from broker_core.protocol.api_table import ApiKey
from broker_core.protocol.served_versions import SERVED_VERSIONS

REFUSALS = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}
OPEN_TO_ALL = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


def test_every_served_api_has_its_required_access_documented():
    assert set(SERVED_VERSIONS) <= set(REQUIRED_ACCESS)
    assert {key for key, needs in REQUIRED_ACCESS.items() if not needs} == OPEN_TO_ALL


@pytest.mark.parametrize("api_key", REQUIRED_ACCESS, ids=lambda key: key.label)
def test_each_required_operation_is_valid_for_its_resource(api_key):
    for need in REQUIRED_ACCESS[api_key]:
        assert need.operation in SUPPORTED_OPERATIONS[need.resource_type] or api_key == ApiKey.DELETE_TOPICS
        if api_key != ApiKey.FETCH:  # a follower that may not fetch is told so by topic
            assert need.refusal in (None, REFUSALS[need.resource_type])


@pytest.mark.parametrize(
    ("api_key", "fields"),
    [
        (
            ApiKey.DESCRIBE_ACLS,
            {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
        ),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}),
    ],
)
def test_an_api_about_the_whole_cluster_is_refused_and_allowed_as_a_whole(tmp_path, api_key, fields):
    node = SecurityNode(tmp_path)
    refused = ask(node, api_key, principal="User:eve", **fields)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.cluster_authorization_failed,
        "Cluster authorization failed.",
    )
    assert ask(node, api_key, principal=ADMIN, **fields).error_code == ErrorCode.none
