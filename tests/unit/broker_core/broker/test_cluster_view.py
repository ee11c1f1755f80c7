import pytest

from broker_core.broker.cluster_view import SingleNodeView
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.identifiers import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
INSIDE, OUTSIDE = BrokerAddress(host="10.0.0.1", port=9092), BrokerAddress(host="broker.example.com", port=443)


@pytest.fixture
def view():
    endpoints = {"INSIDE": INSIDE, "OUTSIDE": OUTSIDE}
    return SingleNodeView(
        cluster_id="c", node_id=7, endpoints=lambda: endpoints, rack="r1", is_offline={T1}.__contains__
    )


def test_a_single_node_is_the_cluster(view):
    assert (view.cluster_id, view.node_id, view.controller, view.brokers) == ("c", 7, 7, (7,))
    assert {view.coordinator_of("__consumer_offsets", key) for key in ("g", "h", "")} == {7}


def test_a_single_node_leads_every_partition_except_offline_ones(view):
    led, offline = view.leader_of(T0), view.leader_of(T1)
    assert (led.leader_id, led.leader_epoch, led.replica_ids, led.in_sync_ids, led.offline_ids) == (
        7,
        0,
        (7,),
        (7,),
        (),
    )
    assert (offline.leader_id, offline.replica_ids, offline.offline_ids) == (-1, (7,), (7,))


def test_clients_get_the_address_of_the_listener_that_they_used(view):
    assert (view.endpoint_of(7, "INSIDE"), view.endpoint_of(7, "OUTSIDE")) == (INSIDE, OUTSIDE)
    with pytest.raises(AssertionError, match="broker 8 is not registered"):
        view.endpoint_of(8, "INSIDE")


def test_the_node_has_the_configured_rack(view):
    assert view.rack_of(7) == "r1"
    with pytest.raises(AssertionError, match="broker 8 is not registered"):
        view.rack_of(8)
