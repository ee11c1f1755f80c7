"""As a real Kafka 4.3.1 answered the same requests."""

import pytest
from support.nodes.transaction_node import TransactionNode

from broker_core.protocol.api_table import ApiKey


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    return TransactionNode(tmp_path_factory.mktemp("node"))


@pytest.fixture
def name(request):
    return request.node.name


@pytest.mark.parametrize("version", range(6))
def test_every_version_keeps_offsets_pending_until_the_transaction_ends(node, name, version):
    producer = node.producer(name)
    if version < 5:
        assert node.add_offsets(producer, transactional_id=name, group_id=name) == "none"
    given = {"transactional_id": name, "group_id": name, "version": version}
    assert node.commit_offset(producer, 5, numbers=(0, 9), **given) == ["none", "unknown_topic_or_partition"]
    assert node.committed_offset(name) == -1
    node.end(producer, transactional_id=name)
    assert node.committed_offset(name) == 5


@pytest.mark.parametrize(("version", "answer"), [(0, "invalid_txn_state"), (3, "invalid_txn_state"),
                                                 (4, "transaction_abortable")])  # fmt: skip
def test_offsets_are_refused_if_the_offsets_partition_was_not_added(node, name, version, answer):
    producer = node.producer(name)
    assert node.commit_offset(producer, transactional_id=name, version=version) == [answer]


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_another_producer_is_refused(node, name, version):
    node.producer(name)
    producer_id, epoch = node.producer(name)
    given = {"transactional_id": name, "version": version}
    assert node.commit_offset((producer_id, epoch - 1), **given) == ["invalid_producer_epoch"]
    assert node.commit_offset((producer_id + 1, epoch), **given) == ["invalid_producer_id_mapping"]
    assert node.commit_offset((1, 1), transactional_id="never", version=version) == ["invalid_producer_id_mapping"]


def test_the_group_validates_its_members(node, name):
    producer = node.producer(name)
    given = {"transactional_id": name, "version": 5}
    late = {"generation_id": 3, "member_id": "x"}
    assert node.commit_offset(producer, **late, **given) == ["illegal_generation"], "no such group"
    assert node.commit_offset(producer, **given) == ["none"]
    assert node.commit_offset(producer, **late, **given) == ["unknown_member_id"]
    assert node.commit_offset(producer, group_id="", **given) == ["invalid_group_id"]
    assert node.commit_offset(producer, topic="none", **given) == ["unknown_topic_or_partition"]


def test_a_commit_admitted_before_the_end_is_part_of_it(node, name):
    """Both are on their way to the disk at once; the marker lies behind the offsets."""
    producer = node.producer(name)
    node.commit_offset(producer, 1, transactional_id=name, group_id=name, version=5)
    committed = node.send(
        ApiKey.TXN_OFFSET_COMMIT,
        5,
        transactional_id=name,
        group_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 7}]}],
    )
    ended = node.send_end(producer, transactional_id=name)
    node.jobs.run_all()
    assert committed[0].topics[0].partitions[0].error_code.name == ended[0].error_code.name == "none"
    assert node.committed_offset(name) == 7
