"""Transactions of a whole node, as transcripts of requests over the wire."""

from dataclasses import replace

import pytest
from support.nodes.transaction_node import TV1, TV2, TransactionNode, produce_error

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.protocol.api_table import ApiKey
from broker_core.txn.transaction_steps import LAST_GIVEN_EPOCH
from broker_core.txn.txn_records import TransactionRecord


@pytest.fixture
def node(tmp_path):
    return TransactionNode(tmp_path / "log")


def again(node, tmp_path, *, is_clean=True):
    """The next start. A node that dies gives its directory back without a word."""
    if is_clean:
        node.stop()
    else:
        node.node.abandon()
    return TransactionNode(tmp_path / "log", clock=node.clock)


def begin(node, versions, *, sequence=0, number=0, transactional_id="t", producer=None):
    """A producer with one record in its open transaction."""
    producer = producer or node.producer(transactional_id, version=versions["init"])
    if versions["add"] is not None:
        assert node.add(producer, number, transactional_id=transactional_id) == ["none"]
    error = node.produce(
        producer, sequence, number=number, transactional_id=transactional_id, version=versions["produce"]
    )
    assert error == "none"
    return producer


# -- the life of a transaction --


def test_a_client_of_version_2_opens_by_writing_and_has_a_new_epoch_after_each_end(node):
    producer_id, epoch = begin(node, TV2)
    assert node.state() == ("Ongoing", epoch)
    assert node.end((producer_id, epoch)) == ("none", producer_id, epoch + 1)
    assert node.log() == [(producer_id, epoch, b"v"), (producer_id, epoch + 1, True)]
    assert node.state() == ("CompleteCommit", epoch + 1)
    begin(node, TV2, producer=(producer_id, epoch + 1))
    node.end((producer_id, epoch + 1), commit=False)
    assert node.log()[2:] == [(producer_id, epoch + 1, b"v"), (producer_id, epoch + 2, False)]


def test_an_older_client_adds_partitions_and_keeps_its_epoch(node):
    producer_id, epoch = begin(node, TV1)
    assert node.end((producer_id, epoch), version=3) == "none"
    begin(node, TV1, sequence=1, producer=(producer_id, epoch))
    assert node.end((producer_id, epoch), commit=False, version=3) == "none"
    assert node.log() == [
        (producer_id, epoch, b"v"), (producer_id, epoch, True),
        (producer_id, epoch, b"v"), (producer_id, epoch, False),
    ]  # fmt: skip
    assert node.open_producers() == set()


def test_end_txn_is_answered_once_decided_and_each_partition_gets_its_marker(node):
    producer = node.producer()
    node.add(producer, 0, 1, 2)
    answers = node.send_end(producer)
    assert answers == []
    node.jobs.run_next()
    assert answers[0].error_code.name == "none"
    assert node.log(2) == []
    node.jobs.run_all()
    assert [node.log(number)[-1][2] for number in range(3)] == [True] * 3


def test_a_transaction_without_partitions_ends_immediately(node):
    producer_id, epoch = node.producer()
    assert node.end((producer_id, epoch), commit=False)[0] == "none"
    assert node.state() == ("CompleteAbort", epoch + 1)


@pytest.mark.parametrize("versions", [TV1, TV2], ids=["version 1", "version 2"])
def test_transactional_group_offsets_apply_at_the_commit(node, versions):
    producer = node.producer(version=versions["init"])
    if versions is TV1:
        assert node.add_offsets(producer) == "none"
    assert node.commit_offset(producer, 5, version=versions["offsets"]) == ["none"]
    assert node.committed_offset() == -1
    node.end(producer, version=versions["end"])
    assert node.committed_offset() == 5
    assert node.state()[0] == "CompleteCommit"


def test_group_offsets_of_an_aborted_transaction_never_apply(node):
    producer_id, epoch = node.producer()
    node.commit_offset((producer_id, epoch), 5, version=5)
    node.end((producer_id, epoch))
    node.commit_offset((producer_id, epoch + 1), 9, version=5)
    node.end((producer_id, epoch + 1), commit=False)
    assert node.committed_offset() == 5


# -- who may write --


def test_without_a_transaction_writes_are_refused_and_newer_clients_get_an_abortable_error(node):
    producer = node.producer()
    assert node.produce(producer, 0, version=9) == "invalid_txn_state"
    assert node.produce(producer, 0, version=11) == "transaction_abortable"
    node.add(producer, 1)
    assert node.produce(producer, 0, version=9) == "invalid_txn_state", "another partition was added"
    assert node.log() == []


