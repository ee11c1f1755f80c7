import pytest

from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.group.group_settings import GroupSettings


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("group.min.session.timeout.ms", GroupSettings().min_session_timeout_ms),
        ("group.max.session.timeout.ms", GroupSettings().max_session_timeout_ms),
        ("group.max.size", GroupSettings().max_size),
        ("group.initial.rebalance.delay.ms", GroupSettings().initial_rebalance_delay_ms),
        ("offsets.retention.minutes", GroupSettings().offsets_retention_ms // 60_000),
    ],
)
def test_defaults_match_the_broker_settings(setting, value):
    assert int(BROKER_SETTINGS[setting].default) == value
