"""A partition on three brokers, each with its own directory; the test carries their fetches and is the controller."""

import errno

import pytest
from kio.schema.errors import ErrorCode
from support.builders.builders import a_batch, a_commit_marker, a_transactional_batch
from support.nodes.replica_builders import T0, offsets_read
from support.nodes.replicated_nodes import ReplicatedNodes, isr_answer

from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.metadata.metadata_records import ConfigRecord, PartitionChangeRecord
from broker_core.model.exceptions import ReplicaError
from broker_core.model.identifiers import IsolationLevel
from broker_core.record.batch_reader import iter_headers


@pytest.fixture
def brokers(tmp_path):
    return ReplicatedNodes(tmp_path)


def codes(answers):
    return [each.error_code if isinstance(each, ReplicaError) else each for each in answers]


def test_an_append_with_acks_all_is_answered_when_all_in_sync_replicas_have_it(brokers):
    brokers.create(min_insync_replicas=2)
    answers = brokers[1].append()
    assert answers == []
    brokers.exchange(2)
    assert answers == []
    brokers.exchange(3)
    assert answers == [(0, 0)]
    assert brokers.log_bytes(1) == brokers.log_bytes(2) == brokers.log_bytes(3) != b""


def test_an_append_with_acks_1_is_answered_when_the_leader_has_it(brokers):
    brokers.create()
    assert brokers[1].append(acks=1) == [(0, 0)]
    assert brokers[1].replica().bounds.high_watermark == 0


def test_readers_see_records_below_the_high_watermark_only(brokers):
    brokers.create()
    brokers[1].append(acks=1)
    leader = brokers[1].replica()
    assert (offsets_read(leader), leader.bounds.log_end_offset) == ([], 1)
    brokers.exchange()
    assert offsets_read(leader) == [0]


def test_a_broker_that_does_not_lead_refuses_clients(brokers):
    brokers.create()
    assert codes(brokers[2].append()) == [ErrorCode.not_leader_or_follower]
    with pytest.raises(ReplicaError) as refused:
        brokers[2].replicas.get(T0)
    assert refused.value.error_code is ErrorCode.not_leader_or_follower
    assert brokers[1].replicas.get(T0) is brokers[1].replica()


def test_acks_all_is_refused_before_the_append_when_too_few_replicas_are_in_sync(brokers):
    brokers.create(min_insync_replicas=2)
    brokers.change(isr=(1,))
    assert codes(brokers[1].append()) == [ErrorCode.not_enough_replicas]
    assert brokers[1].append(acks=1) == [(0, 0)]
    assert brokers[1].replica().bounds.log_end_offset == 1


def test_a_changed_min_insync_replicas_holds_at_once(brokers):
    brokers.create()
    brokers.change(isr=(1,))
    brokers.clock.ms += 11_000  # the others are not waited for any more
    assert brokers[1].append() == [(0, 0)]
    brokers.replay(ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="3"))
    assert codes(brokers[1].append()) == [ErrorCode.not_enough_replicas]


def test_a_new_leader_writes_in_its_epoch_and_the_old_one_truncates_what_was_not_committed(brokers):
    brokers.create()
    brokers[1].append(a_batch(2))
    brokers.exchange()
    lost = brokers[1].append(a_batch(3))
    brokers.change(leader=2, isr=(2, 3))
    assert codes(lost) == [ErrorCode.not_leader_or_follower]
    assert brokers[2].append(a_batch(1)) == []
    brokers.exchange()
    assert brokers.log_bytes(1) == brokers.log_bytes(2) == brokers.log_bytes(3)
    headers = [header for _, header in iter_headers(brokers.log_bytes(1))]
    assert [(header.base_offset, header.partition_leader_epoch) for header in headers] == [(0, 0), (2, 1)]
    assert offsets_read(brokers[2].replica()) == [0, 1, 2]


