import pytest

from broker_core.quota.sampled_rate import QuotaWindow
from broker_core.quota.token_bucket import TokenBucket

BOUND = 5.0


@pytest.fixture
def bucket():
    return TokenBucket(QuotaWindow(sample_count=11, sample_ms=1_000))


def test_it_is_full_at_the_beginning_with_what_its_window_gets(bucket):
    assert bucket.tokens(BOUND, 123) == 55


def test_it_is_never_more_than_full(bucket):
    bucket.take(1, BOUND, 0)
    assert bucket.tokens(BOUND, 60_000) == 55


def test_it_gets_a_second_s_bound_each_second(bucket):
    bucket.take(55, BOUND, 0)
    assert bucket.tokens(BOUND, 1_500) == 7.5


def test_a_debt_is_paid_with_the_bound(bucket):
    bucket.take(70, BOUND, 0)
    assert bucket.throttle_ms(BOUND, 0) == 3_000  # 15 missing, 5 a second
    assert bucket.throttle_ms(BOUND, 2_900) == 100
    assert bucket.throttle_ms(BOUND, 3_000) == 0


def test_another_bound_counts_from_then_on(bucket):
    bucket.take(55, BOUND, 0)
    assert bucket.tokens(1.0, 2_000) == 2
    bucket.take(4, 1.0, 2_000)
    assert bucket.throttle_ms(0.5, 2_000) == 4_000
