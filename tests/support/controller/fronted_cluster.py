"""A cluster of a real controller machine behind one socket: what administrators ask, it decides.

with FrontedCluster(1, 2, 3) as cluster:
    cluster.small.create("t", (1, 2, 3))          the brokers and topics are those of `small_cluster`
    cluster.address                               speaks for all brokers
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from support.brokers.scripted_broker import ScriptedBroker
from support.controller.small_cluster import SmallCluster

from broker_core.controller.requests.registry import CONTROLLER_APIS
from broker_core.model.exceptions import StreamlogError
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.message_builder import build

DESCRIBE_CLUSTER = 60
EARLIEST, END_OFFSET = -2, 5


class FrontedCluster(ScriptedBroker):
    def __init__(self, *broker_ids, **options):
        super().__init__(node_id=broker_ids[0])
        self.small = SmallCluster(*broker_ids, **options)
        for key, api in CONTROLLER_APIS.items():
            self.versions[key] = (api.versions[0], api.versions[-1])
            self.script(key, self._decided)
        self.script(ApiKey.DESCRIBE_TOPIC_PARTITIONS, self._partitions)
        self.script(ApiKey.METADATA, self._metadata_of_image)
        self.script(DESCRIBE_CLUSTER, self._brokers)
        self.script(ApiKey.LIST_OFFSETS, self._offsets)

    def is_too_old_for(self, key, *, newest=None):
        """As brokers of an older Kafka: without the request, or with versions up to that one."""
        if newest is None:
            del self.versions[key]
        else:
            self.versions[key] = (0, newest)

    def _answer_as(self, request, fields):
        return build(message_types(request.api_key, request.api_version).response, fields)

    def _decided(self, request):
        api = CONTROLLER_APIS[request.api_key]
        replies = []

        def plan(controller, now_ms):
            result = api.plan(controller, request.message, now_ms)
            replies.append(result.reply)
            return result

        try:
            self.small.carry_out(self.small.controller.request(0, plan, self.small.now_ms))
        except StreamlogError as error:
            replies.append(api.refuse(request.message, error.error_code, error.message))
        return self._answer_as(request, replies[-1])

    def _states(self, name):
        image = self.small.image
        for number, row in image.partitions.rows_of(image.topics[name].topic_id):
            yield number, image.partitions.state_at(row)

    def _names(self, asked):
        return sorted(self.small.image.topics) if not asked else [str(topic.name) for topic in asked]

    def _topic_of_image(self, name, partitions):
        description = self.small.image.topics.get(name)
        if description is None:
            return {"name": name, "error_code": ErrorCode.unknown_topic_or_partition, "partitions": []}
        return {"name": name, "topic_id": description.topic_id, "partitions": partitions}

    def _partition_of_image(self, number, state):
        return {
            "partition_index": number, "leader_id": state.leader, "leader_epoch": state.leader_epoch,
            "replica_nodes": state.replicas, "isr_nodes": state.isr, "offline_replicas": [],
        }  # fmt: skip

    def _partitions(self, request):
        """Page by page, as many partitions as were asked for."""
        places = [
            (name, number, state)
            for name in self._names(request.message.topics)
            for number, state in (self._states(name) if name in self.small.image.topics else [(0, None)])
        ]
        cursor, limit = request.message.cursor, request.message.response_partition_limit
        if cursor is not None:
            after = (str(cursor.topic_name), cursor.partition_index)
            places = [place for place in places if place[:2] >= after]
        topics = {}
        for name, number, state in places[:limit]:
            extras = state and {
                "eligible_leader_replicas": state.eligible_leader_replicas, "last_known_elr": state.last_known_elr,
            }  # fmt: skip
            listed = topics.setdefault(name, [])
            if state is not None:
                listed.append(self._partition_of_image(number, state) | extras)
        rest = places[limit:]
        following = {"topic_name": rest[0][0], "partition_index": rest[0][1]} if rest else None
        described = [self._topic_of_image(name, partitions) for name, partitions in topics.items()]
        return self._answer_as(request, {"topics": described, "next_cursor": following})

    def _metadata_of_image(self, request):
        message = request.message
        names = self._names(None) if message.topics is None else [str(topic.name) for topic in message.topics]
        topics = [
            self._topic_of_image(
                name,
                [self._partition_of_image(number, state) for number, state in self._states(name)]
                if name in self.small.image.topics
                else [],
            )
            for name in names
        ]
        brokers = [{"node_id": broker_id, **self._place()} for broker_id in self.small.image.registrations.brokers]
        fields = {"brokers": brokers, "controller_id": self.node_id, "topics": topics, "cluster_id": "cluster"}
        return self._answer_as(request, fields)

    def _brokers(self, request):
        brokers = [
            {"broker_id": broker_id, **self._place(), "rack": broker.rack, "is_fenced": broker.fenced}
            for broker_id, broker in self.small.image.registrations.brokers.items()
            if not broker.fenced or getattr(request.message, "include_fenced_brokers", False)
        ]
        return self._answer_as(request, {"cluster_id": "cluster", "controller_id": 0, "brokers": brokers})

    def _offsets(self, request):
        """Every partition ends at END_OFFSET."""
        topics = [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": each.partition_index, "leader_epoch": 0,
                     "offset": 0 if each.timestamp == EARLIEST else END_OFFSET}
                    for each in topic.partitions
                ],
            }
            for topic in request.message.topics
        ]  # fmt: skip
        return self._answer_as(request, {"topics": topics})

    def _place(self):
        return {"host": "127.0.0.1", "port": self.port}
