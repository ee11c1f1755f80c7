import os

import pytest
from support.builders.builders import SOME_TIME_MS
from support.nodes.tally_coordinator import Tallied, TallyNode, encode

from broker_core.coordinator.coordinator_batch import build_coordinator_batch
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import (
    CoordinatorFencedError,
    CoordinatorLoadingError,
    CoordinatorNotAvailableError,
    InvalidRequestError,
    ProducerFencedError,
    RecordTooLargeError,
    StreamlogError,
)
from broker_core.model.identifiers import IsolationLevel, ProducerIdAndEpoch
from broker_core.record.batch_reader import iter_headers
from broker_core.record.control_records import EndTransactionMarker

PRODUCER = ProducerIdAndEpoch(producer_id=7, producer_epoch=1)
COMMIT, ABORT = (EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0) for is_commit in (True, False))
DATA_FILE = "__consumer_offsets-0/00000000000000000000.log"


@pytest.fixture
def node(tmp_path):
    node = TallyNode(tmp_path / "log")
    node.set("begun", 0)
    node.jobs.run_all()
    node.answers.clear()
    return node


def batches(node):
    fetched = node.topic.replica().read(0, max_bytes=1 << 20, isolation=IsolationLevel.READ_UNCOMMITTED)
    return [header for _, header in iter_headers(fetched.buffer)]


def kinds(answers):
    return [type(each) if isinstance(each, StreamlogError) else each[0] for each in answers]


def reopened(node, path):
    node.stop()
    return TallyNode(path)


def test_a_plan_sees_state_that_is_not_durable_and_its_reply_waits_for_it(node):
    node.set("a", 1)
    node.set("a", 2)
    node.look()
    assert node.answers == []
    node.jobs.run_all()
    assert node.answers == [
        ("done", {"begun": 0}),
        ("done", {"begun": 0, "a": 1}),
        ("seen", {"begun": 0, "a": 2}),
    ]


def test_a_query_is_answered_immediately_without_pending_appends(node):
    assert node.look() == [("seen", {"begun": 0})]


def test_a_refusal_waits_for_the_records_that_it_depends_on(node):
    node.set("a", 1)
    node.change(lambda tally: tally.plan_refused())
    assert node.answers == []
    node.jobs.run_all()
    assert kinds(node.answers) == ["done", InvalidRequestError]


def test_changes_planned_during_an_append_are_appended_together(node):
    node.set("a", 1)
    node.jobs.do_next()
    syncs = node.fs.count("sync", DATA_FILE)
    for number in range(10):
        node.set(f"b{number}", number)
    node.jobs.finish()
    assert kinds(node.answers) == ["done"]
    node.jobs.run_all()
    assert len(node.answers) == 11
    assert node.fs.count("sync", DATA_FILE) == syncs + 1
    assert [header.record_count for header in batches(node)] == [1] * 12, "each change is a batch of its own"


def test_a_large_backlog_is_appended_in_pieces(node):
    for number in range(12):
        node.set(f"big{number}", number, text=b"%d" % number * 100_000)
    node.jobs.run_all()
    assert len(node.answers) == 12
    assert node.end_offset() == 13


def test_a_reply_callback_may_request_the_next_change(node):
    seen = []
    node.runtime.change(
        lambda tally: tally.plan_set(Tallied("a", 1)),
        lambda _: node.set("a", 2, into=seen),
        seen.append,
    )
    node.jobs.run_all()
    assert seen == [("done", {"begun": 0, "a": 1})]


def test_a_failing_reply_callback_delays_no_other_reply(node):
    def broken(_):
        raise RuntimeError("a handler's fault")

    node.runtime.change(lambda tally: tally.plan_set(Tallied("a", 1)), broken, node.answers.append)
    node.set("b", 1)
    node.jobs.run_all()
    assert kinds(node.answers) == ["done"]


