import tracemalloc
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.metadata.metadata_records import PartitionChangeRecord
from broker_core.metadata.partition_state import NO_LEADER, PartitionState, changed_state
from broker_core.metadata.partition_table import PartitionTable
from broker_core.model.exceptions import InconsistentMetadataError
from broker_core.model.limits import MAX_PARTITION_ID

TOPICS = [UUID(int=1000 + n) for n in range(3)]
DIRECTORIES = [UUID(int=500 + n) for n in range(3)]
epochs = st.integers(0, 9) | st.integers(2**31 - 2, 2**31 - 1)
brokers = st.lists(st.sampled_from((1, 2, 3, 900)), unique=True, max_size=3).map(tuple)


@st.composite
def states(draw):
    replicas = draw(brokers)
    return PartitionState(
        replicas=replicas, directories=tuple(draw(st.sampled_from(DIRECTORIES)) for _ in replicas), isr=draw(brokers),
        removing_replicas=draw(brokers), adding_replicas=draw(brokers), eligible_leader_replicas=draw(brokers),
        last_known_elr=draw(brokers), leader=draw(st.sampled_from((NO_LEADER, 1, 2, 900))),
        leader_recovery_state=draw(st.sampled_from((0, 1))), leader_epoch=draw(epochs),
        partition_epoch=draw(epochs),
    )  # fmt: skip


changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(TOPICS), st.integers(0, 5), states()),
        st.tuples(st.sampled_from(("add", "remove")), st.sampled_from(TOPICS), st.none(), st.none()),
    ),
    max_size=30,
)


def after(changes):
    """The table after the changes, and what a dictionary says of them."""
    table, expected = PartitionTable(), {}
    for what, topic, number, state in changes:
        if what == "remove":
            table.remove_topic(topic)
            expected.pop(topic, None)
        elif what == "add":
            table.add_topic(topic)
            expected[topic] = {}
        elif topic in expected:
            table.put(topic, number, state)
            expected[topic][number] = state
    return table, expected


def places(table, rows):
    return {table.partition_at(row) for row in rows}


@examples(30)
@given(changes)
def test_after_any_history_it_has_the_partitions_that_a_dictionary_has(changes):
    table, expected = after(changes)
    assert len(table) == sum(map(len, expected.values()))
    for topic in TOPICS:
        found = {number: table.state_at(row) for number, row in table.rows_of(topic)}
        assert found == expected.get(topic, {})


@examples(30)
@given(changes)
def test_after_any_history_the_indexes_say_what_the_partitions_say(changes):
    table, expected = after(changes)
    everything = {(t, n): state for t, partitions in expected.items() for n, state in partitions.items()}
    for broker in (1, 2, 3, 900):
        assert places(table, table.held_by(broker)) == {p for p, s in everything.items() if broker in s.replicas}
        assert places(table, table.led_by(broker)) == {p for p, s in everything.items() if broker == s.leader}
    assert places(table, table.leaderless) == {p for p, s in everything.items() if s.leader == NO_LEADER}
    assert places(table, table.reassigning) == {p for p, s in everything.items() if s.is_reassigning}
    assert places(table, table.with_eligible_leaders) == {
        p for p, s in everything.items() if s.eligible_leader_replicas
    }


def changes_of(draw_list):
    return st.builds(
        PartitionChangeRecord, partition_id=st.just(0), topic_id=st.just(TOPICS[0]), isr=draw_list,
        removing_replicas=draw_list, adding_replicas=draw_list, eligible_leader_replicas=draw_list,
        last_known_elr=draw_list, leader=st.sampled_from((-2, NO_LEADER, 1, 900)),
        leader_recovery_state=st.sampled_from((-1, -1, 0, 1)), replicas=st.none() | brokers,
    )  # fmt: skip


@examples(100)
@given(states(), changes_of(st.none() | brokers))
def test_a_change_in_place_makes_what_a_new_state_would_be(state, record):
    table, expected = PartitionTable(), PartitionTable()
    for each in (table, expected):
        each.add_topic(TOPICS[0])
        each.put(TOPICS[0], 0, state)
    try:
        expected.put(TOPICS[0], 0, changed_state(state, record))
    except InconsistentMetadataError:
        with pytest.raises(InconsistentMetadataError):
            table.change(0, record)
    else:
        table.change(0, record)
    assert table == expected
    for broker in (1, 2, 3, 900):
        assert list(table.held_by(broker)) == list(expected.held_by(broker))
        assert list(table.led_by(broker)) == list(expected.led_by(broker))
    for index in ("leaderless", "reassigning", "with_eligible_leaders"):
        assert list(getattr(table, index)) == list(getattr(expected, index)), index


@examples(20)
@given(changes, changes)
def test_a_copy_does_not_see_what_happens_later(changes, later):
    table, _ = after(changes)
    again, _ = after(changes)
    copied = table.copy()
    assert copied == table
    for topic in TOPICS:
        table.remove_topic(topic)
    for what, topic, number, state in later:
        if what == "put":
            table.add_topic(topic)
            table.put(topic, number, state)
    assert copied == again


def a_state(number):
    replicas = ((1, 2, 3), (2, 3, 1), (3, 1, 2))[number % 3]
    return PartitionState(replicas=replicas, directories=tuple(DIRECTORIES), isr=replicas, leader=replicas[0])


def test_a_partition_takes_at_most_80_bytes():
    """100,000 partitions of factor 3 on three brokers; the record that each one was made of is gone."""
    count = 10_000
    table = PartitionTable()
    tracemalloc.start()
    for topic in range(count // 100):
        topic_id = UUID(int=topic + 1000)
        table.add_topic(topic_id)
        for number in range(100):
            table.put(topic_id, number, a_state(number))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == count
    assert taken / count < 80, f"{taken / count:.1f} bytes"


def test_rows_of_removed_topics_are_used_again():
    table = PartitionTable()
    for _ in range(50):
        table.add_topic(TOPICS[0])
        rows = {table.put(TOPICS[0], number, a_state(number)) for number in range(4)}
        assert rows == set(range(4))
        table.remove_topic(TOPICS[0])
    assert len(table) == 0


@pytest.mark.parametrize("number", [-1, MAX_PARTITION_ID + 1])
def test_a_partition_number_out_of_bounds_is_refused_before_any_change(number):
    table = PartitionTable()
    table.add_topic(TOPICS[0])
    with pytest.raises(InconsistentMetadataError, match=f"partition {number} of topic"):
        table.put(TOPICS[0], number, a_state(0))
    assert table.count_of(TOPICS[0]) == 0


def test_the_highest_partition_number_is_a_partition():
    table = PartitionTable()
    table.add_topic(TOPICS[0])
    row = table.put(TOPICS[0], MAX_PARTITION_ID, a_state(0))
    assert table.partition_at(row) == (TOPICS[0], MAX_PARTITION_ID)
