from broker_core.client.transaction_requests import (
    add_offsets_request,
    add_partitions_request,
    commit_offsets_request,
    end_request,
    init_request,
    two_phase_init_request,
)
from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.connection import ClientSide, ServerSide

PRODUCER = TransactionalProducer(transactional_id="a", producer_id=7, producer_epoch=2)
PARTITIONS = {
    TopicPartition("u", 1): GroupOffset(offset=3),
    TopicPartition("t", 0): GroupOffset(offset=4, metadata="m"),
}


def test_every_request_round_trips():
    asking = ClientSide(client_id="c", max_frame_bytes=10**6)
    answering = ServerSide(max_frame_bytes=10**6)
    for request in (
        init_request(None, 1000),
        init_request("a", 1000),
        two_phase_init_request("a", 1000),
        add_partitions_request(PRODUCER, PARTITIONS),
        add_offsets_request(PRODUCER, "g"),
        commit_offsets_request(PRODUCER, "g", PARTITIONS),
        end_request(PRODUCER, commit=True, raises_epoch=False),
        end_request(PRODUCER, commit=True, raises_epoch=True),
    ):
        asking.send_request(request)
        answering.receive_data(b"".join(map(bytes, asking.data_to_send())))
        assert answering.next_request().message == request


def test_partitions_are_grouped_by_topic():
    asked = add_partitions_request(PRODUCER, PARTITIONS)
    assert [(topic.name, topic.partitions) for topic in asked.v3_and_below_topics] == [("t", (0,)), ("u", (1,))]
    committed = commit_offsets_request(PRODUCER, "g", PARTITIONS).topics[0].partitions[0]
    assert (committed.committed_offset, committed.committed_metadata, committed.committed_leader_epoch) == (4, "m", -1)
