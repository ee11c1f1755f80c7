"""confluent-kafka: the calls of its admin client."""

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from support.clients.confluent_clients import (
    SECONDS,
    a_consumer,
    a_producer,
    an_admin,
    make_topic,
    numbers_of,
    poll_until,
    read_all,
    send,
    values_of,
)


@pytest.fixture(scope="module")
def admin(broker):
    return an_admin(broker)


def code_of(future):
    with pytest.raises(KafkaException) as caught:
        future.result(SECONDS)
    return caught.value.args[0].code()


def config_of(admin, resource):
    return admin.describe_configs([resource])[resource].result(SECONDS)


def topic_config(name, *changes):
    return ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=list(changes))


def test_topics_are_created_described_and_deleted(broker, admin):
    names = [broker.name() for _ in range(2)]
    new = [
        NewTopic(name, num_partitions=count, replication_factor=1) for name, count in zip(names, (1, 3), strict=True)
    ]
    for made in admin.create_topics(new).values():
        assert made.result(SECONDS) is None
    assert code_of(admin.create_topics(new[:1])[names[0]]) == KafkaError.TOPIC_ALREADY_EXISTS
    described = admin.describe_topics(TopicCollection(names))
    found = [described[name].result(SECONDS) for name in names]
    assert [(t.name, len(t.partitions), t.is_internal) for t in found] == [(names[0], 1, False), (names[1], 3, False)]
    assert [p.id for p in found[1].partitions] == [0, 1, 2]
    assert [[node.id for node in p.replicas] for p in found[1].partitions] == [[1], [1], [1]]
    assert [[node.id for node in p.isr] for p in found[1].partitions] == [[1], [1], [1]]
    assert {p.leader.id for p in found[1].partitions} == {1}
    assert found[0].topic_id != found[1].topic_id
    for gone in admin.delete_topics(names).values():
        assert gone.result(SECONDS) is None
    poll_topics = admin.list_topics(timeout=SECONDS).topics
    assert not set(names) & set(poll_topics)
    assert code_of(admin.delete_topics(names[:1])[names[0]]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert code_of(admin.describe_topics(TopicCollection(names[:1]))[names[0]]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_recreated_topic_is_another_topic(broker, admin):
    topic = make_topic(broker)
    send(a_producer(broker), topic, [b"old"])
    before = admin.describe_topics(TopicCollection([topic]))[topic].result(SECONDS).topic_id
    admin.delete_topics([topic])[topic].result(SECONDS)
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(SECONDS)
    assert admin.describe_topics(TopicCollection([topic]))[topic].result(SECONDS).topic_id != before
    send(a_producer(broker), topic, [b"new"])
    assert [(message.offset(), message.value()) for message in read_all(broker, topic)] == [(0, b"new")]


@pytest.mark.parametrize(
    ("name", "given", "code"),
    [
        ("no/slash", {"num_partitions": 1}, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, {"num_partitions": 1}, KafkaError.TOPIC_EXCEPTION),
        ("no-partitions", {"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ("two-copies", {"num_partitions": 1, "replication_factor": 2}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("bad-value", {"num_partitions": 1, "config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
        ("bad-name", {"num_partitions": 1, "config": {"no.such.thing": "1"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_an_invalid_topic_is_refused(admin, name, given, code):
    new = NewTopic(name, **{"replication_factor": 1, **given})
    assert code_of(admin.create_topics([new])[name]) == code
    assert name not in admin.list_topics(timeout=SECONDS).topics


def test_validate_only_creates_no_topic(broker, admin):
    name = broker.name()
    new = NewTopic(name, num_partitions=1, replication_factor=1)
    admin.create_topics([new], validate_only=True)[name].result(SECONDS)
    assert name not in admin.list_topics(timeout=SECONDS).topics


def test_a_topic_takes_the_brokers_partition_count(broker, admin):
    name = broker.name()
    admin.create_topics([NewTopic(name, num_partitions=-1, replication_factor=-1)])[name].result(SECONDS)
    assert len(admin.list_topics(name, SECONDS).topics[name].partitions) == 1


def test_partitions_can_be_added_but_not_removed(broker, admin):
    topic = make_topic(broker)
    send(a_producer(broker), topic, [b"kept"])
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS)
    send(a_producer(broker), topic, [{"value": b"added", "partition": 2}])
    assert [(message.partition(), message.value()) for message in read_all(broker, topic)] == [
        (0, b"kept"),
        (2, b"added"),
    ]
    for count in (2, 3):
        assert code_of(admin.create_partitions([NewPartitions(topic, count)])[topic]) == KafkaError.INVALID_PARTITIONS


def test_a_topics_settings_are_described_with_their_sources(broker, admin):
    topic = make_topic(broker, segment__bytes=1048576)
    found = config_of(admin, topic_config(topic))
    assert (found["segment.bytes"].value, found["segment.bytes"].source) == (
        "1048576",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert (found["cleanup.policy"].value, found["cleanup.policy"].source) == (
        "delete",
        ConfigSource.DEFAULT_CONFIG.value,
    )
    assert found["cleanup.policy"].is_default
    assert not found["segment.bytes"].is_default
    assert {"retention.ms", "max.message.bytes", "min.insync.replicas", "message.timestamp.type"} <= set(found)
    assert (
        code_of(admin.describe_configs([topic_config("no-such-topic")])[topic_config("no-such-topic")])
        == KafkaError.UNKNOWN_TOPIC_OR_PART
    )


def test_settings_are_changed_one_by_one(broker, admin):
    topic = make_topic(broker, cleanup__policy="delete", segment__bytes=1048576)

    def change(name, value, operation):
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = topic_config(topic, entry)
        return admin.incremental_alter_configs([resource])[resource]

    change("segment.bytes", None, AlterConfigOpType.DELETE).result(SECONDS)
    change("max.message.bytes", "2000", AlterConfigOpType.SET).result(SECONDS)
    change("cleanup.policy", "compact", AlterConfigOpType.APPEND).result(SECONDS)
    found = config_of(admin, topic_config(topic))
    assert found["segment.bytes"].value == "1073741824"
    assert found["max.message.bytes"].value == "2000"
    assert sorted(found["cleanup.policy"].value.split(",")) == ["compact", "delete"]
    change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT).result(SECONDS)
    assert config_of(admin, topic_config(topic))["cleanup.policy"].value == "compact"
    assert code_of(change("max.message.bytes", "many", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG
    assert config_of(admin, topic_config(topic))["max.message.bytes"].value == "2000"


def test_a_changed_setting_takes_effect_at_once(broker, admin):
    topic = make_topic(broker)
    producer, refused = a_producer(broker), []
    send(producer, topic, [bytes(5000)])
    resource = topic_config(
        topic, ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    )
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)
    producer.produce(topic, bytes(5000), on_delivery=lambda error, _: refused.append(error.code()))
    producer.flush(SECONDS)
    assert refused == [KafkaError.MSG_SIZE_TOO_LARGE]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_old_way_of_changing_settings_replaces_all_of_them(broker, admin):
    topic = make_topic(broker, segment__bytes=1048576)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={"max.message.bytes": "2000"})
    admin.alter_configs([resource])[resource].result(SECONDS)
    found = config_of(admin, topic_config(topic))
    assert (found["max.message.bytes"].value, found["segment.bytes"].value) == ("2000", "1073741824")


def test_a_brokers_settings_are_described(admin):
    found = config_of(admin, ConfigResource(ConfigResource.Type.BROKER, "1"))
    assert found["num.partitions"].value == "1"
    assert found["node.id"].value == "1"
    assert found["auto.create.topics.enable"].value == "true"
    assert found["node.id"].is_read_only
    assert "s3cret" not in str([entry.value for entry in found.values()])


def test_the_cluster_is_described(broker, admin):
    found = admin.describe_cluster().result(SECONDS)
    assert found.cluster_id == admin.list_topics(timeout=SECONDS).cluster_id
    assert [(node.id, node.host, node.port) for node in found.nodes] == [
        (1, "127.0.0.1", int(broker.bootstrap().split(":")[1]))
    ]
    assert found.controller.id == 1


def test_groups_are_listed_described_and_deleted(broker, admin):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    member = a_consumer(broker, group, client__id="anna")
    member.subscribe([topic])
    poll_until(lambda: numbers_of(member) == [0, 1], member)
    member.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    [listed] = [g for g in admin.list_consumer_groups().result(SECONDS).valid if g.group_id == group]
    assert (listed.state, listed.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC)
    assert not listed.is_simple_consumer_group
    found = admin.describe_consumer_groups([group])[group].result(SECONDS)
    assert (found.state, found.partition_assignor, found.coordinator.id) == (ConsumerGroupState.STABLE, "range", 1)
    [described] = found.members
    assert described.client_id == "anna"
    assert described.host == "/127.0.0.1"
    assert described.member_id == member.memberid()
    assert sorted(described.assignment.topic_partitions) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert code_of(admin.delete_consumer_groups([group])[group]) == KafkaError.NON_EMPTY_GROUP
    member.close()
    assert admin.describe_consumer_groups([group])[group].result(SECONDS).state == ConsumerGroupState.EMPTY
    states = {ConsumerGroupState.STABLE}
    assert group not in [g.group_id for g in admin.list_consumer_groups(states=states).result(SECONDS).valid]
    assert admin.delete_consumer_groups([group])[group].result(SECONDS) is None
    assert group not in [g.group_id for g in admin.list_consumer_groups().result(SECONDS).valid]
    assert code_of(admin.delete_consumer_groups([group])[group]) == KafkaError.GROUP_ID_NOT_FOUND


def test_a_groups_offsets_are_altered_and_listed(broker, admin):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    offsets = [TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 6)]
    altered = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)])[group]
    assert [p.error for p in altered.result(SECONDS).topic_partitions] == [None, None]
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(SECONDS)
    assert [(p.partition, p.offset) for p in sorted(listed.topic_partitions)] == [(0, 5), (1, 6)]


def test_records_are_deleted_up_to_an_offset(broker, admin):
    topic = make_topic(broker)
    send(a_producer(broker), topic, [b"%d" % n for n in range(10)])

    def delete_before(offset):
        where = TopicPartition(topic, 0, offset)
        return admin.delete_records([where])[where]

    assert delete_before(4).result(SECONDS).low_watermark == 4
    assert values_of(broker, topic) == [b"%d" % n for n in range(4, 10)]
    assert code_of(delete_before(11)) == KafkaError.OFFSET_OUT_OF_RANGE
    assert delete_before(-1).result(SECONDS).low_watermark == 10
    assert values_of(broker, topic) == []
    assert send(a_producer(broker), topic, [b"next"])[0].offset() == 10


def test_offsets_are_listed_by_timestamp_and_by_special_values(broker, admin):
    topic, where = make_topic(broker), None
    records = [{"value": b"v", "timestamp": 1000 * n} for n in (1, 5, 3)]
    send(a_producer(broker, linger__ms=0), topic, records)
    where = TopicPartition(topic, 0)
    producer = a_producer(broker, transactional__id=broker.name("x"))
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    send(producer, topic, [{"value": b"open", "timestamp": 2000}])

    def offset_of(spec, **given):
        found = admin.list_offsets({where: spec}, **given)[where].result(SECONDS)
        return found.offset, found.timestamp

    assert offset_of(OffsetSpec.earliest()) == (0, -1)
    assert offset_of(OffsetSpec.latest()) == (4, -1)
    assert offset_of(OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED) == (3, -1)
    assert offset_of(OffsetSpec.max_timestamp()) == (1, 5000)
    assert offset_of(OffsetSpec.for_timestamp(2000)) == (1, 5000)
    assert offset_of(OffsetSpec.for_timestamp(6000)) == (-1, -1)
    producer.abort_transaction(SECONDS)


def test_access_rules_are_created_found_and_deleted(broker, admin):
    topic, prefix = broker.name(), broker.name("prefix")

    def rule(name, pattern, user, operation, permission):
        return AclBinding(ResourceType.TOPIC, name, pattern, user, "*", operation, permission)

    rules = [
        rule(topic, ResourcePatternType.LITERAL, "User:bob", AclOperation.READ, AclPermissionType.ALLOW),
        rule(topic, ResourcePatternType.LITERAL, "User:bob", AclOperation.WRITE, AclPermissionType.DENY),
        rule(prefix, ResourcePatternType.PREFIXED, "User:bob", AclOperation.ALL, AclPermissionType.ALLOW),
    ]
    for made in admin.create_acls(rules).values():
        assert made.result(SECONDS) is None

    def a_filter(name, pattern):
        anything = (None, None, AclOperation.ANY, AclPermissionType.ANY)
        return AclBindingFilter(ResourceType.TOPIC, name, pattern, *anything)

    def found(name, pattern):
        return admin.describe_acls(a_filter(name, pattern)).result(SECONDS)

    by_text = {"key": str}
    assert sorted(found(topic, ResourcePatternType.LITERAL), **by_text) == sorted(rules[:2], **by_text)
    assert found(f"{prefix}-and-more", ResourcePatternType.MATCH) == rules[2:]
    assert found(f"{prefix}-and-more", ResourcePatternType.LITERAL) == []
    asked = a_filter(topic, ResourcePatternType.ANY)
    gone = admin.delete_acls([asked])[asked].result(SECONDS)
    assert sorted(gone, **by_text) == sorted(rules[:2], **by_text)
    assert found(topic, ResourcePatternType.ANY) == []
    asked = a_filter(prefix, ResourcePatternType.ANY)
    assert admin.delete_acls([asked])[asked].result(SECONDS) == rules[2:]


def test_scram_users_are_created_described_and_deleted(broker, admin):
    user = broker.name("user")
    mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)

    def alter(*changes):
        return admin.alter_user_scram_credentials(list(changes))[user]

    def described():
        # A Kafka broker applies its controller's changes a little later.
        try:
            found = admin.describe_user_scram_credentials([user])[user].result(SECONDS)
        except KafkaException as error:
            return error.args[0].code()
        return [(info.mechanism, info.iterations) for info in found.scram_credential_infos]

    def upsertion(mechanism, iterations):
        return UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, iterations), b"sesame")

    # A request may change a user once, even for different mechanisms.
    assert code_of(alter(*[upsertion(m, 4096) for m in mechanisms])) == KafkaError.DUPLICATE_RESOURCE
    for mechanism in mechanisms:
        assert alter(upsertion(mechanism, 4096)).result(SECONDS) is None
    poll_until(lambda: described() == [(mechanism, 4096) for mechanism in mechanisms])
    assert code_of(alter(upsertion(mechanisms[0], 100))) == KafkaError.UNACCEPTABLE_CREDENTIAL
    alter(UserScramCredentialDeletion(user, mechanisms[0])).result(SECONDS)
    poll_until(lambda: described() == [(mechanisms[1], 4096)])
    alter(UserScramCredentialDeletion(user, mechanisms[1])).result(SECONDS)
    poll_until(lambda: described() == KafkaError.RESOURCE_NOT_FOUND)
    assert code_of(alter(UserScramCredentialDeletion(user, mechanisms[1]))) == KafkaError.RESOURCE_NOT_FOUND
