"""Deletes records below an offset, at the partition's leader."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Deadline
from broker_core.client.wire_values import remaining
from broker_core.model.exceptions import OffsetOutOfRangeError
from broker_core.model.identifiers import TopicPartition


def delete_records(router: BrokerRouter, partition: TopicPartition, before_offset: int) -> int:
    """The new log start offset; see `Cluster`. It only increases, so a retry is harmless."""
    from kio.schema.delete_records.v2 import request as schema

    what = f"delete records of {partition} before offset {before_offset}"

    def attempt(deadline: Deadline) -> int:
        asked = schema.DeleteRecordsPartition(partition_index=i32(partition.partition), offset=i64(before_offset))
        request = schema.DeleteRecordsRequest(
            topics=(schema.DeleteRecordsTopic(name=TopicName(partition.topic), partitions=(asked,)),),
            timeout=remaining(deadline, router.settings.request_timeout_ms),
        )
        leader = router.leader_of(partition, deadline)
        (answer,) = router.ask_node(leader, [request], deadline)
        result = answer.topics[0].partitions[0]
        if result.error_code == ErrorCode.offset_out_of_range:
            raise OffsetOutOfRangeError(f"{what}: the offset is beyond the high watermark", offset=before_offset)
        if result.error_code != ErrorCode.none:
            raise broker_error(result.error_code, what)
        return int(result.low_watermark)

    return router.run(what, attempt)
