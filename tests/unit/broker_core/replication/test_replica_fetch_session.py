from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from broker_core.fetch.fetch_session import FetchSessionCache, PartitionKey, WantedPartition
from broker_core.replication.replica_fetch_session import ReplicaFetchSession
from broker_core.replication.replica_messages import PartitionId, SessionChanges, replica_fetch_request
from broker_core.replication.replication_values import FetchPosition

TOPIC = UUID(int=7)
P0, P1, P2 = (PartitionId(TOPIC, number) for number in range(3))


def at(fetch_offset, *, leader_epoch=0):
    return FetchPosition(
        leader_epoch=leader_epoch, fetch_offset=fetch_offset, last_fetched_epoch=leader_epoch, log_start_offset=0
    )


def begun(positions):
    session = ReplicaFetchSession()
    session.next_request(positions)
    session.on_answer(41)
    return session


def test_the_first_request_names_all_positions_and_asks_for_a_session():
    request = ReplicaFetchSession().next_request({P0: at(0), P1: at(5)})
    assert request == SessionChanges(session_id=0, epoch=0, positions={P0: at(0), P1: at(5)}, forgotten=frozenset())


def test_later_requests_name_what_is_new_has_moved_or_is_not_fetched_any_more():
    session = begun({P0: at(0), P1: at(5)})
    request = session.next_request({P1: at(8), P2: at(0)})
    assert request == SessionChanges(
        session_id=41, epoch=1, positions={P1: at(8), P2: at(0)}, forgotten=frozenset({P0})
    )
    session.on_answer(41)
    assert session.next_request({P1: at(8), P2: at(0)}) == SessionChanges(
        session_id=41, epoch=2, positions={}, forgotten=frozenset()
    )


def test_without_a_session_of_the_leader_every_request_names_all():
    session = ReplicaFetchSession()
    for _ in range(2):
        request = session.next_request({P0: at(0)})
        assert (request.session_id, request.epoch, request.positions) == (0, 0, {P0: at(0)})
        session.on_answer(0)


def test_a_session_that_ended_is_replaced_by_a_new_one():
    session = begun({P0: at(0), P1: at(5)})
    session.end()
    request = session.next_request({P0: at(0)})
    assert (request.session_id, request.epoch, request.positions) == (41, 0, {P0: at(0)})
    session.on_answer(42)
    assert session.next_request({P0: at(0)}).session_id == 42


def test_another_leader_epoch_begins_a_new_session_since_a_watermark_may_have_been_told_in_vain():
    session = begun({P0: at(0), P1: at(5)})
    request = session.next_request({P0: at(0, leader_epoch=1), P1: at(5)})
    assert (request.epoch, request.positions) == (0, {P0: at(0, leader_epoch=1), P1: at(5)})


def test_the_epoch_after_the_last_is_one():
    session = begun({P0: at(0)})
    session._epoch = 2**31 - 1
    session.on_answer(41)
    assert session.next_request({P0: at(0)}).epoch == 1


def test_the_request_carries_the_session_and_the_forgotten_partitions():
    changes = SessionChanges(session_id=41, epoch=3, positions={P1: at(8)}, forgotten=frozenset({P2, P0}))
    message = replica_fetch_request(
        changes, replica_id=2, broker_epoch=9, max_wait_ms=500, max_bytes=100, partition_max_bytes=10
    )
    assert (message.session_id, message.session_epoch) == (41, 3)
    assert [(topic.topic_id, [each.partition for each in topic.partitions]) for topic in message.topics] == [
        (TOPIC, [1])
    ]
    assert [(topic.topic_id, list(topic.partitions)) for topic in message.forgotten_topics_data] == [(TOPIC, [0, 2])]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("fetch"), st.dictionaries(st.integers(0, 4), st.integers(0, 3), max_size=5)),
        st.tuples(st.sampled_from(["no answer", "leader restarts", "another epoch"])),
    ),
    max_size=25,
)


@pytest.mark.parametrize("session_count", [0, 1])
@given(steps=steps)
def test_what_the_leader_takes_for_wanted_is_what_the_follower_fetches(session_count, steps):
    """The leader's side is the machine that serves clients; it forgets its sessions, and answers get lost."""

    def a_cache():
        return FetchSessionCache(max_session_count=session_count, new_id=iter(range(1, 1000)).__next__)

    cache, session, leader_epoch, is_lost = a_cache(), ReplicaFetchSession(), 0, False
    for step, *wanted in steps:
        if step == "leader restarts":
            cache = a_cache()
        elif step == "another epoch":
            leader_epoch += 1
        elif step == "no answer":
            is_lost = True
        else:
            positions = {
                PartitionId(TOPIC, number): at(offset, leader_epoch=leader_epoch)
                for number, offset in wanted[0].items()
            }
            request = session.next_request(positions)
            context = cache.context_of(
                session_id=request.session_id,
                epoch=request.epoch,
                wanted={PartitionKey(*each): as_wanted(position) for each, position in request.positions.items()},
                forgotten=[PartitionKey(*each) for each in request.forgotten],
                with_topic_ids=True,
                now_ms=0,
            )
            if context.error is not ErrorCode.none or is_lost:
                session.end()
                is_lost = False
            else:
                assert context.wanted == {PartitionKey(*each): as_wanted(at_) for each, at_ in positions.items()}
                session.on_answer(context.session_id)


def as_wanted(position):
    return WantedPartition(
        fetch_offset=position.fetch_offset,
        max_bytes=10,
        current_leader_epoch=position.leader_epoch,
        last_fetched_epoch=position.last_fetched_epoch,
        log_start_offset=position.log_start_offset,
    )
