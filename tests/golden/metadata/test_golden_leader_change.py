"""The first batch of an epoch, beside those of a real Kafka's quorum of static voters."""

from image_history import LOGS, files_of

from broker_core.raft.quorum_control_records import leader_change_batch, read_control_record
from broker_core.record.batch_header import write_placement
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.record.control_records import ControlType

_, STATIC = LOGS


def test_a_leader_change_is_written_as_kafka_writes_it():
    compared = 0
    for name, content in files_of(STATIC).items():
        if not name.endswith(".log"):
            continue
        for position, header in iter_headers(content):
            if not header.is_control:
                continue
            ((kind, message),) = map(read_control_record, records_of(content, position))
            assert kind is ControlType.LEADER_CHANGE
            written = leader_change_batch(
                leader_id=message.leader_id,
                voters=[each.voter_id for each in message.voters],
                granting_voters=[each.voter_id for each in message.granting_voters],
                timestamp_ms=header.base_timestamp,
            )
            write_placement(written, 0, base_offset=header.base_offset, leader_epoch=header.partition_leader_epoch)
            assert bytes(written) == content[position : position + header.size_bytes]
            compared += 1
    assert compared > 1
