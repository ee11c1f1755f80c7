"""Stories of brokers and a controller from seeds keep the invariants, and a controller with a planted bug does not."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controller import controller_story
from support.controller.controller_story import a_story
from support.runs.examples import examples

from broker_core.controller import (
    broker_life,
    broker_registrations,
    isr_changes,
    partition_change,
    producer_id_plans,
)
from broker_core.controller.broker_life import BrokerState, BrokerWish
from broker_core.controller.broker_sessions import BrokerSessions
from broker_core.controller.cluster_controller import ClusterController, SendAnswer
from broker_core.controller.cluster_facts import ClusterFacts
from broker_core.metadata.metadata_records import ProducerIdsRecord

SEEDS = (94, 200, *range(1_500))
"""Those that notice the two rarest bugs come first, to save time."""


@examples(100)
@given(seed=st.integers(0, 2**32))
def test_stories_keep_the_invariants(seed):
    a_story(seed)


# Planted bugs: name, where it is, what is there instead


def answers_before_commit(monkeypatch):
    monkeypatch.setattr(ClusterController, "_release", lambda self: _release_all(self))


def _release_all(controller):
    while controller._held:
        held = controller._held.popleft()
        controller._effects.append(SendAnswer(request_id=held.request_id, reply=held.reply))


def fences_without_leaving_the_isr(monkeypatch):
    monkeypatch.setattr(broker_registrations, "plan_removal", lambda facts, broker_id: [])


def trusts_who_was_shut_down_uncleanly(monkeypatch):
    monkeypatch.setattr(broker_registrations, "plan_unclean_removal", broker_registrations.plan_removal)


def elects_who_does_not_live(monkeypatch):
    monkeypatch.setattr(
        ClusterFacts, "is_active", lambda self, broker_id: broker_id in self.image.registrations.brokers
    )


def lets_anybody_join_an_isr(monkeypatch):
    monkeypatch.setattr(isr_changes, "_is_eligible", lambda facts, broker_id, epoch: True)


def takes_changes_of_an_older_partition_epoch(monkeypatch):
    judge = isr_changes._error_of

    def without_epoch(facts, state, proposal):
        newer = replace(
            proposal,
            partition_epoch=max(proposal.partition_epoch, state.partition_epoch),
            leader_epoch=max(proposal.leader_epoch, state.leader_epoch),
        )
        return judge(facts, state, newer)

    monkeypatch.setattr(isr_changes, "_error_of", without_epoch)


def unfences_who_is_behind(monkeypatch):
    table = broker_life.TRANSITIONS
    row = {**table[BrokerState.FENCED], BrokerWish.RUN: ((broker_life.Guard.ALWAYS, BrokerState.UNFENCED),)}
    monkeypatch.setattr(broker_life, "TRANSITIONS", {**table, BrokerState.FENCED: row})


def lets_go_before_others_know(monkeypatch):
    monkeypatch.setattr(ClusterController, "is_shutdown_known", lambda self, broker_id: True)


def hears_earlier_registrations(monkeypatch):
    def check(facts, broker_id, broker_epoch):
        return facts.image.registrations.brokers[broker_id]

    monkeypatch.setattr(broker_registrations, "check_broker_epoch", check)


def takes_two_processes_with_one_id(monkeypatch):
    monkeypatch.setattr(BrokerSessions, "keeps_id", lambda self, broker_id, broker_epoch, now_ms: False)


def begins_no_sessions_after_a_failover(monkeypatch):
    monkeypatch.setattr(BrokerSessions, "begin", lambda self, broker_id, broker_epoch, now_ms: None)


def keeps_eligible_who_is_in_sync(monkeypatch):
    def choose(self):
        self._eligible = tuple(sorted({*self._state.eligible_leader_replicas, *self._state.isr}))

    monkeypatch.setattr(partition_change._Draft, "choose_eligible", choose)


def forgets_that_an_election_was_unclean(monkeypatch):
    monkeypatch.setattr(partition_change, "RECOVERING", 0)


def elects_the_first_replica_whatever_it_has(monkeypatch):
    monkeypatch.setattr(partition_change._Draft, "_may_lead", lambda self, replica: replica in self._replicas)


def gives_producer_ids_twice(monkeypatch):
    def plan(facts, broker_id, broker_epoch):
        result = producer_id_plans.plan_producer_ids(facts, broker_id, broker_epoch)
        record = ProducerIdsRecord(broker_id=broker_id, next_producer_id=facts.image.next_producer_id)
        return replace(result, records=(record,))

    monkeypatch.setattr(controller_story, "plan_producer_ids", plan)


def writes_where_it_does_not_replay(monkeypatch):
    replay = ClusterController._replay

    def forgetful(self, batch):
        replay(self, [record for record in batch if getattr(record, "fenced", 0) != 1])

    monkeypatch.setattr(ClusterController, "_replay", forgetful)


BUGS = [
    answers_before_commit, fences_without_leaving_the_isr, trusts_who_was_shut_down_uncleanly, elects_who_does_not_live,
    lets_anybody_join_an_isr, takes_changes_of_an_older_partition_epoch, unfences_who_is_behind,
    lets_go_before_others_know, hears_earlier_registrations, takes_two_processes_with_one_id,
    begins_no_sessions_after_a_failover, keeps_eligible_who_is_in_sync, forgets_that_an_election_was_unclean,
    elects_the_first_replica_whatever_it_has, gives_producer_ids_twice, writes_where_it_does_not_replay,
]  # fmt: skip


@contextmanager
def planted(bug):
    with pytest.MonkeyPatch.context() as monkeypatch:
        bug(monkeypatch)
        yield


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_caught(bug):
    with planted(bug):
        for seed in SEEDS:
            try:
                a_story(seed)
            except Exception:
                return
    raise AssertionError(f"{len(SEEDS)} stories did not notice: {bug.__name__}")