def test_a_zombie_cannot_write_add_partitions_or_end(node):
    producer_id, epoch = begin(node, TV2)
    node.producer()
    zombie = producer_id, epoch
    assert node.produce(zombie, 1, version=9) == "invalid_producer_epoch"
    assert node.produce(zombie, 1, version=12) == "invalid_producer_epoch"
    assert node.add(zombie) == ["producer_fenced"]
    assert node.commit_offset(zombie, version=5) == ["invalid_producer_epoch"]
    assert node.end(zombie)[0] == "producer_fenced"
    assert node.end(zombie, version=3) == "producer_fenced"
    assert node.log() == [(producer_id, epoch, b"v"), (producer_id, epoch + 1, False)]


def test_an_unknown_producer_is_refused(node):
    assert node.produce((99, 0), 0, version=9) == "invalid_producer_id_mapping"
    assert node.produce((99, 0), 0, version=12) == "invalid_producer_id_mapping"
    producer_id, epoch = node.producer()
    assert node.produce((producer_id + 1, epoch), 0, version=12) == "invalid_producer_id_mapping"


def test_the_next_instance_waits_for_the_end_of_the_previous_transaction(node):
    producer_id, epoch = begin(node, TV2)
    assert node.init() == ("concurrent_transactions", -1, -1)
    assert node.init() == ("none", producer_id, epoch + 2)


# -- a write right behind an end --


def test_the_first_write_after_an_end_waits_until_it_completes(node):
    producer_id, epoch = begin(node, TV2)
    ended = node.send_end((producer_id, epoch))
    while not ended:
        node.jobs.run_next()
    written = node.send_produce((producer_id, epoch + 1), 0)
    node.jobs.run_all()
    assert produce_error(written) == "none"
    assert [entry[1:] for entry in node.log()] == [(epoch, b"v"), (epoch + 1, True), (epoch + 1, b"v")]


def test_a_first_write_that_waits_too_long_gets_a_retriable_error(node):
    producer_id, epoch = begin(node, TV2)
    node.fs.refuse("sync", "orders-0/00000000000000000000.log", count=10)
    node.end((producer_id, epoch))
    written = node.send_produce((producer_id, epoch + 1), 0)
    node.jobs.run_all()
    assert written == []
    node.pass_ms(1_000)
    assert produce_error(written) == "concurrent_transactions"
    assert node.fs.refused
    node.fs.refuse("sync", "nothing")
    node.pass_ms(5_000)
    assert node.log() == [(producer_id, epoch, b"v"), (producer_id, epoch + 1, True)]
    assert node.state() == ("CompleteCommit", epoch + 1)


def at_its_last_epoch(node):
    """A producer with one record in its open transaction, at the last epoch that its id has."""
    producer_id, _ = node.producer()
    node.node.transactions.of("t")._runtime.change(
        lambda coordinator: CoordinatorResult(
            records=(
                TransactionRecord(
                    transactional_id="t",
                    value=replace(coordinator.value("t"), producer_epoch=LAST_GIVEN_EPOCH),
                ),
            ),
            reply=None,
        ),
        lambda reply: None,
        pytest.fail,
    )
    node.jobs.run_all()
    return begin(node, TV2, producer=(producer_id, LAST_GIVEN_EPOCH))


def test_the_first_write_with_a_rotated_producer_id_waits_until_the_end_completes(node):
    """KAFKA-20090: the producer has been told its new id, and the coordinator knew it only behind the markers."""
    producer_id, epoch = at_its_last_epoch(node)
    ended = node.send_end((producer_id, epoch))
    while not ended:
        node.jobs.run_next()
    following = ended[0].producer_id, ended[0].producer_epoch
    assert following[0] != producer_id
    assert following[1] == 0
    assert node.state()[0] == "PrepareCommit"
    written = node.send_produce(following, 0)
    node.jobs.run_all()
    assert produce_error(written) == "none"
    assert node.log()[-1] == (*following, b"v")
    assert node.end(following)[0] == "none"


def test_an_older_version_that_writes_with_a_rotated_producer_id_gets_a_retriable_error(node):
    ended = node.send_end(at_its_last_epoch(node))
    while not ended:
        node.jobs.run_next()
    written = node.send_produce((ended[0].producer_id, ended[0].producer_epoch), 0, version=11)
    node.jobs.run_all()
    assert produce_error(written) == "not_enough_replicas"


