import pytest

from broker_core.quota.client_throttle import ClientThrottle, QuotaMeters
from broker_core.quota.quota_table import QuotaClient
from broker_core.quota.sampled_rate import QuotaWindow

ANN, BOB = QuotaClient("ann", "etl"), QuotaClient("bob", "etl")


def a_throttle(**quotas_of_ann):
    throttle = ClientThrottle(QuotaWindow(), QuotaWindow())
    throttle.learn({(("user", "ann"),): quotas_of_ann})
    return throttle


def test_without_quotas_it_is_not_used():
    throttle = ClientThrottle(QuotaWindow(), QuotaWindow())
    assert not throttle.is_used
    throttle.learn({(("ip", None),): {"connection_creation_rate": 1.0}})
    assert not throttle.is_used


def test_a_producer_beyond_its_rate_is_throttled_and_another_one_is_not():
    throttle = a_throttle(producer_byte_rate=1_000.0)
    assert throttle.on_produced(ANN, 10_000, 0) == 0
    assert throttle.on_produced(ANN, 5_000, 0) == 5_000
    assert throttle.on_produced(BOB, 1_000_000, 0) == 0


def test_clients_of_one_user_share_its_quota():
    throttle = a_throttle(producer_byte_rate=1_000.0)
    throttle.on_produced(ANN, 10_000, 0)
    assert throttle.on_produced(ANN._replace(client_id="other"), 10_000, 0) == 10_000


def test_a_changed_quota_counts_what_was_used_before():
    throttle = a_throttle(producer_byte_rate=1_000.0)
    throttle.on_produced(ANN, 10_000, 0)
    throttle.learn({(("user", "ann"),): {"producer_byte_rate": 500.0}})
    assert throttle.on_produced(ANN, 0, 0) == 10_000
    throttle.learn({})
    assert throttle.on_produced(ANN, 10_000_000, 0) == 0
    assert not throttle.is_used


def test_throttled_records_of_a_fetch_are_not_sent_and_do_not_count():
    throttle = a_throttle(consumer_byte_rate=1_000.0)
    assert throttle.most_fetch_bytes(ANN) == 10_000
    assert throttle.on_fetched(ANN, 10_000, 0) == 0
    assert throttle.on_fetched(ANN, 10_000, 0) == 10_000  # 20,000 in 10 s: twice the rate
    assert throttle.on_fetched(ANN, 0, 0) == 0


def test_a_batch_larger_than_the_whole_window_is_sent_when_the_window_is_empty():
    throttle = a_throttle(consumer_byte_rate=1_000.0)
    assert throttle.on_fetched(ANN, 50_000, 0) == 0
    assert throttle.on_fetched(ANN, 50_000, 10_000) > 0
    assert throttle.on_fetched(ANN, 50_000, 11_000) == 0


def test_what_was_not_sent_for_another_reason_is_taken_back():
    throttle = a_throttle(consumer_byte_rate=1_000.0)
    throttle.on_fetched(ANN, 10_000, 0)
    throttle.rollback_fetched(ANN, 10_000, 0)
    assert throttle.on_fetched(ANN, 10_000, 0) == 0


def test_the_share_of_a_thread_s_time_is_limited_and_its_throttle_time_bounded():
    throttle = a_throttle(request_percentage=10.0)
    a_second_ns = 1_000_000_000
    assert throttle.on_handled(ANN, a_second_ns, 0) == 0  # a second in ten: ten percent
    assert throttle.on_handled(ANN, a_second_ns // 20, 0) == 500
    assert throttle.on_handled(ANN, 10 * a_second_ns, 0) == 1_000  # never more than a sample's time


def test_a_strict_mutation_passes_whole_or_is_refused():
    throttle = a_throttle(controller_mutation_rate=1.0)
    charge = throttle.mutations_of(ANN, is_strict=True)
    assert charge.take(11, 0)  # as many as were saved up
    assert charge.take(4, 0)  # the bucket is empty, and not in debt
    assert charge.throttle_ms(0) == 0
    assert not charge.take(1, 0)
    assert charge.throttle_ms(0) == 4_000
    assert charge.throttle_ms(1_500) == 2_500
    assert throttle.mutations_of(ANN, is_strict=True).take(1, 4_000)


def test_an_old_client_s_mutations_all_pass_and_it_is_throttled():
    charge = a_throttle(controller_mutation_rate=1.0).mutations_of(ANN, is_strict=False)
    assert charge.take(15, 0)
    assert charge.throttle_ms(0) == 4_000
    assert charge.take(1, 0)
    assert charge.throttle_ms(0) == 5_000


def test_without_a_mutation_quota_there_is_nothing_to_charge():
    assert a_throttle(producer_byte_rate=1.0).mutations_of(ANN, is_strict=True) is None


@pytest.mark.parametrize(("names", "is_new"), [("aba", False), ("abca", True), ("abaca", False)])
def test_the_meter_that_was_not_used_for_longest_is_dropped(names, is_new):
    meters = QuotaMeters("producer_byte_rate", object, most=2)
    meters.learn({(("user", None),): {"producer_byte_rate": 1.0}})
    first, _ = meters.meter_of(QuotaClient("a", ""))
    for name in names[1:]:
        last, _ = meters.meter_of(QuotaClient(name, ""))
    assert (last is not first) == is_new