def test_a_failing_plan_is_answered_and_changes_nothing(node):
    def broken(tally):
        raise ZeroDivisionError("in the plan")

    (error,) = node.change(broken)
    assert error.error_code.name == "unknown_server_error"
    assert node.peek() == {"begun": 0}


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_after_a_disk_error_all_waiting_requests_fail_and_the_state_is_reloaded(node, kind):
    node.set("a", 1)
    node.jobs.run_all()
    node.answers.clear()
    refused = node.fs.refused
    node.fs.refuse(kind, DATA_FILE)
    node.set("a", 2)
    node.set("b", 3)
    node.look()
    node.change(lambda tally: tally.plan_refused())
    node.jobs.run_next()
    assert node.fs.refused == refused + 1
    assert kinds(node.answers) == [CoordinatorNotAvailableError] * 4
    assert not node.runtime.is_loaded
    assert kinds(node.set("c", 1, into=[])) == [CoordinatorLoadingError]
    assert kinds(node.look(into=[])) == [CoordinatorLoadingError]
    node.jobs.run_all()
    assert node.look(into=[]) == [("seen", {"begun": 0, "a": 1})]
    assert node.loads[-1] == {"begun": 0, "a": 1}
    node.set("a", 4, into=(again := []))
    node.jobs.run_all()
    assert kinds(again) == ["done"]


def test_a_log_that_cannot_be_read_is_tried_again(node, tmp_path):
    node.stop()
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.rename(tmp_path / "away")
    folder.write_bytes(b"no folder")
    again = TallyNode(tmp_path / "log")
    assert not again.runtime.is_loaded
    folder.unlink()
    (tmp_path / "away").rename(folder)
    again.fire_timers()  # the maintenance of replicas finds that it is well again
    again.fire_timers(1_000)
    assert again.peek() == {"begun": 0}


def test_a_load_that_was_to_be_tried_again_does_not_come_after_another_one(node, tmp_path):
    """It would forget the appends under way, and with them the requests that wait for their answers."""
    node.stop()
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.rename(tmp_path / "away")
    folder.write_bytes(b"no folder")
    again = TallyNode(tmp_path / "log")
    folder.unlink()
    (tmp_path / "away").rename(folder)
    again.replicas._due_for_maintenance()
    again.jobs.run_all()
    again.runtime.change_role()
    again.jobs.run_all()
    assert again.runtime.is_loaded
    again.set("a", 1)
    again.clock.ms += 1_000
    again.timers.fire(again.clock.ms)
    again.jobs.run_all()
    assert kinds(again.answers) == ["done"]


def test_the_topic_is_created_by_the_first_record_and_nothing_waits_for_it_before(tmp_path):
    node = TallyNode(tmp_path / "log")
    assert node.look() == [("seen", {})]
    assert kinds(node.change(lambda tally: tally.plan_set())) == ["seen", "done"]
    assert node.end_offset() is None
    node.answers.clear()
    node.set("a", 1)
    node.set("a", 2)
    node.look()
    node.jobs.run_all()
    assert [each for each in node.answers if each[0] == "done"] == [("done", {}), ("done", {"a": 1})]
    assert (node.peek(), node.end_offset()) == ({"a": 2}, 2)
    assert node.topics.image.topics["__consumer_offsets"].partition_count == 1


def test_if_the_topic_cannot_be_created_waiting_requests_fail_and_the_next_one_retries(tmp_path):
    node = TallyNode(tmp_path / "log")
    node.fs.refuse("write", "__cluster_metadata-0/00000000000000000000.log")
    node.set("a", 1)
    node.jobs.run_all()
    assert (kinds(node.answers), node.fs.refused, node.peek()) == ([CoordinatorNotAvailableError], 1, {})
    node.set("a", 2, into=(again := []))
    node.jobs.run_all()
    assert kinds(again) == ["done"]


def test_a_topic_that_is_deleted_leaves_an_empty_coordinator(node):
    node.delete("__consumer_offsets")
    node.set("a", 1)
    node.jobs.run_all()
    assert (kinds(node.answers), node.peek()) == ([CoordinatorNotAvailableError], {})
    node.set("a", 2)
    node.jobs.run_all()
    assert node.peek() == {"a": 2}


