"""A controller that serves a recorded metadata log and one of its snapshots, over real sockets: see scripted_broker."""

from __future__ import annotations

from image_history import files_of
from kio.schema.errors import ErrorCode
from support.brokers.scripted_broker import ScriptedBroker

from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.raft.quorum_files import parse_snapshot_name
from broker_core.record.batch_reader import iter_headers

FETCH, DESCRIBE_QUORUM, FETCH_SNAPSHOT, DESCRIBE_CLUSTER = 1, 55, 59, 60
LEADER_ID, LEADER_EPOCH = 1, 9
CLUSTER_ID = "scripted-cluster-id-00"
BATCHES_AT_ONCE, CHUNK_BYTES = 30, 700


class ScriptedController(ScriptedBroker):
    """`files` are those of the recorded folder, `snapshot_id` the snapshot that stands for what is before it."""

    def __init__(self, archive="cluster-metadata-kafka-4.3.1", *, leader=None):
        """`leader`: another controller, which leads in place of this one."""
        super().__init__(node_id=LEADER_ID)
        self.leader = leader
        self.versions |= {DESCRIBE_QUORUM: (0, 2), FETCH_SNAPSHOT: (0, 1)}
        self.files = files_of(archive)
        names = sorted(name for name in self.files if parse_snapshot_name(name) is not None)
        self.snapshot_name = names[len(names) // 2]
        self.snapshot_id = parse_snapshot_name(self.snapshot_name)
        self.batches = [
            (header, segment[position : position + header.size_bytes])
            for name, segment in sorted(self.files.items())
            if name.endswith(".log")
            for position, header in iter_headers(segment)
        ]
        self.end_offset = self.batches[-1][0].next_offset
        self.script(FETCH, self._fetch)
        self.script(FETCH_SNAPSHOT, self._fetch_snapshot)
        self.script(DESCRIBE_QUORUM, self._describe)
        self.script(DESCRIBE_CLUSTER, self._cluster)

    def log_behind_snapshot(self):
        return b"".join(batch for header, batch in self.batches if header.base_offset >= self.snapshot_id.end_offset)

    def _answer_as(self, request, **fields):
        return build(message_types(request.api_key, request.api_version).response, fields)

    def _endpoints(self):
        return [{"node_id": LEADER_ID, "host": "127.0.0.1", "port": self.port}]

    def _fetch(self, request):
        (topic,) = request.message.topics
        (asked,) = topic.partitions
        leader = {"leader_id": LEADER_ID, "leader_epoch": LEADER_EPOCH}
        partition = {"partition_index": 0, "error_code": ErrorCode.none, "high_watermark": self.end_offset,
                     "aborted_transactions": None, "records": b"", "current_leader": leader}  # fmt: skip
        if asked.current_leader_epoch != LEADER_EPOCH:
            partition |= {"error_code": ErrorCode.fenced_leader_epoch, "high_watermark": -1}
        elif asked.fetch_offset < self.snapshot_id.end_offset:
            partition["snapshot_id"] = {"end_offset": self.snapshot_id.end_offset, "epoch": self.snapshot_id.epoch}
        else:
            found = [batch for header, batch in self.batches if header.base_offset >= asked.fetch_offset]
            partition["records"] = b"".join(found[:BATCHES_AT_ONCE])
        answer = {"topic_id": topic.topic_id, "partitions": [partition]}
        return self._answer_as(
            request, error_code=ErrorCode.none, responses=[answer], node_endpoints=self._endpoints(), throttle_time=0
        )

    def _fetch_snapshot(self, request):
        (topic,) = request.message.topics
        (asked,) = topic.partitions
        content = self.files[self.snapshot_name]
        partition = {
            "index": 0, "error_code": ErrorCode.none, "size": len(content), "position": asked.position,
            "snapshot_id": {"end_offset": asked.snapshot_id.end_offset, "epoch": asked.snapshot_id.epoch},
            "current_leader": {"leader_id": LEADER_ID, "leader_epoch": LEADER_EPOCH},
            "unaligned_records": content[asked.position : asked.position + CHUNK_BYTES],
        }  # fmt: skip
        topics = [{"name": topic.name, "partitions": [partition]}]
        return self._answer_as(
            request, error_code=ErrorCode.none, topics=topics, node_endpoints=self._endpoints(), throttle_time=0
        )

    def _describe(self, request):
        def replica(node_id, log_end_offset):
            return {"replica_id": node_id, "replica_directory_id": None, "log_end_offset": log_end_offset}

        if self.leader is not None:
            error = {"error_code": ErrorCode.not_leader_or_follower, "error_message": "another node leads"}
            topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0} | error]}]
            return self._answer_as(request, error_code=ErrorCode.none, error_message=None, topics=topics, nodes=[])
        partition = {
            "partition_index": 0, "error_code": ErrorCode.none, "error_message": None, "leader_id": LEADER_ID,
            "leader_epoch": LEADER_EPOCH, "high_watermark": 90, "observers": [replica(98, 60)],
            "current_voters": [replica(LEADER_ID, 100), replica(2, 95)],
        }  # fmt: skip
        nodes = [{"node_id": LEADER_ID, "listeners": [{"name": "C", "host": "127.0.0.1", "port": self.port}]}]
        topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
        return self._answer_as(request, error_code=ErrorCode.none, error_message=None, topics=topics, nodes=nodes)

    def _cluster(self, request):
        leader = {} if self.leader is None else {"broker_id": LEADER_ID, "host": "127.0.0.1", "port": self.leader.port}
        return self._answer_as(
            request, throttle_time=0, error_code=ErrorCode.none, error_message=None, endpoint_type=2,
            cluster_id=CLUSTER_ID, controller_id=LEADER_ID, brokers=[leader] if leader else [],
            cluster_authorized_operations=0,
        )  # fmt: skip
