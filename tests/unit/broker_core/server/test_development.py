from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.server.development import development_settings


def test_it_is_a_configuration_of_this_machine_only_without_waiting():
    config = parse_broker_config(development_settings("/log", port=7))
    assert str(config.listeners[0]) == "PLAINTEXT://127.0.0.1:7"
    assert (config.log_dir, config.group_initial_rebalance_delay_ms, config.notes) == ("/log", 0, ())
