"""As a real Kafka 4.3.1 answered the same requests."""

import pytest
from support.nodes.transaction_node import TransactionNode

from broker_core.protocol.api_table import ApiKey

FENCED = {3: "invalid_producer_epoch", 4: "producer_fenced", 5: "producer_fenced"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    return TransactionNode(tmp_path_factory.mktemp("node"))


@pytest.fixture
def name(request):
    return request.node.name


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_the_next_instance_the_next_epoch(node, name, version):
    producer_id, epoch = node.producer(name, version=version)
    assert epoch == 0
    assert node.init(name, version) == ("none", producer_id, 1)


def test_without_a_transactional_id_each_request_gives_a_new_producer(node):
    given = [node.init(None) for _ in range(3)] + [node.init(None, known=(5, 5))]
    assert len({producer_id for _, producer_id, _ in given}) == 4
    assert {(error, epoch) for error, _, epoch in given} == {("none", 0)}


def test_producer_ids_are_never_assigned_twice_even_after_a_restart(tmp_path):
    seen = []
    for _ in range(2):
        node = TransactionNode(tmp_path / "log")
        seen += [node.init(None)[1], node.init("t")[1]]
        node.stop()
    assert len(set(seen)) == 3, "t keeps its own"


@pytest.mark.parametrize("timeout_ms", [0, -5, 900_001])
def test_a_timeout_out_of_bounds_is_refused(node, name, timeout_ms):
    assert node.init(name, timeout_ms=timeout_ms) == ("invalid_transaction_timeout", -1, -1)


def test_the_maximum_timeout_is_transaction_max_timeout_ms(tmp_path):
    node = TransactionNode(tmp_path / "log", transaction_max_timeout_ms=1_000_000)
    assert node.init(timeout_ms=1_000_000)[0] == "none"
    assert node.init(timeout_ms=1_000_001)[0] == "invalid_transaction_timeout"


def test_an_empty_id_and_an_incomplete_producer_are_refused(node, name):
    assert node.init("") == ("invalid_request", -1, -1)
    assert node.init(name, known=(5, -1)) == node.init(name, known=(-1, 5)) == ("invalid_request", -1, -1)


@pytest.mark.parametrize("version", FENCED)
def test_a_producer_may_request_its_next_epoch_and_retry(node, name, version):
    producer_id, _ = node.producer(name)
    for _ in range(2):
        assert node.init(name, version, known=(producer_id, 0)) == ("none", producer_id, 1)
    assert node.init(name, version, known=(producer_id, 1)) == ("none", producer_id, 2)
    assert node.init(name, version, known=(producer_id, 0)) == (FENCED[version], -1, -1)
    assert node.init(name, version, known=(producer_id + 1, 2)) == (FENCED[version], -1, -1)
    assert node.init(name, version) == ("none", producer_id, 3)
    assert node.init(name, version, known=(producer_id, 2)) == (FENCED[version], -1, -1)


def test_concurrent_requests_are_handled_in_order(node, name):
    producer_id, _ = node.producer(name)
    asked = {"transactional_id": name, "transaction_timeout": 1000, "producer_id": producer_id, "producer_epoch": 0}
    answers = [node.send(ApiKey.INIT_PRODUCER_ID, 5, **asked) for _ in range(3)]
    node.jobs.run_all()
    assert [each[0].producer_epoch for each in answers] == [1, 1, 1], "one and its retries"


def test_a_client_without_write_access_to_the_id_is_refused(tmp_path):
    node = access_node(tmp_path)
    assert node.init(principal="User:eve") == ("transactional_id_authorization_failed", -1, -1)
    assert node.init(None, principal="User:eve") == ("cluster_authorization_failed", -1, -1)
    assert node.init()[0] == "none"


def access_node(tmp_path):
    return TransactionNode(
        tmp_path / "log",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:admin",
    )
