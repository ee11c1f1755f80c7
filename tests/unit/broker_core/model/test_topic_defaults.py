from broker_core.model.topic_defaults import TopicDefaults, dynamic_topic_defaults, topic_defaults


def test_broker_settings_map_to_topic_settings():
    assert topic_defaults({"message.max.bytes": "5", "num.partitions": "3"}) == {"max.message.bytes": "5"}


def test_hours_and_minutes_convert_to_milliseconds():
    assert topic_defaults({"log.retention.minutes": " 3", "log.roll.hours": "+2"}) == {
        "retention.ms": "180000",
        "segment.ms": "7200000",
    }


def test_the_finest_unit_of_a_setting_takes_precedence():
    given = {"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}
    assert topic_defaults(given) == {"retention.ms": "3"}


def test_an_unlimited_value_is_unlimited_in_every_unit():
    assert topic_defaults({"log.retention.hours": "-1"}) == {"retention.ms": "-1"}


def test_topic_values_override_defaults_and_broker_defaults_are_included():
    defaults = TopicDefaults(configs={"retention.ms": "1", "segment.ms": "2"}, producer_id_expiration_ms=3)
    config = defaults.config_of({"retention.ms": "7"})
    assert (config.retention_ms, config.segment_ms, config.producer_id_expiration_ms) == (7, 2, 3)


def test_without_a_broker_stored_node_settings_override_cluster_settings():
    stored = {
        "": {"log.retention.ms": "1", "message.max.bytes": "2", "num.network.threads": "3"},
        "4": {"log.retention.ms": "5"},
        "6": {"log.retention.ms": "7"},
    }
    assert dynamic_topic_defaults(stored, 4).configs == {"retention.ms": "5", "max.message.bytes": "2"}
    assert dynamic_topic_defaults(stored, 9).configs == {"retention.ms": "1", "max.message.bytes": "2"}
    assert dynamic_topic_defaults({"": {"log.retention.ms": "soon"}}, 1).config_of({}).retention_ms == 604_800_000
