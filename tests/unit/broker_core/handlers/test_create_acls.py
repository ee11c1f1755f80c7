import pytest
from kio.schema.errors import ErrorCode
from support.nodes.security_node import SecurityNode, ask, codes

from broker_core.model.access_control import Operation, ResourceType
from broker_core.protocol.api_table import ApiKey
from broker_core.storage.os_file_system import OsFileSystem


def a_creation(name="t", **parts):
    return {
        "resource_type": 2, "resource_name": name, "resource_pattern_type": 3, "principal": "User:bob", "host": "*",
        "operation": 3, "permission_type": 3,
    } | parts  # fmt: skip


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_acl_applies_once_answered_and_is_in_the_log(tmp_path, version):
    node = SecurityNode(tmp_path)
    may_read = lambda: node.authorizer.authorize("User:bob", "h", Operation.READ, ResourceType.TOPIC, "t")  # noqa: E731
    assert not may_read()
    answer = ask(node, ApiKey.CREATE_ACLS, version, creations=[a_creation()])
    assert codes(answer.results) == [("none", "")]
    assert may_read()
    assert node.image_from_the_log().access_control == node.topics.image.access_control


def test_invalid_acls_are_refused_separately(tmp_path):
    node = SecurityNode(tmp_path)
    creations = [a_creation("a"), a_creation(""), a_creation("b"), a_creation(resource_type=99)]
    answer = ask(node, ApiKey.CREATE_ACLS, creations=creations)
    assert codes(answer.results) == [
        ("none", ""),
        ("invalid_request", "Invalid empty resource name"),
        ("none", ""),
        ("invalid_request", "Invalid resourceType UNKNOWN"),
    ]
    assert [rule.resource_name for rule in node.topics.image.access_control.rules.values()] == ["a", "b"]


def test_without_an_authorizer_acls_are_refused(tmp_path):
    answer = ask(SecurityNode(tmp_path, has_authorizer=False), ApiKey.CREATE_ACLS, creations=[a_creation()] * 2)
    assert codes(answer.results) == [("security_disabled", "No Authorizer is configured.")] * 2


def test_creating_acls_needs_alter_access_to_the_cluster(tmp_path):
    node = SecurityNode(tmp_path)
    answer = ask(node, ApiKey.CREATE_ACLS, principal="User:eve", creations=[a_creation()])
    assert codes(answer.results) == [("cluster_authorization_failed", "Cluster authorization failed.")]
    assert not node.topics.image.access_control.rules
    ask(node, ApiKey.CREATE_ACLS, creations=[a_creation(
        "kafka-cluster", resource_type=4, operation=7, principal="User:eve")])  # fmt: skip
    answer = ask(node, ApiKey.CREATE_ACLS, principal="User:eve", creations=[a_creation()])
    assert codes(answer.results) == [("none", "")]


class FullDisk(OsFileSystem):
    hits = 0

    def open(self, path, *, writable, create=False):
        file = super().open(path, writable=writable, create=create)
        return FullFile(self, file) if writable and path.endswith(".log") else file


class FullFile:
    def __init__(self, disk, file):
        self._disk, self._file = disk, file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write_at(self, position, data):
        self._disk.hits += 1
        raise OSError(28, "No space left on device", self._file.path)


def test_an_acl_that_could_not_be_stored_does_not_apply(tmp_path):
    disk = FullDisk()
    node = SecurityNode(tmp_path, fs=disk)
    answer = ask(node, ApiKey.CREATE_ACLS, creations=[a_creation()])
    assert disk.hits
    assert answer.results[0].error_code == ErrorCode.kafka_storage_error
    assert not node.topics.image.access_control.rules
