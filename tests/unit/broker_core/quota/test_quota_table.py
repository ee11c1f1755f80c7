import itertools

import pytest

from broker_core.quota.quota_table import ClientBound, QuotaClient, QuotaTable

KEY = "producer_byte_rate"
ANN, BOB = QuotaClient("ann", "etl"), QuotaClient("bob", "web")

# KIP-55 and Kafka's documentation, the most specific first: entity, and whose records count together.
LEVELS = [
    ({"user": "ann", "client-id": "etl"}, ("ann", "etl")),
    ({"user": "ann", "client-id": None}, ("ann", "etl")),
    ({"user": "ann"}, ("ann", "")),
    ({"user": None, "client-id": "etl"}, ("ann", "etl")),
    ({"user": None, "client-id": None}, ("ann", "etl")),
    ({"user": None}, ("ann", "")),
    ({"client-id": "etl"}, ("", "etl")),
    ({"client-id": None}, ("", "etl")),
]


def table_of(*levels):
    quotas = {
        tuple(sorted(entity.items())): {KEY: float(place + 1)}
        for place, (entity, _) in enumerate(LEVELS)
        if place in levels
    }
    return QuotaTable(KEY, quotas)


@pytest.mark.parametrize("levels", [each for count in range(1, 9) for each in itertools.combinations(range(8), count)])
def test_the_most_specific_of_all_levels_counts(levels):
    assert table_of(*levels).bound_of(ANN) == ClientBound(LEVELS[levels[0]][1], levels[0] + 1.0)


def test_defaults_are_for_everybody_each_for_himself():
    assert table_of(5).bound_of(BOB) == ClientBound(("bob", ""), 6.0)
    assert table_of(7).bound_of(BOB) == ClientBound(("", "web"), 8.0)


def test_who_is_not_named_has_no_bound():
    assert table_of(0, 1, 2, 3, 6).bound_of(BOB) is None


def test_an_empty_client_id_has_only_the_bounds_of_its_user():
    nameless = QuotaClient("ann", "")
    assert table_of(0, 1, 3, 4, 6, 7).bound_of(nameless) is None
    assert table_of(1, 2, 4).bound_of(nameless) == ClientBound(("ann", ""), 3.0)
    assert table_of(4, 5, 7).bound_of(nameless) == ClientBound(("ann", ""), 6.0)


def test_quotas_of_addresses_and_of_other_keys_are_of_no_client():
    quotas = {(("ip", None),): {KEY: 1.0}, (("user", None),): {"consumer_byte_rate": 1.0}}
    table = QuotaTable(KEY, quotas)
    assert not table
    assert table.bound_of(ANN) is None
