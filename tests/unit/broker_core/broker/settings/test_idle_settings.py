from broker_core.broker.settings.idle_settings import IDLE_SETTINGS, REFUSED_UNLESS_DEFAULT


def test_refused_settings_are_settings_of_kafka():
    assert REFUSED_UNLESS_DEFAULT.keys() <= IDLE_SETTINGS.keys()


def test_an_empty_default_differs_from_a_missing_one():
    assert IDLE_SETTINGS["config.providers"].default == ""
    assert IDLE_SETTINGS["broker.heartbeat.interval.ms"].default == "2000"
    assert IDLE_SETTINGS["create.topic.policy.class.name"].default is None
