"""What a real Kafka 4.3.1 controller decided, read out of its metadata logs, and what ours plans at the same image."""

from collections import Counter
from dataclasses import replace
from itertools import takewhile

import pytest
from image_history import LOGS, files_of

from broker_core.controller.broker_registrations import (
    BrokerApplication,
    BrokerHeartbeat,
    plan_fencing,
    plan_heartbeat,
    plan_registration,
    plan_unregistration,
)
from broker_core.controller.cluster_facts import ClusterDefaults, ClusterFacts
from broker_core.controller.isr_changes import IsrProposal, plan_isr_change
from broker_core.controller.leader_elections import plan_election
from broker_core.controller.reassignments import plan_reassignment
from broker_core.controller.topic_plans import WantedTopic, plan_topic
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_record_codec import decode_metadata_record, encode_metadata_record
from broker_core.metadata.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from broker_core.record.batch_reader import iter_headers, records_of

REMOVED_BUT_ELIGIBLE = {"cluster-metadata-kafka-4.3.1": {664}, "static-quorum-kafka-4.3.1": set()}
"""Kafka lets a replica stay eligible that leaves the assignment, whose log is deleted then; ours does not."""
ENDS_BY_A_FETCH = {"cluster-metadata-kafka-4.3.1": {671}, "static-quorum-kafka-4.3.1": set()}
"""The end of a reassignment: the ISR that the leader asked for is not in the log."""
FENCED_AGAIN = {"cluster-metadata-kafka-4.3.1": {597}, "static-quorum-kafka-4.3.1": {271}}
"""Kafka fences a broker that is fenced already when the session of its last heartbeat ends; ours does not."""


COMPARED = {
    "cluster-metadata-kafka-4.3.1": {
        "register": 6, "register with partitions": 1, "cordon": 4, "unfence": 4, "create topic": 3, "fence": 3,
        "fence with partitions": 1, "alter partition": 8, "preferred election": 3, "controlled shutdown": 3,
        "unregister": 1, "reassignment": 2,
    },
    "static-quorum-kafka-4.3.1": {
        "register": 7, "cordon": 7, "unfence": 7, "create topic": 4, "fence": 3, "fence with partitions": 2,
        "alter partition": 12, "preferred election": 1, "controlled shutdown": 3,
        "reassignment": 2,
    },
}  # fmt: skip
"""How many decisions of each kind the logs hold."""


class FixedBytes:
    def random_bytes(self, count):
        return bytes(range(count))


def batches_of(archive):
    segments = [content for name, content in sorted(files_of(archive).items()) if name.endswith(".log")]
    for segment in segments:
        for position, header in iter_headers(segment):
            if not header.is_control:
                found = records_of(segment, position)
                yield [(record.offset, decode_metadata_record(record.value)) for record in found]


def in_bytes(records):
    return sorted(map(encode_metadata_record, records))


