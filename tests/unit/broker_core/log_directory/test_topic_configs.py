from uuid import uuid4

from broker_core.cluster import TopicDescription
from broker_core.log_directory.topic_configs import TopicConfigs
from broker_core.model.topic_defaults import KAFKAS_DEFAULTS, TopicDefaults

DEFAULTS = TopicDefaults(configs={"retention.ms": "1", "segment.ms": "2"}, producer_id_expiration_ms=3)


def a_topic(name="t", **configs):
    return TopicDescription(name=name, topic_id=uuid4(), partition_count=1, configs=configs)


def test_topic_settings_override_the_defaults():
    topic = a_topic(**{"retention.ms": "7"})
    configs = TopicConfigs({"t": topic}.get, lambda: DEFAULTS)
    config = configs.of(topic)
    assert (config.retention_ms, config.segment_ms, config.producer_id_expiration_ms) == (7, 2, 3)


def test_changed_defaults_apply_at_the_next_lookup():
    topic, defaults = a_topic(), [DEFAULTS]
    configs = TopicConfigs({"t": topic}.get, lambda: defaults[0])
    assert (configs.of(topic).segment_ms, configs.of(topic) is configs.of(topic)) == (2, True)
    defaults[0] = TopicDefaults(configs={"segment.ms": "9"})
    assert configs.of(topic).segment_ms == 9


def test_a_description_is_decoded_once_per_change():
    old, new = a_topic(), a_topic(**{"retention.ms": "7"})
    configs = TopicConfigs({"t": new}.get, lambda: KAFKAS_DEFAULTS)
    assert configs.of(old) is configs.of(old)
    assert configs.of(new).retention_ms == 7


def test_topics_deleted_by_other_processes_are_dropped_from_the_cache():
    there = {f"kept-{number}": a_topic(f"kept-{number}") for number in range(100)}
    configs = TopicConfigs(there.get, lambda: KAFKAS_DEFAULTS)
    for topic in there.values():
        configs.of(topic)
    for number in range(2_000):
        configs.of(a_topic(f"gone-{number}"))
    assert len(configs) <= 3 * len(there)
    kept = {topic.name: configs.of(topic) for topic in there.values()}
    assert all(configs.of(topic) is kept[name] for name, topic in there.items())