@pytest.mark.parametrize("known", ["new", "old"])
def test_init_producer_id_during_an_end_gets_a_retriable_error(node, known):
    old = at_its_last_epoch(node)
    ended = node.send_end(old)
    while not ended:
        node.jobs.run_next()
    following = ended[0].producer_id, ended[0].producer_epoch
    assert node.init(known=following if known == "new" else old)[0] == "concurrent_transactions"
    assert node.init(known=following) == ("none", following[0], 1)


def test_an_older_client_that_writes_before_its_end_completes_gets_a_retriable_error(node):
    producer = begin(node, TV1)
    ended = node.send_end(producer, version=3)
    while not ended:
        node.jobs.run_next()
    written = node.send_produce(producer, 1, version=9)
    node.jobs.run_all()
    assert produce_error(written) == "not_enough_replicas"
    assert node.add(producer) == ["none"]


# -- time --


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced(node):
    producer_id, epoch = begin(node, TV2, producer=node.producer(timeout_ms=5_000))
    node.pass_ms(9_000)
    assert node.state() == ("Ongoing", epoch)
    node.pass_ms(2_000)
    assert node.state() == ("CompleteAbort", epoch + 1)
    assert node.log()[-1] == (producer_id, epoch + 1, False)
    assert node.produce((producer_id, epoch), 1) == "invalid_producer_epoch"
    assert node.init(known=(producer_id, epoch)) == ("none", producer_id, epoch + 1), "it may go on (KIP-360)"


def test_an_idle_transactional_id_expires(tmp_path):
    hour_ms = 3600 * 1000
    node = TransactionNode(tmp_path / "log", transaction_abort_timed_out_transaction_cleanup_interval_ms=hour_ms)
    node.producer()
    node.clock.ms += 7 * 24 * hour_ms - hour_ms // 2
    node.pass_ms(0)
    assert node.describe().error_code.name == "none"
    node.pass_ms(hour_ms)
    assert node.describe().error_code.name == "transactional_id_not_found"


# -- deaths and disks --


@pytest.mark.parametrize("job_count", range(5))
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_after_a_crash_anywhere_in_an_end_the_next_start_completes_the_decision(node, tmp_path, commit, job_count):
    producer_id, epoch = begin(node, TV2)
    node.commit_offset((producer_id, epoch), 5, version=5)
    answers = node.send_end((producer_id, epoch), commit)
    for _ in range(job_count):
        if len(node.jobs):
            node.jobs.run_next()
    node = again(node, tmp_path, is_clean=False)
    if not answers and node.state()[0] == "Ongoing":
        assert node.end((producer_id, epoch), commit=commit)[0] == "none", "the client asks again"
    assert node.state()[0] == ("CompleteCommit" if commit else "CompleteAbort")
    markers = [entry for entry in node.log() if isinstance(entry[2], bool)]
    assert {marker[2] for marker in markers} == {commit}
    assert node.open_producers() == set()
    assert node.committed_offset() == (5 if commit else -1)


def test_a_marker_whose_write_failed_is_written_later(node):
    producer_id, epoch = begin(node, TV2)
    node.fs.refuse("sync", "orders-0/00000000000000000000.log", count=2)
    assert node.end((producer_id, epoch))[0] == "none"
    assert node.state() == ("PrepareCommit", epoch + 1)
    node.pass_ms(1_000)
    assert node.state() == ("PrepareCommit", epoch + 1)
    node.pass_ms(1_000)
    assert (node.fs.refused, node.state()) == (2, ("CompleteCommit", epoch + 1))


def test_a_decision_whose_write_failed_is_not_made_and_the_client_may_retry(node):
    producer_id, epoch = begin(node, TV2)
    node.fs.refuse("sync", "__transaction_state-0/00000000000000000000.log")
    assert node.end((producer_id, epoch)) == ("coordinator_not_available", -1, -1)
    assert node.fs.refused == 1
    assert node.state() == ("Ongoing", epoch)
    assert node.log() == [(producer_id, epoch, b"v")]
    assert node.end((producer_id, epoch))[0] == "none"


