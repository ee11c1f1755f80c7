import pytest

from broker_core.quota.sampled_rate import QuotaWindow, SampledRate

ELEVEN_SECONDS = QuotaWindow()
"""Kafka's default: eleven samples of a second, so a new rate spans ten."""


def test_a_first_record_counts_over_all_but_one_of_the_samples():
    rate = SampledRate(ELEVEN_SECONDS)
    rate.record(20_000, 5_000)
    assert rate.per_second(5_000) == 2_000


def test_a_rate_at_its_bound_is_not_throttled():
    rate = SampledRate(ELEVEN_SECONDS)
    rate.record(20_000, 5_000)
    assert rate.throttle_ms(2_000, 5_000) == 0


@pytest.mark.parametrize(
    ("bound", "throttle_ms"),
    [
        (1_000, 10_000),  # 20,000 in 10 s is 2,000 a second; in 20 s it is 1,000
        (1_900, 526),  # (2,000 - 1,900) / 1,900 * 10,000 = 526.3
        (1_990, 50),
        (1, 19_990_000),
    ],
)
def test_after_the_throttle_time_the_rate_would_be_at_its_bound(bound, throttle_ms):
    rate = SampledRate(ELEVEN_SECONDS)
    rate.record(20_000, 5_000)
    assert rate.throttle_ms(bound, 5_000) == throttle_ms


def test_the_span_grows_with_the_time_that_the_samples_cover():
    rate = SampledRate(ELEVEN_SECONDS)
    for second in range(11):
        rate.record(1_000, second * 1_000)
    # The oldest began 10,500 ms ago: ten whole seconds and a half.
    assert rate.per_second(10_500) == pytest.approx(11_000 / 10.5)


def test_records_leave_the_window_with_their_sample():
    rate = SampledRate(ELEVEN_SECONDS)
    rate.record(5_000, 0)
    rate.record(1_000, 5_000)
    assert rate.total(10_999) == 6_000
    assert rate.total(11_000) == 1_000
    assert rate.total(16_000) == 0


def test_a_sample_stays_while_its_last_record_is_in_the_window():
    rate = SampledRate(ELEVEN_SECONDS)
    rate.record(1, 0)
    rate.record(1, 999)
    assert rate.total(11_500) == 2


def test_samples_are_used_again_after_more_than_the_window():
    rate = SampledRate(QuotaWindow(sample_count=2, sample_ms=1_000))
    for second in range(10):
        rate.record(10, second * 1_000)
    # Two samples and the one that may overlap the beginning, of which the oldest is too old by now.
    assert rate.total(9_000) == 20
    assert rate.per_second(9_000) == 20


def test_what_is_taken_back_does_not_count():
    rate = SampledRate(ELEVEN_SECONDS)
    rate.record(20_000, 0)
    rate.record(-20_000, 0)
    assert rate.throttle_ms(1, 0) == 0


def test_a_single_sample_spans_at_least_a_millisecond():
    rate = SampledRate(QuotaWindow(sample_count=1, sample_ms=1_000))
    rate.record(3, 7)
    assert rate.per_second(7) == 3_000
