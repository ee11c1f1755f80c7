"""Quotas in the metadata log: what is written and what is refused."""

import pytest
from support.controller.small_cluster import SmallCluster

from broker_core.controller.quota_plans import QuotaChange, plan_quota_changes
from broker_core.model.exceptions import InvalidRequestError

ALICE = (("user", "alice"),)


@pytest.fixture
def cluster():
    return SmallCluster()


def change(cluster, entity, **values):
    changes = [QuotaChange(key=key, value=value) for key, value in values.items()]
    cluster.ask(lambda facts: plan_quota_changes(facts.image.client_quotas, entity, changes))
    return {key: dict(quotas) for key, quotas in cluster.image.client_quotas.by_entity.items()}


def test_quotas_are_set_replaced_and_removed(cluster):
    assert change(cluster, ALICE, producer_byte_rate=5.0) == {ALICE: {"producer_byte_rate": 5.0}}
    assert change(cluster, ALICE, producer_byte_rate=6.0, request_percentage=0.5)[ALICE] == {
        "producer_byte_rate": 6.0, "request_percentage": 0.5,
    }  # fmt: skip
    written = len(cluster.log)
    change(cluster, ALICE, producer_byte_rate=6.0, consumer_byte_rate=None)
    assert len(cluster.log) == written
    assert change(cluster, ALICE, producer_byte_rate=None, request_percentage=None) == {}


def test_a_user_and_a_client_id_together_are_another_entity_in_either_order(cluster):
    change(cluster, (("user", "alice"), ("client-id", None)), producer_byte_rate=5.0)
    found = change(cluster, (("client-id", None), ("user", "alice")), consumer_byte_rate=7.0)
    assert found == {(("client-id", None), ("user", "alice")): {"producer_byte_rate": 5.0, "consumer_byte_rate": 7.0}}


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ((), {"producer_byte_rate": 1.0}),
        ((("group", "g"),), {"producer_byte_rate": 1.0}),
        ((("user", ""),), {"producer_byte_rate": 1.0}),
        ((("user", "a"), ("user", "b")), {"producer_byte_rate": 1.0}),
        ((("ip", "::1"), ("user", "b")), {"connection_creation_rate": 1.0}),
        (ALICE, {"connection_creation_rate": 1.0}),
        ((("ip", "::1"),), {"producer_byte_rate": 1.0}),
        (ALICE, {"producer_byte_rate": 0.0}),
        (ALICE, {"producer_byte_rate": -1.0}),
        (ALICE, {"producer_byte_rate": float("nan")}),
        (ALICE, {"producer_byte_rate": 1.5}),
        (ALICE, {"producer_byte_rate": 2.0**64}),
        ((("ip", "::1"),), {"connection_creation_rate": 2.0**31}),
    ],
)
def test_what_is_no_quota_is_refused(cluster, entity, values):
    before = list(cluster.log)
    with pytest.raises(InvalidRequestError):
        change(cluster, entity, **values)
    assert cluster.log == before