def test_a_completion_whose_write_failed_is_retried(node):
    producer_id, epoch = begin(node, TV2)
    answers = node.send_end((producer_id, epoch))
    while not answers:
        node.jobs.run_next()
    node.fs.refuse("sync", "__transaction_state-0/00000000000000000000.log")
    node.jobs.run_all()
    assert (node.fs.refused, node.state()) == (1, ("CompleteCommit", epoch + 1))


def test_open_transactions_survive_a_restart(node, tmp_path):
    producer_id, epoch = begin(node, TV2)
    node = again(node, tmp_path)
    assert node.state() == ("Ongoing", epoch)
    assert node.produce((producer_id, epoch), 1) == "none"
    assert node.end((producer_id, epoch))[0] == "none"
    assert [entry[2] for entry in node.log()] == [b"v", b"v", True]


def test_a_partition_that_is_deleted_meanwhile_is_skipped(node):
    producer_id, epoch = begin(node, TV2)
    node.make_topic("gone")
    node.add((producer_id, epoch), 0, topic="gone")
    node.node.topics.delete_topic("gone", on_reply=lambda _: None, on_error=lambda _: None)
    node.jobs.run_all()
    assert node.end((producer_id, epoch))[0] == "none"
    assert node.state() == ("CompleteCommit", epoch + 1)


def test_partitions_of_one_append_are_validated_separately(node):
    producer_id, epoch = node.producer()
    node.add((producer_id, epoch), 1)
    found = []
    node.node.transactions.prepare_append(
        transactional_id="t",
        producer=ProducerIdAndEpoch(producer_id=producer_id, producer_epoch=epoch),
        partitions=[TopicPartition("orders", number) for number in range(3)],
        adds=False,
        on_ready=lambda errors: found.append({each.partition: error.name for each, error in errors.items()}),
    )
    node.jobs.run_all()
    assert found == [{0: "invalid_txn_state", 2: "invalid_txn_state"}]


# -- deletion of __transaction_state --


def delete_log(node, *, run=True):
    answers = node.send(
        ApiKey.DELETE_TOPICS, 6, topics=[{"name": "__transaction_state", "topic_id": None}], timeout=5000
    )
    if run:
        node.jobs.run_all()
        ((answer,),) = (each.responses for each in answers)
        return answer.error_code.name, answer.error_message
    return answers


def test_the_transaction_log_is_kept_while_a_transaction_is_open(node):
    """Kafka 4.3.1 deletes it: the transaction can never be ended, and blocks readers for ever."""
    producer = begin(node, TV2)
    error, message = delete_log(node)
    assert error == "policy_violation"
    assert "holds 1 open transactions" in message
    assert "'t': commit or abort them first" in message
    assert node.end(producer)[0] == "none"
    assert node.log()[-1][1:] == (producer[1] + 1, True)
    assert delete_log(node) == ("none", None)


def test_without_its_log_a_transactional_id_is_unknown_and_starts_with_a_new_producer(node, tmp_path):
    producer = begin(node, TV2)
    _, *following = node.end(producer)
    assert delete_log(node) == ("none", None)
    assert node.produce(tuple(following), 0) == "invalid_producer_id_mapping"
    assert node.end(tuple(following))[0] == "invalid_producer_id_mapping"
    assert "__transaction_state" not in node.node.topics.image.topics
    fresh = begin(node, TV2)
    assert fresh[0] != producer[0]
    assert node.end(fresh)[0] == "none"
    later = again(node, tmp_path)
    assert later.state() == ("CompleteCommit", fresh[1] + 1)
    assert [marker for *_, marker in later.log() if marker is True] == [True, True]


def test_a_transaction_that_begins_while_its_log_is_deleted_is_refused_with_a_retriable_error(node):
    """Between the look at the transactions and the deletion nothing may begin: nobody could end it."""
    producer = node.producer("t")
    deletion = delete_log(node, run=False)
    assert produce_error(node.send_produce(producer, 0)) == "not_enough_replicas"
    node.jobs.run_all()
    assert deletion[0].responses[0].error_code.name == "none"
    assert node.log() == []


def test_the_transaction_log_serves_again_if_its_deletion_fails(node):
    producer = begin(node, TV2)
    node.end(producer)
    node.fs.refuse("write", "__cluster_metadata-0/00000000000000000000.log")
    error, _ = delete_log(node)
    assert (error, node.fs.refused) == ("kafka_storage_error", 1)
    assert node.state() == ("CompleteCommit", producer[1] + 1)
    assert node.end(begin(node, TV2))[0] == "none"
