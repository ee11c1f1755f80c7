"""The active controller: answers at commit, an image ahead of it, sessions, what it writes by itself."""

from support.controller.small_cluster import CountingDice, SmallCluster

from broker_core.controller.cluster_bootstrap import NEW_CLUSTER_FEATURES
from broker_core.controller.cluster_controller import AppendRecords, ClusterController, ControllerTimings, SendAnswer
from broker_core.controller.config_plans import ConfigChange, plan_config_changes
from broker_core.controller.producer_id_plans import plan_producer_ids
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
)
from broker_core.model.limits import MAX_SNAPSHOT_BATCH_RECORDS


def an_image(records):
    image = MetadataImage()
    for record in records:
        image.replay(record)
    return image


def a_successor(cluster, *, now_ms):
    return ClusterController(
        an_image(cluster.log), next_offset=len(cluster.log), cluster_id="cluster", entropy=CountingDice(), now_ms=now_ms
    )


def test_an_empty_log_becomes_that_of_a_new_kafka_4_3_cluster():
    cluster = SmallCluster()
    assert dict(cluster.image.features) == NEW_CLUSTER_FEATURES
    assert cluster.image.broker_configs[""] == {"min.insync.replicas": "1"}
    assert not cluster.image.is_in_transaction


def test_what_is_written_is_what_the_image_is():
    cluster = SmallCluster(1, 2)
    cluster.create("t", partitions=3, factor=2)
    assert an_image(cluster.log) == cluster.image


def test_an_answer_waits_until_everything_before_it_is_committed_also_if_it_changes_nothing():
    cluster = SmallCluster(1, 2)
    cluster.is_committing = False
    assert cluster.create("t", partitions=1, factor=1) is None
    assert cluster.beat(2) is None
    assert "t" in cluster.image.topics  # the next plan counts on it
    cluster.carry_out(cluster.controller.on_committed(len(cluster.log) - 1))
    assert cluster.controller.held_count == 2
    cluster.carry_out(cluster.controller.on_committed(len(cluster.log)))
    assert cluster.controller.held_count == 0
    assert len(cluster.answers) == cluster.requests


def test_the_successor_has_only_what_is_committed():
    cluster = SmallCluster(1)
    committed = len(cluster.log)
    cluster.is_committing = False
    cluster.create("lost", partitions=1, factor=1)
    del cluster.log[committed:]
    assert cluster.controller.held_count == 1
    successor = a_successor(cluster, now_ms=0)
    assert "lost" not in successor.image.topics


def test_a_new_controller_gives_every_live_broker_a_whole_session():
    cluster = SmallCluster(1, 2)
    cluster.fence(2)
    successor = a_successor(cluster, now_ms=50_000)
    successor.begin(50_000)
    successor.on_time(58_999)
    assert not successor.image.registrations.brokers[1].fenced
    successor.on_time(59_000)
    assert successor.image.registrations.brokers[1].fenced


def test_a_new_controller_unfences_a_broker_that_was_registered_before_it():
    cluster = SmallCluster()
    cluster.register(1)
    successor = a_successor(cluster, now_ms=0)
    assert successor.register_offset(1) == len(cluster.log) - 1


def test_a_transaction_of_records_that_nobody_ended_is_aborted():
    cluster = SmallCluster(1)
    log = [*cluster.log, BeginTransactionRecord(name="cut"), FeatureLevelRecord(name="group.version", feature_level=0)]
    controller = ClusterController(
        an_image(log), next_offset=len(log), cluster_id="cluster", entropy=CountingDice(), now_ms=0
    )
    first, *_ = controller.begin(0)
    assert isinstance(first.records[0], AbortTransactionRecord)
    assert controller.image.features["group.version"] == 1


def test_a_record_is_written_when_nothing_else_was_for_a_while():
    cluster = SmallCluster(1)
    written = len(cluster.log)
    cluster.pass_time(499)
    assert len(cluster.log) == written
    cluster.pass_time(1)
    assert cluster.log[written:] == [NoOpRecord()]
    cluster.pass_time(400)
    cluster.create("t", partitions=1, factor=1)
    written = len(cluster.log)
    cluster.pass_time(499)
    assert len(cluster.log) == written


def test_it_wakes_when_a_session_ends_or_something_is_due():
    cluster = SmallCluster(timings=ControllerTimings(no_op_interval_ms=100_000))
    cluster.controller.begin(0)
    assert cluster.controller.next_timer_ms == 100_000
    cluster.now_ms = 10
    cluster.start(1)
    assert cluster.controller.next_timer_ms == 9_010


def test_leaders_go_back_to_the_first_replica_by_themselves_when_that_is_due_and_allowed():
    for interval_ms, leader in ((1_000, 1), (None, 2)):
        cluster = SmallCluster(1, 2, timings=ControllerTimings(preferred_interval_ms=interval_ms))
        cluster.create("t", (1, 2))
        cluster.fence(1)
        cluster.beat(1)
        topic_id = cluster.image.topics["t"].topic_id
        cluster.append(PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=(2, 1)))
        cluster.pass_time(1_000)
        assert cluster.partition("t").leader == leader


def test_a_topic_that_allows_it_gets_a_leader_that_lacks_records_in_time():
    cluster = SmallCluster(1, 2, timings=ControllerTimings(unclean_interval_ms=1_000))
    cluster.create("t", (1, 2))
    cluster.fence(2)
    cluster.fence(1)
    cluster.beat(2)
    assert cluster.partition("t").leader == -1
    allow = [ConfigChange(name="unclean.leader.election.enable", value="true")]
    cluster.ask(lambda facts: plan_config_changes(facts, ConfigResource.TOPIC, "t", allow))
    cluster.pass_time(1_000)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_recovery_state) == (2, 1)


def test_blocks_of_producer_ids_are_given_once():
    cluster = SmallCluster(1, 2)
    blocks = []
    for broker_id in (1, 2, 1):
        epoch = cluster.image.registrations.brokers[broker_id].broker_epoch
        blocks.append(cluster.ask(lambda facts, at=(broker_id, epoch): plan_producer_ids(facts, *at)))
    assert [(block.first_id, block.id_count) for block in blocks] == [(0, 1000), (1000, 1000), (2000, 1000)]


def test_more_records_than_a_batch_may_have_come_in_several_in_order():
    cluster = SmallCluster(1)
    count = MAX_SNAPSHOT_BATCH_RECORDS + 1
    effects = cluster.controller.request(
        99, lambda controller, now_ms: _result((NoOpRecord(),) * count), cluster.now_ms
    )
    appended = [effect for effect in effects if isinstance(effect, AppendRecords)]
    assert [len(each.records) for each in appended] == [MAX_SNAPSHOT_BATCH_RECORDS, 1]
    assert appended[1].from_offset == appended[0].from_offset + MAX_SNAPSHOT_BATCH_RECORDS
    assert not any(isinstance(effect, SendAnswer) for effect in effects)


def _result(records):
    return CoordinatorResult(records=records, reply=None)
