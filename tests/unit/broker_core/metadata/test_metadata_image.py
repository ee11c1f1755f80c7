from uuid import UUID

from broker_core.metadata.access_control_list import rule_of
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

T_ID, U_ID = UUID(int=1000), UUID(int=2000)


def an_image(*records):
    image = MetadataImage()
    for record in records:
        image.replay(record)
    return image


def a_topic(name="t", topic_id=T_ID, partition_count=1):
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(a_partition(number, topic_id) for number in range(partition_count)),
    ]


def a_partition(number, topic_id=T_ID):
    return PartitionRecord(partition_id=number, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1)


def a_setting(name, value, *, topic="t", resource_type=2):
    return ConfigRecord(resource_type=resource_type, resource_name=topic, name=name, value=value)


BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def test_an_empty_log_has_no_topics():
    image = an_image()
    assert not image.topics
    assert image.next_producer_id == 0
    assert image.metadata_version is None


def test_a_topic_has_its_partitions_and_settings():
    image = an_image(*a_topic(partition_count=3), a_setting("retention.ms", "7"))
    topic = image.topics["t"]
    assert (topic.topic_id, topic.partition_count, dict(topic.configs)) == (T_ID, 3, {"retention.ms": "7"})
    assert image.topic_by_id(T_ID) is topic


def test_a_setting_is_changed_and_rolled_back():
    image = an_image(*a_topic(), a_setting("a", "1"), a_setting("b", "2"), a_setting("a", "3"), a_setting("b", None))
    assert image.topics["t"].configs == {"a": "3"}


def test_a_returned_description_does_not_change():
    image = an_image(*a_topic(), a_setting("a", "1"))
    before = image.topics["t"]
    for record in (a_setting("a", "2"), a_partition(1)):
        image.replay(record)
    assert (before.configs, before.partition_count) == ({"a": "1"}, 1)


def test_settings_of_brokers_and_unknown_topics_do_not_change_topics():
    image = an_image(*a_topic(), a_setting("a", "1", resource_type=4), a_setting("a", "1", topic="u"))
    assert image.topics["t"].configs == {}
    assert list(image.topics) == ["t"]


def test_a_removed_topic_is_remembered_by_id():
    image = an_image(*a_topic(), RemoveTopicRecord(topic_id=T_ID))
    assert not image.topics
    assert image.topic_by_id(T_ID) is None
    assert image.was_removed(T_ID)
    assert image.topic_that_collides("t") is None


def test_a_recreated_topic_has_a_new_id():
    image = an_image(*a_topic(), a_setting("a", "1"), RemoveTopicRecord(topic_id=T_ID), *a_topic(topic_id=U_ID))
    assert image.topics["t"].topic_id == U_ID
    assert image.topics["t"].configs == {}
    assert not image.was_removed(U_ID)


def test_names_collide_by_dots_and_underscores():
    image = an_image(*a_topic("a.b"))
    assert image.topic_that_collides("a_b") == "a.b"
    assert image.topic_that_collides("a.b") is None
    assert image.topic_that_collides("a-b") is None


def test_internal_topics_are_marked():
    assert an_image(*a_topic("__consumer_offsets")).topics["__consumer_offsets"].is_internal


def test_the_next_producer_id_comes_from_the_newest_record():
    image = an_image(*(ProducerIdsRecord(broker_id=1, next_producer_id=n) for n in (1000, 2000)))
    assert image.next_producer_id == 2000


def test_only_the_metadata_version_level_is_kept():
    image = an_image(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        NoOpRecord(),
    )
    assert image.metadata_version == 30


def test_records_of_a_metadata_transaction_apply_at_its_end():
    image = an_image(BEGIN, *a_topic())
    assert not image.topics
    image.replay(END)
    assert list(image.topics) == ["t"]


def test_records_of_an_aborted_metadata_transaction_never_apply():
    image = an_image(BEGIN, *a_topic(), ABORT, *a_topic("u", U_ID))
    assert list(image.topics) == ["u"]


def test_the_next_controller_drops_an_open_metadata_transaction():
    image = an_image(BEGIN, *a_topic(), BEGIN, *a_topic("u", U_ID))
    image.replay(END)
    assert list(image.topics) == ["u"]


def test_broker_settings_are_kept_by_id():
    image = an_image(
        a_setting("log.retention.ms", "7", topic="", resource_type=4),
        a_setting("log.retention.ms", "8", topic="1", resource_type=4),
        a_setting("x", "9", topic="1", resource_type=4),
        a_setting("log.retention.ms", None, topic="1", resource_type=4),
    )
    assert image.broker_configs == {"": {"log.retention.ms": "7"}, "1": {"x": "9"}}
    image.replay(a_setting("x", None, topic="1", resource_type=4))
    assert image.broker_configs == {"": {"log.retention.ms": "7"}}


def test_group_settings_are_kept_and_returned_mappings_do_not_change():
    image = an_image(a_setting("consumer.session.timeout.ms", "50000", topic="g", resource_type=32))
    before = image.group_configs
    assert before == {"g": {"consumer.session.timeout.ms": "50000"}}
    image.replay(a_setting("consumer.session.timeout.ms", None, topic="g", resource_type=32))
    assert (image.group_configs, image.broker_configs) == ({}, {})
    assert before == {"g": {"consumer.session.timeout.ms": "50000"}}


def test_users_and_acls_are_part_of_the_image_and_its_transactions():
    credential = UserScramCredentialRecord(
        name="ann", mechanism=1, salt=b"s", stored_key=b"st", server_key=b"se", iterations=4096
    )
    rule = AccessControlEntryRecord(
        id=UUID(int=1), resource_type=2, resource_name="t", pattern_type=3, principal="User:ann", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    image = an_image(BEGIN, credential, rule)
    assert image.scram_credentials.users == []
    image.replay(END)
    assert image.scram_credentials.users == ["ann"]
    assert list(image.access_control.rules.values()) == [rule_of(rule)]
    image.replay(RemoveUserScramCredentialRecord(name="ann", mechanism=1))
    image.replay(RemoveAccessControlEntryRecord(id=UUID(int=1)))
    assert image.scram_credentials.users == []
    assert not image.access_control.rules