def test_a_batch_that_the_topic_would_not_take_is_refused_before_it_counts(node):
    node.alter("__consumer_offsets", max_message_bytes="1000")
    node.set("a", 1, text=b"x" * 1000)
    node.jobs.run_all()
    assert (kinds(node.answers), node.peek(), node.end_offset()) == ([RecordTooLargeError], {"begun": 0}, 1)


def test_what_belongs_to_a_transaction_counts_with_its_marker(node, tmp_path):
    node.set("a", 1, producer=PRODUCER)
    node.set("b", 1, producer=ProducerIdAndEpoch(producer_id=8, producer_epoch=0))
    assert node.peek() == {"begun": 0}
    node.mark(PRODUCER, COMMIT)
    node.mark(ProducerIdAndEpoch(producer_id=8, producer_epoch=0), ABORT)
    assert node.peek() == {"begun": 0, "a": 1}
    node.jobs.run_all()
    assert node.answers[2:] == ["marked", "marked"]
    assert [header.is_transactional for header in batches(node)] == [False, True, True, True, True]
    assert reopened(node, tmp_path / "log").peek() == {"begun": 0, "a": 1}


def test_a_producer_that_was_fenced_is_refused_before_it_costs_the_state(node):
    newer = ProducerIdAndEpoch(producer_id=7, producer_epoch=2)
    node.mark(newer, ABORT)
    node.set("a", 1, producer=PRODUCER, into=(early := []))
    node.mark(PRODUCER, COMMIT, into=early)
    node.jobs.run_all()
    node.set("a", 1, producer=PRODUCER, into=early)
    node.mark(newer, EndTransactionMarker(is_commit=True, coordinator_epoch=-1), into=early)
    assert kinds(early) == [ProducerFencedError] * 3 + [CoordinatorFencedError]


def test_without_a_log_there_is_nothing_to_end(tmp_path):
    node = TallyNode(tmp_path / "log")
    assert node.mark(PRODUCER, COMMIT) == ["marked"]
    assert node.end_offset() is None


def test_while_the_log_is_read_everybody_is_asked_to_come_again(node, tmp_path):
    node.stop()
    again = TallyNode(tmp_path / "log")
    again.runtime.load()
    assert kinds(again.set("a", 1)) == [CoordinatorLoadingError]
    assert kinds(again.mark(PRODUCER, COMMIT, into=[])) == [CoordinatorLoadingError]
    assert again.runtime.peek(len, "unknown") == "unknown"
    again.jobs.run_all()
    assert again.look(into=[]) == [("seen", {"begun": 0})]


def test_records_have_the_clocks_time(node):
    assert {header.max_timestamp for header in batches(node)} == {SOME_TIME_MS}


def test_foreign_records_in_its_log_block_no_request_for_ever(node):
    """The offsets that it predicted are wrong then: it reads the log again, and clients retry."""
    strange = build_coordinator_batch([encode(Tallied("strange", 7), timestamp_ms=SOME_TIME_MS)])
    node.append(strange, replica=node.topic.replica(), origin=AppendOrigin.COORDINATOR)
    node.set("a", 1)
    node.jobs.run_all()
    assert kinds(node.answers) == [CoordinatorNotAvailableError]
    node.answers.clear()
    node.set("b", 2)
    node.jobs.run_all()
    assert node.answers == [("done", {"begun": 0, "strange": 7, "a": 1})]


def test_records_that_are_true_one_by_one_may_be_more_than_fit_into_a_batch(node):
    """Tombstones of thousands of groups for a topic that was deleted: as one batch they were refused, and stayed."""
    records = [Tallied(f"name{number}", number, os.urandom(300)) for number in range(5_000)]
    node.change(lambda tally: tally.plan_set(*records))
    node.jobs.run_all()
    assert kinds(node.answers) == [RecordTooLargeError]
    node.answers.clear()
    node.change(lambda tally: tally.plan_set(*records), is_divisible=True)
    assert node.answers == []
    node.jobs.run_all()
    assert node.answers == [("done", {"begun": 0})]
    assert len(node.peek()) == 5_001
    assert node.end_offset() == 5_001