def test_an_append_in_the_queue_at_a_change_of_the_leader_is_refused(brokers):
    brokers.create()
    answers = []
    for _ in range(2):
        brokers[1].replica().append(AppendRequest(batches=a_batch(1), on_error=answers.append))
    brokers.change(leader=2)  # the job of the first append has not run
    assert len(answers) == 2 and codes(answers) == [ErrorCode.not_leader_or_follower] * 2
    assert codes(brokers[1].append()) == [ErrorCode.not_leader_or_follower]


def test_an_append_that_comes_while_the_epoch_changes_gets_the_epoch_in_which_the_same_broker_leads_on(brokers):
    brokers.create(replicas=(1,))
    leader, answers = brokers[1].replica(), []

    def append():
        done = AppendRequest(batches=a_batch(1), on_done=lambda result: answers.append(result.base_offset))
        leader.append(done)

    append()  # in a job, which has not run
    brokers.image.replay(PartitionChangeRecord(partition_id=0, topic_id=leader.topic_id, leader=1))
    brokers[1].replicas.learn(brokers.image)
    append()
    brokers[1].settle()
    assert answers == [0, 1]
    epochs = [header.partition_leader_epoch for _, header in iter_headers(brokers.log_bytes(1))]
    assert epochs == [0, 1]


def test_a_follower_that_is_caught_up_is_proposed_for_the_in_sync_set_and_counts_once_the_controller_agrees(brokers):
    brokers.create()
    brokers.change(isr=(1, 2))
    brokers.exchange()
    ((message, on_answer, _),) = brokers[1].controller.asked
    (proposed,) = message.topics[0].partitions
    members = [(each.broker_id, each.broker_epoch) for each in proposed.new_isr_with_epochs]
    assert (members, proposed.partition_epoch) == ([(1, 10), (2, 20), (3, 30)], 1)
    on_answer(isr_answer(message, isr=(1, 2, 3), partition_epoch=2))
    answers = brokers[1].append()
    brokers.exchange(2)
    assert answers == []
    brokers.exchange(3)
    assert answers == [(0, 0)]


def test_a_follower_that_stays_behind_leaves_the_in_sync_set(brokers):
    brokers.create()
    answers = brokers[1].append()
    for _ in range(8):
        brokers.clock.ms += 2_500
        brokers.exchange(2)
        brokers[1].timers.fire(brokers.clock.ms)
        brokers[1].settle()
    ((message, on_answer, _),) = brokers[1].controller.asked
    (proposed,) = message.topics[0].partitions
    assert [each.broker_id for each in proposed.new_isr_with_epochs] == [1, 2]
    assert answers == []
    on_answer(isr_answer(message, isr=(1, 2), partition_epoch=1))
    assert answers == [(0, 0)]


def test_a_transaction_whose_marker_is_not_committed_is_open_for_readers(brokers):
    # The next leader may not have the marker, and abort the transaction: what a reader has seen would be gone.
    brokers.create()
    brokers[1].append(a_transactional_batch(2))
    brokers.exchange()
    leader = brokers[1].replica()
    assert (leader.bounds.high_watermark, leader.bounds.last_stable_offset) == (2, 0)
    marker = AppendRequest(batches=a_commit_marker(), origin=AppendOrigin.COORDINATOR)
    leader.append(marker)
    brokers[1].settle()
    assert (leader.bounds.log_end_offset, leader.bounds.last_stable_offset) == (3, 0)
    brokers.exchange()
    assert leader.bounds.last_stable_offset == 3
    assert offsets_read(leader, isolation=IsolationLevel.READ_COMMITTED) == [0, 1]


def test_a_restarted_replica_shows_nothing_as_stable_until_it_knows_what_is_committed(brokers):
    brokers.create()
    brokers[1].append(a_batch(2))
    brokers.exchange()
    brokers[1].stop()
    node = brokers.start(1)
    node.learn()
    assert node.replica().bounds.high_watermark == 2
    node.append(a_batch(1), acks=1)
    assert node.replica().bounds.last_stable_offset == 2


