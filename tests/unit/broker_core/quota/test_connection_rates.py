import pytest

from broker_core.quota.connection_rates import ConnectionRates, plain_address
from broker_core.quota.sampled_rate import QuotaWindow

KEY = "connection_creation_rate"


def rates_of(**bounds):
    rates = ConnectionRates(QuotaWindow())
    rates.learn({(("ip", None if name == "default" else name.replace("_", ".")),): {KEY: bound}
                 for name, bound in bounds.items()})  # fmt: skip
    return rates


def opened(rates, address, count, now_ms=0):
    return [rates.on_connection(address, now_ms) for _ in range(count)]


def test_connections_beyond_the_rate_are_throttled_and_do_not_count():
    rates = ConnectionRates(QuotaWindow())
    rates.learn({(("ip", "10.0.0.1"),): {KEY: 2.0}})
    assert opened(rates, "10.0.0.1", 20) == [0] * 20  # two a second, in the ten seconds of a new window
    assert opened(rates, "10.0.0.1", 2) == [500, 500]  # the 21st: (2.1 - 2) / 2 * 10 s, and the same again
    assert opened(rates, "10.0.0.2", 30) == [0] * 30


def test_the_throttle_time_is_at_most_a_sample_s():
    assert opened(rates_of(default=0.1), "10.0.0.1", 2)[1] == 1_000


def test_an_address_of_its_own_comes_before_the_default():
    rates = ConnectionRates(QuotaWindow())
    rates.learn({(("ip", "10.0.0.1"),): {KEY: 100.0}, (("ip", None),): {KEY: 0.1}})
    assert max(opened(rates, "10.0.0.1", 5)) == 0
    assert max(opened(rates, "10.0.0.2", 5)) > 0


def test_an_address_of_a_dual_stack_socket_is_the_one_that_it_maps():
    rates = ConnectionRates(QuotaWindow())
    rates.learn({(("ip", "10.0.0.1"),): {KEY: 0.1}})
    assert max(opened(rates, "::ffff:10.0.0.1", 2)) > 0


def test_a_removed_quota_limits_nobody():
    rates = rates_of(default=0.1)
    opened(rates, "10.0.0.1", 2)
    rates.learn({})
    assert opened(rates, "10.0.0.1", 9) == [0] * 9


@pytest.mark.parametrize(
    ("given", "plain"),
    [("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("2001:DB8:0::1", "2001:db8::1")],
)
def test_each_address_has_one_text(given, plain):
    assert plain_address(given) == plain


def test_a_host_name_is_no_address():
    with pytest.raises(ValueError, match="localhost"):
        plain_address("localhost")
