import pytest
from support.nodes.whole_node import a_node, set_quotas, stop

from broker_core.quota.quota_table import QuotaClient

ANONYMOUS = QuotaClient("ANONYMOUS", "test")


@pytest.fixture
def node(tmp_path):
    running = a_node(tmp_path)
    yield running
    stop(running)


def test_the_windows_are_those_of_the_settings(tmp_path):
    node = a_node(
        tmp_path,
        quota_window_num=3,
        quota_window_size_seconds=2,
        controller_quota_window_num=5,
        controller_quota_window_size_seconds=4,
    )
    set_quotas(node, producer_byte_rate=100, controller_mutation_rate=1)
    # 800 bytes in (3 - 1) * 2 s are twice the rate.
    assert node.quotas.clients.on_produced(ANONYMOUS, 800, 0) == 4_000
    charge = node.quotas.clients.mutations_of(ANONYMOUS, is_strict=False)
    charge.take(21, 0)
    assert charge.throttle_ms(0) == 1_000  # 5 * 4 were saved up
    stop(node)


def test_quotas_hold_again_after_a_restart(tmp_path):
    node = a_node(tmp_path)
    set_quotas(node, producer_byte_rate=100)
    stop(node)
    again = a_node(tmp_path)
    assert again.quotas.clients.is_used
    stop(again)


def test_nothing_is_measured_without_quotas(node):
    assert not node.quotas.clients.is_used
    set_quotas(node, producer_byte_rate=100)
    assert node.quotas.clients.is_used
    set_quotas(node, producer_byte_rate=None)
    assert not node.quotas.clients.is_used


def test_a_new_connection_of_an_address_is_throttled(node):
    set_quotas(node, entity=(("ip", "10.0.0.1"),), connection_creation_rate=1)
    assert [node.throttle_ms_of("10.0.0.1", 0) for _ in range(11)] == [0] * 10 + [1_000]
    assert node.throttle_ms_of("10.0.0.2", 0) == 0


def test_another_change_of_the_metadata_keeps_what_was_used(node):
    set_quotas(node, producer_byte_rate=100)
    node.quotas.clients.on_produced(ANONYMOUS, 1_000, 0)
    set_quotas(node, entity=(("user", "ann"),), producer_byte_rate=7)
    assert node.quotas.clients.on_produced(ANONYMOUS, 1_000, 0) == 10_000
