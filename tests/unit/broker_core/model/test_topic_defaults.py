from broker_core.model.topic_defaults import topic_defaults


def test_a_setting_of_the_broker_is_one_of_its_topics_by_another_name():
    assert topic_defaults({"message.max.bytes": "5", "num.partitions": "3"}) == {"max.message.bytes": "5"}


def test_hours_and_minutes_become_milliseconds():
    assert topic_defaults({"log.retention.minutes": " 3", "log.roll.hours": "+2"}) == {
        "retention.ms": "180000",
        "segment.ms": "7200000",
    }


def test_of_several_units_the_finest_counts():
    given = {"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}
    assert topic_defaults(given) == {"retention.ms": "3"}


def test_no_bound_is_none_in_every_unit():
    assert topic_defaults({"log.retention.hours": "-1"}) == {"retention.ms": "-1"}
