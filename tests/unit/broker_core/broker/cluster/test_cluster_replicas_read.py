"""What a follower of a partition answers consumers (KIP-392)."""

import pytest
from kio.schema.errors import ErrorCode
from support.builders.builders import a_batch, some_records
from support.nodes.replica_builders import T0
from support.nodes.replicated_nodes import ReplicatedNodes

from broker_core.model.exceptions import OffsetOutOfRangeError, ReplicaError
from broker_core.model.identifiers import IsolationLevel
from broker_core.record.batch_reader import iter_headers

UNCOMMITTED, COMMITTED = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED


@pytest.fixture
def brokers(tmp_path):
    nodes = ReplicatedNodes(tmp_path)
    nodes.create(replicas=(1, 2))
    return nodes


def until(brokers, node_id, from_offset, isolation=UNCOMMITTED):
    """The next offset after what is read there."""
    replica = brokers[node_id].replicas.get_readable(T0)
    return replica.read(from_offset, max_bytes=2**20, isolation=isolation).next_offset


def test_a_follower_is_read_up_to_the_high_watermark_that_it_knows(brokers):
    brokers[1].append(a_batch(3))
    brokers.fetch(2)
    assert until(brokers, 2, 0) == 0, "it has the records, and does not know that they are committed"
    brokers.exchange(2)
    assert until(brokers, 2, 0) == 3
    fetched = brokers[2].replicas.get_readable(T0).read(0, max_bytes=2**20, isolation=UNCOMMITTED)
    assert [header.next_offset for _, header in iter_headers(bytes(fetched.buffer))] == [3]


def test_between_the_high_watermark_and_its_end_there_is_nothing_yet_and_beyond_it_is_out_of_range(brokers):
    brokers[1].append(a_batch(3))
    brokers.fetch(2)
    assert until(brokers, 2, 3) == 3
    with pytest.raises(OffsetOutOfRangeError):
        until(brokers, 2, 4)


def test_records_of_an_open_transaction_are_not_read_committed_there(brokers):
    brokers[1].append(a_batch(2))
    batch = a_batch(3, producer=(7, 0, 0), is_transactional=True)
    brokers[1].append(batch)
    brokers.exchange(2)
    brokers.exchange(2)
    assert until(brokers, 2, 0) == 5
    assert until(brokers, 2, 0, COMMITTED) == 2


def test_bytes_that_a_follower_writes_count_for_fetches_that_wait_there(brokers):
    batch = a_batch(some_records(3))
    brokers[1].append(batch)
    brokers.exchange(2)
    assert brokers[2].replica().appended_bytes == len(batch)


def test_only_the_leader_serves_everything_else(brokers):
    with pytest.raises(ReplicaError) as refused:
        brokers[2].replicas.get(T0)
    assert refused.value.error_code is ErrorCode.not_leader_or_follower


def test_who_neither_leads_nor_follows_serves_nothing(brokers):
    with pytest.raises(ReplicaError) as refused:
        brokers[3].replicas.get_readable(T0)
    assert refused.value.error_code is ErrorCode.not_leader_or_follower


def test_a_follower_whose_leader_is_gone_still_serves_what_is_committed(brokers):
    brokers[1].append(a_batch(3))
    brokers.exchange(2)
    brokers.exchange(2)
    brokers.change(leader=-1)
    assert until(brokers, 2, 0) == 3
