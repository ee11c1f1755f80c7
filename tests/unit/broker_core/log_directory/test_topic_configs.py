from uuid import uuid4

from broker_core.cluster import TopicDescription
from broker_core.log_directory.topic_configs import TopicConfigs


def a_topic(name="t", **configs):
    return TopicDescription(name=name, topic_id=uuid4(), partition_count=1, configs=configs)


def test_what_a_topic_says_goes_before_the_defaults():
    topic = a_topic(**{"retention.ms": "7"})
    configs = TopicConfigs({"t": topic}.get, {"retention.ms": "1", "segment.ms": "2"})
    assert (configs.of(topic).retention_ms, configs.of(topic).segment_ms) == (7, 2)


def test_a_description_is_decoded_once_and_a_new_one_anew():
    old, new = a_topic(), a_topic(**{"retention.ms": "7"})
    configs = TopicConfigs({"t": new}.get, {})
    assert configs.of(old) is configs.of(old)
    assert configs.of(new).retention_ms == 7


def test_topics_that_others_made_and_deleted_are_not_kept_for_ever():
    there = {f"kept-{number}": a_topic(f"kept-{number}") for number in range(100)}
    configs = TopicConfigs(there.get, {})
    for topic in there.values():
        configs.of(topic)
    for number in range(2_000):
        configs.of(a_topic(f"gone-{number}"))
    assert len(configs) <= 3 * len(there)
    kept = {topic.name: configs.of(topic) for topic in there.values()}
    assert all(configs.of(topic) is kept[name] for name, topic in there.items())
