"""KIP-360 as a real Kafka 4.3.1 answered it, request by request."""

import pytest
from support.nodes.coordinator_runner import ORDERS, TransactionRunner

from broker_core.cluster import TransactionalProducer
from broker_core.model.exceptions import ProducerFencedError
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.txn.producer_renewal import Renewal, check_expected_id


class RenewingRunner(TransactionRunner):
    """Remembers the last renewal, as the owner of the coordinator does."""

    last = None

    def renew(self, producer_id, producer_epoch):
        """The epoch that is given, None while something is ended first."""
        asked = ProducerIdAndEpoch(producer_id=producer_id, producer_epoch=producer_epoch)
        given = self.run(
            self.coordinator.plan_init_producer(
                "t",
                timeout_ms=60_000,
                is_two_phase=False,
                new_producer_id=self.new_producer_id,
                now_ms=self.now_ms,
                expected=asked,
                last_renewal=self.last,
            )
        ).producer
        if given is None:
            self.complete()
            return None
        if given != asked:
            self.last = Renewal(asked=asked, given=given)
        return given.producer_id, given.producer_epoch

    def is_fenced(self, *who):
        with pytest.raises(ProducerFencedError, match="a newer instance took over"):
            self.renew(*who)
        return True


@pytest.fixture
def runner():
    runner = RenewingRunner()
    runner.init()
    return runner


def owner(runner):
    described = runner.describe()
    return TransactionalProducer(
        transactional_id="t", producer_id=described.producer_id, producer_epoch=described.producer_epoch
    )


def test_the_newest_instance_gets_the_next_epoch_and_a_retry_the_same_one(runner):
    assert [runner.renew(1000, 0) for _ in range(3)] == [(1000, 1)] * 3
    assert runner.renew(1000, 1) == (1000, 2)
    assert runner.is_fenced(1000, 0)
    assert runner.is_fenced(1000, 9)
    assert runner.is_fenced(1009, 2)


def test_an_instance_without_a_producer_id_takes_over_and_fences(runner):
    runner.renew(1000, 0)
    runner.last = None  # as the service forgets it
    assert runner.init().producer_epoch == 2
    assert runner.is_fenced(1000, 1)


def test_an_unknown_transactional_id_accepts_any_expected_producer(runner):
    runner.coordinator = type(runner.coordinator)()
    assert runner.renew(77, 3) == (1001, 0)


def test_an_open_transaction_is_aborted_first_and_its_producer_continues_with_the_bumped_epoch(runner):
    runner.add(owner(runner), ORDERS[0])
    assert runner.renew(1000, 0) is None
    assert runner.describe().state.label == "CompleteAbort"
    assert [runner.renew(1000, 0) for _ in range(2)] == [(1000, 1)] * 2
    runner.add(owner(runner), ORDERS[0])
    assert runner.renew(1000, 0) is None, "a stale one, too"
    assert runner.is_fenced(1000, 0)
    assert runner.renew(1000, 1) == (1000, 2)


def test_after_its_own_end_a_producer_gets_the_epoch_of_that_end(runner):
    runner.add(owner(runner), ORDERS[0])
    runner.end(owner(runner))
    assert runner.renew(1000, 0) == (1000, 1)
    assert runner.renew(1000, 1) == (1000, 2)


def test_an_end_without_an_epoch_bump_is_not_a_renewal(runner):
    runner.add(owner(runner), ORDERS[0])
    result = runner.coordinator.plan_end(
        [owner(runner)], commit=True, new_producer_id=runner.new_producer_id, now_ms=0, client_version=0
    )
    runner.run(result)
    runner.complete()
    assert runner.is_fenced(1000, -1)
    assert runner.renew(1000, 0) == (1000, 1)


def test_the_last_epoch_continues_with_a_new_producer_id(runner):
    runner.climb("t", 32_766)
    assert runner.renew(1000, 32_766) == (1001, 0)
    assert runner.renew(1000, 32_766) == (1001, 0)
    assert runner.renew(1001, 0) == (1001, 1)


def test_an_end_with_the_last_epoch_advances_to_the_new_producer_id(runner):
    runner.climb("t", 32_766)
    runner.add(owner(runner), ORDERS[0])
    runner.end(owner(runner))
    assert runner.renew(1000, 32_766) == (1001, 0)


def test_the_previous_producer_id_is_recognized_only_with_its_last_epoch(runner):
    runner.climb("t", 32_766)
    runner.renew(1000, 32_766)
    value = runner.coordinator.value("t")
    check_expected_id("t", value, ProducerIdAndEpoch(producer_id=1000, producer_epoch=32_766))
    with pytest.raises(ProducerFencedError):
        check_expected_id("t", value, ProducerIdAndEpoch(producer_id=1000, producer_epoch=32_765))
