from uuid import UUID

import pytest

from broker_core.group.consumer.consumer_member import ConsumerMember, MemberState, Reconciliation

T, U = UUID(int=1), UUID(int=2)


def a_member(**fields):
    return ConsumerMember(
        **{"member_id": "m", "epoch": 3, "previous_epoch": 3, "assigned": {T: {0: 2, 1: 3}}, **fields}
    )


def step(member, *, epoch=4, target=None, topics=(T, U), changed=False, owned=None, taken=()):
    target = {topic: frozenset(numbers) for topic, numbers in (target or {}).items()}
    towards = Reconciliation(
        target_epoch=epoch,
        target=target,
        topics=frozenset(topics),
        has_subscription_changed=changed,
        owned=None if owned is None else {topic: frozenset(numbers) for topic, numbers in owned.items()},
        is_taken=lambda topic, partition: (topic, partition) in taken,
    )
    return towards.step(member)


def test_a_stable_member_in_the_target_epoch_is_unchanged():
    member = a_member()
    assert step(member, epoch=3, target={U: [0]}) is member


def test_free_partitions_are_assigned_in_the_target_epoch_and_kept_ones_keep_theirs():
    moved = step(a_member(), target={T: [0, 1], U: [5]})
    assert (moved.state, moved.epoch, moved.previous_epoch) == (MemberState.STABLE, 4, 3)
    assert moved.assigned == {T: {0: 2, 1: 3}, U: {5: 4}}


def test_revocation_comes_first_in_the_old_epoch():
    moved = step(a_member(), target={T: [0], U: [5]})
    assert (moved.state, moved.epoch) == (MemberState.UNREVOKED_PARTITIONS, 3)
    assert (moved.assigned, moved.pending_revocation) == ({T: {0: 2}}, {T: {1: 3}})


def test_a_member_that_already_revoked_advances_immediately():
    moved = step(a_member(), target={T: [0], U: [5]}, owned={T: [0]})
    assert (moved.state, moved.epoch, moved.assigned) == (MemberState.STABLE, 4, {T: {0: 2}, U: {5: 4}})


@pytest.mark.parametrize("owned", [None, {T: [0, 1]}, {T: [1]}])
def test_a_member_that_has_not_confirmed_its_revocation_stays_in_its_epoch(owned):
    member = a_member(state=MemberState.UNREVOKED_PARTITIONS, assigned={T: {0: 2}}, pending_revocation={T: {1: 3}})
    assert step(member, target={T: [0]}, owned=owned) is member


def test_a_member_that_revoked_advances_to_the_newest_target():
    member = a_member(state=MemberState.UNREVOKED_PARTITIONS, assigned={T: {0: 2}}, pending_revocation={T: {1: 3}})
    moved = step(member, epoch=7, target={T: [0, 4]}, owned={T: [0]})
    assert (moved.state, moved.epoch, moved.assigned, moved.pending_revocation) == (
        MemberState.STABLE, 7, {T: {0: 2, 4: 7}}, {},
    )  # fmt: skip


def test_a_partition_pending_revocation_may_be_assigned_again():
    member = a_member(state=MemberState.UNREVOKED_PARTITIONS, assigned={T: {0: 2}}, pending_revocation={T: {1: 3}})
    moved = step(member, epoch=7, target={T: [0, 1]}, owned={T: [0]}, taken=[(T, 0), (T, 1)])
    assert (moved.state, moved.assigned) == (MemberState.STABLE, {T: {0: 2, 1: 7}})


def test_partitions_of_another_member_are_awaited_in_the_new_epoch():
    waiting = step(a_member(), target={T: [0, 1], U: [5, 6]}, taken=[(U, 5)])
    assert (waiting.state, waiting.epoch) == (MemberState.UNRELEASED_PARTITIONS, 4)
    assert waiting.assigned[U] == {6: 4}
    done = step(waiting, target={T: [0, 1], U: [5, 6]})
    assert (done.state, done.assigned[U]) == (MemberState.STABLE, {5: 4, 6: 4})


def test_partitions_of_unsubscribed_topics_are_revoked_before_a_new_target():
    member = a_member(assigned={T: {0: 2}, U: {1: 3}})
    moved = step(member, epoch=3, topics=[T], changed=True)
    assert (moved.state, moved.epoch) == (MemberState.UNREVOKED_PARTITIONS, 3)
    assert (moved.assigned, moved.pending_revocation) == ({T: {0: 2}}, {U: {1: 3}})
    gone = step(member, epoch=3, topics=[T], changed=True, owned={T: [0]})
    assert (gone.state, gone.assigned, gone.pending_revocation) == (MemberState.STABLE, {T: {0: 2}}, {})


def test_target_partitions_of_unsubscribed_topics_are_ignored():
    moved = step(a_member(), target={T: [0, 1], U: [5]}, topics=[T])
    assert moved.assigned == {T: {0: 2, 1: 3}}


def test_a_member_in_an_unknown_state_restarts_in_the_target_epoch():
    stored = a_member(state=MemberState.UNKNOWN).current()
    member = ConsumerMember(member_id="m").with_current(stored)
    assert member.state is MemberState.UNKNOWN
    assert ConsumerMember(member_id="m").with_current(a_member().current()) == a_member()
    assert step(member, epoch=9, target={T: [0, 1]}, owned={}).epoch == 9


def test_a_partition_belongs_to_a_member_until_it_is_revoked():
    member = a_member(pending_revocation={U: {4: 2}})
    assert (member.owned_since(T, 1), member.owned_since(U, 4), member.owned_since(U, 5)) == (3, 2, None)
    assert member.owns_only({T: frozenset({1})})
    assert not member.owns_only({U: frozenset({4})})
