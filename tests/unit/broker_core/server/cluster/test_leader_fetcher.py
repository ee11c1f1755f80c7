import asyncio
from uuid import UUID

from broker_core.model.client_settings import BrokerAddress
from broker_core.replication.replica_messages import PartitionId
from broker_core.replication.replication_values import FetchPosition
from broker_core.server.cluster.leader_fetcher import LeaderFetcher
from broker_core.server.cluster.replica_limits import ReplicaLimits
from broker_core.server.quorum.peer_dialer import PeerDialer

POSITION = FetchPosition(leader_epoch=0, fetch_offset=0, last_fetched_epoch=-1, log_start_offset=0)


class FaultyReplicas:
    """A replica whose handling raises once."""

    def __init__(self):
        self.unanswered = 0
        self.again = asyncio.Event()

    def positions_at(self, leader_id):
        return {PartitionId(UUID(int=1), 0): POSITION}

    def wanted_bounds(self, leader_id):
        return []

    def is_writing(self, leader_id):
        return False

    def on_no_answer(self, partition_id):
        self.unanswered += 1
        if self.unanswered == 1:
            raise AssertionError("a fault")
        self.again.set()


def test_a_fault_in_the_handling_of_a_replica_does_not_end_the_fetching(caplog):
    async def run():
        replicas = FaultyReplicas()
        nobody = BrokerAddress(host="127.0.0.1", port=1)
        fetcher = LeaderFetcher(
            *(1, 2, ReplicaLimits(), replicas),
            address_of=lambda broker_id: nobody,
            dialer=PeerDialer(),
            broker_epoch=lambda: 5,
        )
        await asyncio.wait_for(replicas.again.wait(), 30)
        fetcher.close()

    asyncio.run(run())
    assert "fetching from broker 1 failed" in caplog.text
