"""What the log remembers of a decided batch, and what is made of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brokers.in_memory_cluster import InMemoryCluster

from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.model.limits import MAX_OFFSET_METADATA_BYTES
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once.decision import (
    Decision,
    decode_decision,
    encode_decision,
    find_decision,
    last_decision,
)
from spark_streamlog.exactly_once.sink_identity import (
    DECISION_PARTITION,
    application_identity,
    query_identity,
)

QUERY = query_identity("73186b39-922e-4208-9ce5-ca7bd052e63b")
APPLICATION = application_identity("orders", topic=None)


def a_cluster_with(identity, decision):
    cluster = InMemoryCluster()
    cluster.create_topic(DECISION_PARTITION.topic, is_internal=True)
    cluster.commit_offsets(identity.decision_group, {DECISION_PARTITION: encode_decision(decision)})
    return cluster


def test_the_metadata_is_short_and_omits_defaults():
    decision = Decision(
        batch=7,
        decided_by=ProducerIdAndEpoch(producer_id=12, producer_epoch=3),
        task_count=200,
        attempts={0: 0, 1: 2, 2: 0},
        input_fingerprint="abc",
    )
    stored = encode_decision(decision)
    assert stored.offset == 7
    assert stored.metadata == '{"tasks":200,"driver":[12,3],"input":"abc","attempts":{"1":2}}'
    assert encode_decision(Decision(batch=0, task_count=1)).metadata == '{"tasks":1}'


@given(
    st.integers(0, 2**63 - 1),
    st.none() | st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1)),
    st.dictionaries(st.integers(0, 300), st.integers(1, 9), max_size=40),
    st.text("0123456789abcdef", max_size=16),
)
def test_a_stored_decision_is_read_back(batch, driver, attempts, fingerprint):
    decided_by = driver and ProducerIdAndEpoch(producer_id=driver[0], producer_epoch=driver[1])
    decision = Decision(
        batch=batch, decided_by=decided_by, task_count=301, attempts=attempts, input_fingerprint=fingerprint
    )
    assert decode_decision(encode_decision(decision)) == decision


def test_attempts_that_do_not_fit_are_omitted():
    retried = dict.fromkeys(range(2000), 1)
    stored = encode_decision(Decision(batch=1, task_count=2000, attempts=retried))
    assert len(stored.metadata) < MAX_OFFSET_METADATA_BYTES
    assert decode_decision(stored) == Decision(batch=1, task_count=2000)


@pytest.mark.parametrize(
    "metadata",
    ["", "by hand", "[]", "7", "null", "{}", '{"tasks":null}', '{"tasks":1,"driver":[1]}', '{"tasks":1,"driver":7}',
     '{"tasks":1,"attempts":[1]}', '{"tasks":1,"attempts":{"x":1}}', '{"tasks":Infinity}', "[" * 4000],
)  # fmt: skip
def test_foreign_metadata_is_ignored_and_the_offset_used(metadata):
    assert decode_decision(GroupOffset(offset=5, metadata=metadata)) == Decision(batch=5)


def test_nothing_is_decided_in_an_empty_log():
    assert last_decision(InMemoryCluster(), QUERY) is None
    assert find_decision(InMemoryCluster(), QUERY, 0) is None


def test_the_decided_batch_is_found_and_the_next_batch_is_not_decided():
    cluster = a_cluster_with(QUERY, Decision(batch=4, task_count=2))
    assert find_decision(cluster, QUERY, 4) == Decision(batch=4, task_count=2)
    assert find_decision(cluster, QUERY, 5) is None
    assert find_decision(cluster, QUERY, 50) is None, "batches may have been written at-least-once in between"


def test_a_version_not_above_the_last_one_counts_as_decided():
    cluster = a_cluster_with(APPLICATION, Decision(batch=4))
    assert [find_decision(cluster, APPLICATION, version) is not None for version in (0, 3, 4, 5)] == [
        True, True, True, False,
    ]  # fmt: skip


def test_a_querys_batch_before_the_last_one_is_refused():
    cluster = a_cluster_with(QUERY, Decision(batch=4))
    with pytest.raises(ConditionError, match=r"STREAMLOG_BATCH_NOT_NEXT.* batch 3 .*batch 4 is already decided"):
        find_decision(cluster, QUERY, 3)


def test_a_decided_batch_with_another_input_is_refused():
    cluster = a_cluster_with(QUERY, Decision(batch=4, input_fingerprint="aaaa"))
    with pytest.raises(ConditionError, match="with other input offsets") as caught:
        find_decision(cluster, QUERY, 4, input_fingerprint="bbbb")
    assert f"streamlog group delete {QUERY.decision_group}" in str(caught.value)
    assert find_decision(cluster, QUERY, 4, input_fingerprint="aaaa") is not None
    assert find_decision(cluster, QUERY, 4) is not None, "nothing is known of the input"
    assert find_decision(cluster, QUERY, 5, input_fingerprint="bbbb") is None


def test_a_decision_knows_its_driver():
    driver = TransactionalProducer(transactional_id="d", producer_id=1, producer_epoch=2)
    decision = Decision(batch=0, decided_by=ProducerIdAndEpoch(producer_id=1, producer_epoch=2))
    assert decision.is_by(driver)
    assert not decision.is_by(TransactionalProducer(transactional_id="d", producer_id=1, producer_epoch=3))
    assert not Decision(batch=0).is_by(driver)


def test_the_transactions_of_a_decision_are_encoded_compactly_and_read_back():
    decision = Decision(
        batch=3, task_count=7, attempts={2: 1}, turn=1, idle_tasks=frozenset({0, 1, 5}), epochs=(4, 4, 4, 9)
    )
    stored = encode_decision(decision)
    assert '"turn":1,"idle":"0-1,5","epochs":"4*3,9"' in stored.metadata
    assert decode_decision(stored) == decision
    assert decision.transactions(QUERY) == {
        QUERY.task_id(2, 1, 1): 4,
        QUERY.task_id(3, 0, 1): 4,
        QUERY.task_id(4, 0, 1): 4,
        QUERY.task_id(6, 0, 1): 9,
    }


def test_a_batch_whose_transactions_do_not_fit_the_metadata_is_refused_before_the_decision():
    epochs = tuple(range(2000))
    with pytest.raises(ConditionError, match="STREAMLOG_TOO_MANY_TASKS"):
        encode_decision(Decision(batch=1, task_count=2000, epochs=epochs))


@pytest.mark.parametrize("metadata", ['{"tasks":1,"idle":"0-99999999999"}', '{"tasks":1,"epochs":"1*99999999999"}'])
def test_hand_written_counts_are_bounded(metadata):
    assert decode_decision(GroupOffset(offset=5, metadata=metadata)) == Decision(batch=5)