def test_delete_records_goes_up_to_the_high_watermark_and_reaches_the_followers(brokers):
    brokers.create()
    brokers[1].append(a_batch(3))
    brokers.exchange()
    brokers[1].append(a_batch(3), acks=1)
    answers = []
    for before_offset in (5, -1):
        brokers[1].replica().delete_records(
            before_offset, answers.append, lambda error: answers.append(error.error_code)
        )
        brokers[1].settle()
    assert answers == [ErrorCode.offset_out_of_range]
    brokers.exchange()
    assert answers == [ErrorCode.offset_out_of_range, 3]
    assert [brokers[number].replica().bounds.log_start_offset for number in (1, 2, 3)] == [3, 3, 3]


def test_a_replica_whose_write_failed_neither_leads_nor_follows(brokers):
    brokers.create()
    brokers[2].fs.refuse("write", ".log")
    brokers[1].append(acks=1)
    brokers.exchange(2)
    assert brokers[2].fs.refused == 1
    assert brokers[2].replicas.positions_at(1) == {}
    brokers.change(leader=2, isr=(2, 3))
    assert codes(brokers[2].append()) == [ErrorCode.kafka_storage_error]


def test_appends_that_wait_for_followers_are_refused_when_their_topic_is_deleted(brokers):
    brokers.create()
    answers = brokers[1].append()
    brokers.remove()
    assert [each.error_code for each in answers] == [ErrorCode.unknown_topic_or_partition]


def test_appends_that_wait_when_the_replica_moves_to_other_brokers_are_asked_of_those(brokers):
    # A marker that is refused because of a deleted topic counts as written.
    brokers.create()
    answers = brokers[1].append()
    brokers.change(replicas=(2, 3), isr=(2, 3), leader=2, directories=())
    assert codes(answers) == [ErrorCode.not_leader_or_follower]


def test_a_replica_that_moves_away_while_it_is_opened_does_not_lead(brokers):
    node = brokers[1]
    (brokers.path / "1" / "t-0").mkdir()
    node.settle = lambda: None
    brokers.create()
    replica = node.replica()
    brokers.change(replicas=(2, 3), isr=(2, 3), leader=2, directories=())
    del node.settle
    node.settle()
    assert (replica.is_leader, node.roles) == (False, [])


def test_a_new_leader_does_not_know_the_end_before_it_knows_what_its_predecessor_told_of(brokers):
    brokers.create()
    brokers[1].append(a_batch(3))
    for follower in (3, 2, 3, 2):  # then the leader knows that all is committed, and 3 does not
        brokers.fetch(follower)
    assert (brokers[1].replica().is_end_known, brokers[1].replica().high_watermark) == (True, 3)
    brokers.change(leader=3, isr=(2, 3))
    assert (brokers[3].replica().is_end_known, brokers[3].replica().high_watermark) == (False, 0)
    brokers.exchange(2)
    assert (brokers[3].replica().is_end_known, brokers[3].replica().high_watermark) == (True, 3)


def test_what_a_coordinator_appends_while_the_epoch_changes_is_refused(brokers):
    # Its successor reads the log before that would be written.
    brokers.create(replicas=(1,))
    leader, answers = brokers[1].replica(), []

    def append(origin):
        done = lambda result: answers.append(result.base_offset)  # noqa: E731
        leader.append(AppendRequest(batches=a_batch(1), origin=origin, on_done=done, on_error=answers.append))

    append(AppendOrigin.COORDINATOR)
    brokers.image.replay(PartitionChangeRecord(partition_id=0, topic_id=leader.topic_id, leader=1))
    brokers[1].replicas.learn(brokers.image)
    append(AppendOrigin.COORDINATOR)
    append(AppendOrigin.CLIENT)
    brokers[1].settle()
    assert codes(answers) == [0, ErrorCode.not_leader_or_follower, 1]


def test_an_append_behind_a_leader_epoch_that_could_not_be_written_is_refused(brokers):
    # Nobody fetches from that leader any more: a coordinator would wait for its answer for ever.
    brokers.create()
    brokers[1].append()
    brokers.exchange(2)
    node, answers = brokers[2], []
    node.fs.refuse("rename", "leader-epoch-checkpoint")
    node.settle = lambda: None
    brokers.change(leader=2)
    for awaits_replication in (True, False):
        node.replica().append(
            AppendRequest(batches=a_batch(1), on_error=answers.append, awaits_replication=awaits_replication)
        )
    del node.settle
    node.settle()
    assert codes(answers) == [ErrorCode.kafka_storage_error] * 2


