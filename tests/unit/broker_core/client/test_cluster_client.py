import inspect

import pytest
from support.brokers.scripted_broker import ScriptedBroker, offsets_answer

from broker_core.client.cluster_client import ClusterClient, open_remote
from broker_core.cluster import Cluster, KeyRanges
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import NotAvailableRemotelyError, RemoteError
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

T0 = TopicPartition("t", 0)
SETTINGS = parse_client_settings({"bootstrap.servers": "127.0.0.1:1"})


def test_the_client_has_every_method_of_cluster_with_the_same_parameters():
    for name, wanted in inspect.getmembers(Cluster, inspect.isfunction):
        if name.startswith("_"):
            continue
        ours = inspect.signature(getattr(ClusterClient, name))
        assert list(ours.parameters) == list(inspect.signature(wanted).parameters), name


def test_opening_a_client_sends_nothing():
    client = open_remote(SETTINGS)
    assert client.settings is SETTINGS
    client.close()


def test_the_client_is_a_context_manager():
    with open_remote(SETTINGS) as client:
        pass
    with pytest.raises(RemoteError, match="was closed"):
        client.bounds(T0)


def test_a_remote_cluster_skips_nothing_by_keys():
    client = open_remote(SETTINGS)
    assert client.ranges_with_key(T0, b"k", 3, 9) == KeyRanges(ranges=((3, 9),), skipped_bytes=0)
    assert client.ranges_with_key(T0, None, 9, 9) == KeyRanges(ranges=(), skipped_bytes=0)


def test_a_remote_cluster_lists_no_segments():
    with pytest.raises(NotAvailableRemotelyError, match="t-0: brokers do not list segments"):
        open_remote(SETTINGS).describe_segments(T0)


def test_a_restarted_broker_at_the_same_address_is_found_again():
    with ScriptedBroker() as broker:
        broker.topics["t"] = 1
        broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 5)))
        client = broker.client()
        assert client.bounds(T0).high_watermark == 5
        broker.hang_up()
        assert client.bounds(T0).high_watermark == 5