class Decisions:
    """Walks over a log; `compared` counts the decisions by kind."""

    def __init__(self, archive):
        self.archive, self.compared = archive, Counter()
        self.image = MetadataImage()
        self.facts = ClusterFacts(self.image, ClusterDefaults())

    def walk(self):
        for batch in batches_of(self.archive):
            at = 0
            while at < len(batch):
                at += self.operation(batch[at:])
        return self

    def operation(self, batch):
        """Compares the operation that begins here; returns the number of its records."""
        kind, planned = self.planned(batch)
        count = max(1, len(planned or ()))
        records = [record for _, record in batch[:count]]
        if planned is not None:
            offset = batch[0][0]
            assert in_bytes(planned) == in_bytes(records), (offset, kind)
            assert isinstance(records[-1], PartitionChangeRecord) or planned[-1] == records[-1], (offset, kind)
            self.compared[kind] += 1
        for record in records:
            self.image.replay(record)
        return count

    def planned(self, batch):
        (offset, record), facts = batch[0], self.facts
        match record:
            case BrokerRegistrationChangeRecord(fenced=1) if offset not in FENCED_AGAIN[self.archive]:
                return "fence", plan_fencing(facts, record.broker_id).records
            case BrokerRegistrationChangeRecord(fenced=-1):
                return "unfence", self.heartbeat(record).records
            case BrokerRegistrationChangeRecord(in_controlled_shutdown=1):
                return "controlled shutdown", self.heartbeat(record, want_stop=True).records
            case BrokerRegistrationChangeRecord(cordoned_log_dirs=(_, *_) | ()):
                return "cordon", self.heartbeat(record, want_fence=True, cordoned_log_dirs=record.cordoned_log_dirs)
            case RegisterBrokerRecord():
                return "register", self.registration(record, offset)
            case UnregisterBrokerRecord():
                return "unregister", plan_unregistration(facts, record.broker_id).records
            case TopicRecord():
                return "create topic", self.topic(record, [each for _, each in batch])
            case PartitionChangeRecord():
                return self.partition_change(batch)
        return "other", None

    def heartbeat(self, record, **wishes):
        heartbeat = BrokerHeartbeat(
            broker_id=record.broker_id, broker_epoch=record.broker_epoch, metadata_offset=2**62, **wishes
        )
        result = plan_heartbeat(self.facts, heartbeat, register_offset=0, is_shutdown_known=lambda broker_id: True)
        if "cordoned_log_dirs" in wishes:
            return [each for each in result.records if getattr(each, "cordoned_log_dirs", None) is not None]
        return result

    def registration(self, record, first_offset):
        application = BrokerApplication(
            broker_id=record.broker_id, cluster_id="", incarnation_id=record.incarnation_id,
            end_points=record.end_points, features=record.features, rack=record.rack, log_dirs=record.log_dirs,
            previous_epoch=-1,
        )  # fmt: skip
        return plan_registration(
            self.facts, application, cluster_id=None, next_offset=first_offset, has_live_session=lambda *_: False
        ).records

    def topic(self, record, batch):
        rest = batch[1:]
        configs = {each.name: each.value for each in rest if isinstance(each, ConfigRecord)}
        partitions = [each for each in rest if isinstance(each, PartitionRecord) and each.topic_id == record.topic_id]
        wanted = WantedTopic(
            name=record.name,
            configs=configs,
            assignments=[(each.partition_id, each.replicas) for each in partitions],
        )
        planned = plan_topic(self.facts, wanted, entropy=FixedBytes()).records
        return [replace(each, topic_id=record.topic_id) if hasattr(each, "topic_id") else each for each in planned]

    def partition_change(self, batch):
        changes = list(takewhile(lambda each: isinstance(each[1], PartitionChangeRecord), batch))
        (offset, record), after = batch[0], [each for _, each in batch[len(changes) :][:1]]
        match after:
            case [BrokerRegistrationChangeRecord(fenced=1) as fence]:
                return "fence with partitions", plan_fencing(self.facts, fence.broker_id).records
            case [RegisterBrokerRecord() as registered]:
                return "register with partitions", self.registration(registered, offset)
            case [UnregisterBrokerRecord() as gone]:
                return "unregister with partitions", plan_unregistration(self.facts, gone.broker_id).records
        state = self.image.partition(record.topic_id, record.partition_id)
        if record.replicas is not None or record.adding_replicas is not None:
            if offset in ENDS_BY_A_FETCH[self.archive]:
                return "reassignment", None
            wanted = [replica for replica in record.replicas if replica not in (record.removing_replicas or ())]
            topic = self.image.topic_by_id(record.topic_id).name
            planned = plan_reassignment(self.facts, topic, record.partition_id, wanted, may_change_factor=True).records
            if offset in REMOVED_BUT_ELIGIBLE[self.archive]:
                planned = [replace(each, eligible_leader_replicas=(3,)) for each in planned]
            return "reassignment", planned
        if record.isr is None and record.leader >= 0:
            topic = self.image.topic_by_id(record.topic_id).name
            return "preferred election", [plan_election(self.facts, topic, record.partition_id, is_unclean=False)]
        proposal = IsrProposal(
            leader_id=state.leader, topic_id=record.topic_id, number=record.partition_id,
            leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch,
            isr=[(broker_id, -1) for broker_id in record.isr], recovery_state=0,
        )  # fmt: skip
        return "alter partition", [plan_isr_change(self.facts, proposal).record]


@pytest.mark.parametrize("archive", LOGS)
def test_our_plans_are_the_records_that_kafka_wrote(archive):
    decisions = Decisions(archive).walk()
    assert decisions.compared == COMPARED[archive]
