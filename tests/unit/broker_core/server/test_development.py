from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.server.development import development_settings


def test_the_test_configuration_listens_on_localhost_without_delays():
    config = parse_broker_config(development_settings("/log", port=7))
    assert str(config.listeners[0]) == "PLAINTEXT://127.0.0.1:7"
    assert (config.log_dir, config.group_initial_rebalance_delay_ms, config.notes) == ("/log", 0, ())
