import pytest
from support.builders.builders import a_batch
from support.nodes.whole_node import a_node, ask, fetch, make_topic, produce

from broker_core.broker.partition.replica import Replica
from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 3)
    return node


def test_a_parked_fetch_reads_only_once_min_bytes_are_available(node, monkeypatch):
    size = len(a_batch(1))
    reads = []
    waiting = fetch(node, "t", run=False, max_wait=500, min_bytes=10 * size)
    monkeypatch.setattr(
        Replica, "read", lambda self, *args, read=Replica.read, **more: reads.append(1) or read(self, *args, **more)
    )
    for _ in range(9):
        produce(node, "t", a_batch(1))
    assert (waiting.answer, reads) == (None, [])
    produce(node, "t", a_batch(1))
    assert (len(waiting.answer.responses[0].partitions[0].records), len(reads)) == (10 * size, 1)


def test_a_read_committed_fetch_completes_when_the_blocking_transaction_ends(node):
    ask(node, ApiKey.INIT_PRODUCER_ID, 4, transactional_id="x", transaction_timeout=60_000)
    ask(
        node,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[{"name": "t", "partitions": [0]}],
    )
    produce(node, "t", a_batch(100, producer=(0, 0, 0), is_transactional=True), transactional_id="x")
    waiting = fetch(node, "t", run=False, max_wait=500, min_bytes=1_000, isolation_level=1)
    assert waiting.answer is None
    ask(node, ApiKey.END_TXN, 3, transactional_id="x", producer_id=0, producer_epoch=0, committed=True)
    assert len(waiting.answer.responses[0].partitions[0].records) > 1_000
