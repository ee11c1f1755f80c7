"""As a real Kafka 4.3.1 answered the same requests."""

import pytest
from support.nodes.transaction_node import TransactionNode


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    return TransactionNode(tmp_path_factory.mktemp("node"))


@pytest.fixture
def name(request):
    return request.node.name


@pytest.mark.parametrize("version", range(5))
def test_every_version_adds_the_offsets_partition_to_the_transaction(node, name, version):
    producer_id, epoch = node.producer(name)
    assert node.add_offsets((producer_id, epoch), transactional_id=name, version=version) == "none"
    (topic,) = node.describe(name).topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", (0,))
    fenced = "producer_fenced" if version >= 2 else "invalid_producer_epoch"
    assert node.add_offsets((producer_id, epoch - 1), transactional_id=name, version=version) == fenced


def test_unknown_and_empty_ids_are_refused(node):
    assert node.add_offsets((1, 1), transactional_id="never") == "invalid_producer_id_mapping"
    assert node.add_offsets((1, 1), transactional_id="") == "invalid_request"