def test_in_sync_means_on_the_device_also_with_flush_policy_os(brokers):
    # After a power cut a broker keeps its place in the in-sync set: it must have what it acknowledged.
    brokers.create(flush_policy="os")
    before = [brokers[number].fs.count("sync", ".log") for number in (1, 2, 3)]
    answers = brokers[1].append(a_batch(3))
    brokers.exchange()
    assert answers == [(0, 2)]
    assert all(brokers[number].fs.count("sync", ".log") > before[number - 1] for number in (1, 2, 3))


def deleting(brokers, before_offset):
    """The low watermark, or the error, in a list: empty while it waits."""
    answers = []
    brokers[1].replica().delete_records(before_offset, answers.append, lambda error: answers.append(error.error_code))
    brokers[1].settle()
    return answers


@pytest.fixture
def written(brokers):
    brokers.create()
    brokers[1].append(a_batch(5))
    brokers.exchange()
    return brokers


def test_deleted_records_are_answered_when_all_followers_have_deleted_them(written):
    answers = deleting(written, 3)
    assert written[1].replica().bounds.log_start_offset == 3
    written.fetch(2)  # hears of it
    written.fetch(2)  # and says so
    written.fetch(3)
    assert (answers, written[1].replica().low_watermark) == ([], 0)
    written.fetch(3)
    assert answers == [3]
    assert [written[number].replica()._machine.log.log_start_offset for number in (2, 3)] == [3, 3]
    assert deleting(written, 2) == [3]


def test_a_fenced_follower_is_not_waited_for_when_records_are_deleted(written):
    answers = deleting(written, 3)
    written.exchange(2)
    assert answers == []
    written.fence(3)
    assert answers == [3]


def test_a_deletion_that_waits_is_refused_when_another_broker_leads_or_the_topic_is_deleted(written):
    answers = deleting(written, 3)
    written.change(leader=2)
    assert answers == [ErrorCode.not_leader_or_follower]
    written.change(leader=1)
    written.exchange()
    again = deleting(written, 4)
    written.remove()
    assert again == [ErrorCode.unknown_topic_or_partition]


def pass_ms(brokers, milliseconds):
    brokers.clock.ms += milliseconds
    for node in brokers.nodes.values():
        node.timers.fire(brokers.clock.ms)
        node.settle()


def test_a_follower_that_met_a_full_disk_comes_back_when_there_is_space(written, caplog):
    """It stayed out until the next start of its broker."""
    follower = written[2]
    follower.fs.refuse("write", ".log", count=2, error_number=errno.ENOSPC)
    answers = written[1].append(a_batch(2))
    written.exchange()
    assert follower.fs.refused == 1
    assert follower.replicas.positions_at(1) == {}
    assert "t-0 is out until there is space" in caplog.text
    pass_ms(written, 2_500)
    written.exchange(2)
    assert (follower.fs.refused, follower.replicas.positions_at(1)) == (2, {})
    pass_ms(written, 2_500)
    written.exchange()
    assert answers == [(5, 6)]
    assert written.log_bytes(2) == written.log_bytes(1)
    assert (follower.replica().error, follower.replica().high_watermark) == (None, 7)


def test_a_follower_tries_a_full_disk_ever_more_seldom(written):
    follower = written[2]
    follower.fs.refuse("write", ".log", count=100, error_number=errno.ENOSPC)
    written[1].append(acks=1)
    for _ in range(60):
        written.exchange(2, rounds=1)
        pass_ms(written, 2_500)
    assert 5 < follower.fs.refused < 9


def test_a_follower_with_another_error_of_its_disk_stays_out(written, caplog):
    written[2].fs.refuse("write", ".log")
    written[1].append(acks=1)
    written.exchange(2)
    for _ in range(30):
        pass_ms(written, 2_500)
    assert written[2].replicas.positions_at(1) == {}
    assert "t-0 is out until the next start" in caplog.text
