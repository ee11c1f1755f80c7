"""kafka-python: the calls of its admin client."""

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import (
    ACL,
    AbortTransactionSpec,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    MemberToRemove,
    OffsetSpec,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    TransactionState,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    NoError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.consumer import IsolationLevel
from support.clients.kafka_python_clients import (
    a_consumer,
    a_producer,
    an_admin,
    make_topic,
    numbers_of,
    poll_until,
    read_all,
    send,
    subscribe,
    values_of,
    write,
)


@pytest.fixture(scope="module")
def admin(broker):
    with an_admin(broker) as client:
        yield client


def config_of(admin, name, resource_type=ConfigResourceType.TOPIC, **given):
    found = admin.describe_configs([ConfigResource(resource_type, name)], config_filter="all", **given)
    return found[resource_type.name.lower()][name]


def test_topics_are_created_described_and_deleted(broker, admin):
    names = [broker.name() for _ in range(2)]
    made = admin.create_topics({name: {"num_partitions": 3, "replication_factor": 1} for name in names})
    assert [(t["name"], t["error_code"], t["num_partitions"], t["replication_factor"]) for t in made["topics"]] == [
        (name, 0, 3, 1) for name in names
    ]
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(names[:1])
    found = {topic["name"]: topic for topic in admin.describe_topics(names)}
    assert [sorted(p["partition_index"] for p in found[name]["partitions"]) for name in names] == [[0, 1, 2]] * 2
    assert [[p["leader_id"] for p in found[name]["partitions"]] for name in names] == [[1, 1, 1]] * 2
    assert set(names) <= set(admin.list_topics())
    admin.delete_topics(names)
    poll_until(lambda: not set(names) & set(admin.list_topics()))
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics(names[:1])


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [
        ("no/slash", {"num_partitions": 1}, InvalidTopicError),
        ("no-partitions", {"num_partitions": 0}, InvalidPartitionsError),
        ("two-copies", {"num_partitions": 1, "replication_factor": 2}, InvalidReplicationFactorError),
    ],
)
def test_an_invalid_topic_is_refused(admin, name, given, error):
    with pytest.raises(error):
        admin.create_topics({name: {"replication_factor": 1, **given}})
    assert name not in admin.list_topics()


def test_validate_only_creates_no_topic(broker, admin):
    name = broker.name()
    tried = admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}}, validate_only=True)
    assert [(topic["name"], topic["num_partitions"]) for topic in tried["topics"]] == [(name, 2)]
    assert name not in admin.list_topics()


def test_partitions_can_be_added_but_not_removed(broker, admin):
    topic = make_topic(broker)
    admin.create_partitions({topic: 3})
    write(broker, topic, [{"value": b"added", "partition": 2}])
    assert [(record.partition, record.value) for record in read_all(broker, topic)] == [(2, b"added")]
    for count in (2, 3):
        with pytest.raises(InvalidPartitionsError):
            admin.create_partitions({topic: count})


def test_a_topics_settings_are_described_with_their_sources(broker, admin):
    found = config_of(admin, make_topic(broker, segment__bytes=1048576), include_synonyms=True)
    assert found["segment.bytes"]["value"] == "1048576"
    assert found["segment.bytes"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert found["cleanup.policy"]["value"] == "delete"
    assert found["cleanup.policy"]["config_source"] == "DEFAULT_CONFIG"
    names = [synonym["name"] for synonym in found["segment.bytes"]["synonyms"]]
    assert names == ["segment.bytes", "log.segment.bytes"]


def test_settings_are_changed_one_by_one_and_reset(broker, admin):
    topic = make_topic(broker, segment__bytes=1048576)
    changes = {"max.message.bytes": (AlterConfigOp.SET, "2000"), "segment.bytes": (AlterConfigOp.DELETE, None)}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changes)])
    found = config_of(admin, topic)
    assert (found["max.message.bytes"]["value"], found["segment.bytes"]["value"]) == ("2000", "1073741824")
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": None})])
    assert config_of(admin, topic)["max.message.bytes"]["value"] == "1048588"


def test_the_old_way_of_changing_settings_replaces_all_of_them(broker, admin):
    topic = make_topic(broker, segment__bytes=1048576)
    changes = {"max.message.bytes": "2000", "segment.bytes": "2097152", "retention.ms": "5000"}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changes)], incremental=False)
    found = config_of(admin, topic)
    assert {name: found[name]["value"] for name in changes} == changes


def test_the_cluster_is_described(broker, admin):
    found = admin.describe_cluster()
    port = int(broker.bootstrap().split(":")[1])
    # Kafka returns the advertised host names.
    [node] = found["brokers"]
    assert (node["host"], node["port"]) == ("127.0.0.1", port)
    assert found["controller_id"] == 1
    assert len(found["cluster_id"]) == 22


def test_the_log_directory_is_described(broker, admin):
    topic = make_topic(broker, partition_count=2)
    write(broker, topic, [{"value": bytes(1000), "partition": 1}])
    [described] = admin.describe_log_dirs({topic: [0, 1]})
    [folder] = described["log_dirs"]
    [found] = folder["topics"]
    sizes = {p["partition_index"]: p["partition_size"] for p in found["partitions"]}
    assert (folder["error_code"], found["name"], sorted(sizes), sizes[0]) == (0, topic, [0, 1], 0)
    assert 1000 < sizes[1] < 1200


def test_groups_are_listed_described_and_deleted(broker, admin):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    with a_consumer(broker, group, client_id="anna") as member:
        subscribe(member, topic)
        poll_until(lambda: numbers_of(member) == [0, 1], member)
        member.commit({TopicPartition(topic, 0): OffsetAndMetadata(0, "here", -1)})
        [listed] = [found for found in admin.list_groups() if found["group_id"] == group]
        assert (listed["group_state"], listed["group_type"], listed["protocol_type"]) == (
            "Stable",
            "classic",
            "consumer",
        )
        found = admin.describe_groups([group])[group]
        assert (found["group_state"], found["protocol_type"], found["protocol_data"]) == ("Stable", "consumer", "range")
        [described] = found["members"]
        assert (described["client_id"], described["client_host"]) == ("anna", "/127.0.0.1")
        assert admin.delete_groups([group])[group] == NonEmptyGroupError.__name__
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    assert group not in [found["group_id"] for found in admin.list_groups(states_filter=["Stable"])]
    assert group in [found["group_id"] for found in admin.list_groups(states_filter=["Empty"])]
    assert admin.delete_groups([group])[group] == "OK"
    assert group not in [found["group_id"] for found in admin.list_groups()]
    assert admin.delete_groups([group])[group] == GroupIdNotFoundError.__name__


def test_a_groups_offsets_are_altered_listed_reset_and_deleted(broker, admin):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    write(broker, topic, [{"value": b"%d" % n, "partition": 0} for n in range(5)])
    zero, one = (TopicPartition(topic, number) for number in (0, 1))
    admin.alter_group_offsets(group, {zero: OffsetAndMetadata(3, "m", -1), one: OffsetAndMetadata(0, "", -1)})
    found = admin.list_group_offsets({group: None})[group]
    assert {where: (offset.offset, offset.metadata) for where, offset in found.items()} == {
        zero: (3, "m"),
        one: (0, ""),
    }
    admin.reset_group_offsets(group, {zero: OffsetSpec.LATEST})
    assert admin.list_group_offsets({group: [zero]})[group][zero].offset == 5
    assert admin.delete_group_offsets(group, [zero]) == {zero: NoError}
    assert list(admin.list_group_offsets({group: None})[group]) == [one]


def test_a_static_member_is_removed_by_its_instance_id(broker, admin):
    topic, group = make_topic(broker), broker.name("g")
    with a_consumer(broker, group, group_instance_id="one") as member:
        subscribe(member, topic)
        poll_until(lambda: numbers_of(member) == [0], member)
        # The broker removes the member; the client stays subscribed.
        assert list(admin.remove_group_members(group, [MemberToRemove(group_instance_id="one")]).values()) == [NoError]
        assert admin.describe_groups([group])[group]["members"] == []


def test_records_are_deleted_up_to_an_offset(broker, admin):
    topic = make_topic(broker)
    partition = TopicPartition(topic, 0)
    write(broker, topic, [b"%d" % n for n in range(10)])
    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    assert values_of(broker, topic) == [b"%d" % n for n in range(4, 10)]
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 11})
    assert admin.delete_records({partition: -1})[partition]["low_watermark"] == 10
    assert [record.offset for record in write(broker, topic, [b"next"])] == [10]


def test_offsets_are_listed_by_timestamp_and_by_special_values(broker, admin):
    topic = make_topic(broker)
    partition = TopicPartition(topic, 0)
    write(broker, topic, [{"value": b"v", "timestamp_ms": 1000 * n} for n in (1, 5, 3)])
    with a_producer(broker, transactional_id=broker.name("x")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [{"value": b"open", "timestamp_ms": 2000}])

        def found(spec, isolation=IsolationLevel.READ_UNCOMMITTED):
            at = admin.list_partition_offsets({partition: spec}, isolation_level=isolation)[partition]
            return at.offset, at.timestamp

        assert found(OffsetSpec.EARLIEST) == (0, -1)
        assert found(OffsetSpec.LATEST) == (4, -1)
        assert found(OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED) == (3, -1)
        assert found(OffsetSpec.MAX_TIMESTAMP) == (1, 5000)
        assert found(OffsetSpec.EARLIEST_LOCAL) == (0, -1)
        assert found(2000) == (1, 5000)
        assert found(6000) == (-1, -1)
        producer.abort_transaction()


def test_transactions_and_their_producers_are_listed_and_described(broker, admin):
    topic, name = make_topic(broker), broker.name("x")
    partition = TopicPartition(topic, 0)
    with a_producer(broker, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [b"open"])
        found = admin.describe_transactions([name])[name]
        assert found.state == TransactionState.ONGOING
        assert set(found.topic_partitions) == {partition}
        listed = [one for all_of in admin.list_transactions().values() for one in all_of]
        [mine] = [one for one in listed if one.transactional_id == name]
        assert (mine.state, mine.producer_id) == (TransactionState.ONGOING, found.producer_id)
        [state] = admin.describe_producers([partition])[partition].active_producers
        assert (state.producer_id, state.producer_epoch) == (found.producer_id, found.producer_epoch)
        assert (state.last_sequence, state.current_transaction_start_offset) == (0, 0)
        spec = AbortTransactionSpec(partition, found.producer_id, found.producer_epoch, state.coordinator_epoch)
        admin.abort_transaction(spec)
        assert values_of(broker, topic, isolation_level="read_committed") == []
        assert [s.current_transaction_start_offset for s in admin.describe_producers([partition])[partition][0]] == [-1]
        producer.abort_transaction()
    # EndTxn is answered before the markers are written.
    poll_until(lambda: admin.describe_transactions([name])[name].state != TransactionState.PREPARE_ABORT)
    assert admin.describe_transactions([name])[name].state == TransactionState.COMPLETE_ABORT


def test_access_rules_are_created_found_and_deleted(broker, admin):
    topic = broker.name()
    pattern = ResourcePattern(ResourceType.TOPIC, topic, ACLResourcePatternType.LITERAL)
    rules = [
        ACL("User:bob", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern),
        ACL("User:eve", "*", ACLOperation.ALL, ACLPermissionType.DENY, pattern),
    ]
    made = admin.create_acls(rules)
    assert (set(made["succeeded"]), made["failed"]) == (set(rules), [])
    everything = ResourcePatternFilter(ResourceType.TOPIC, topic, ACLResourcePatternType.ANY)
    asked = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, everything)
    found, error = admin.describe_acls(asked)
    assert (set(found), error) == (set(rules), NoError)
    [(_, gone, error)] = admin.delete_acls([asked])
    assert (set(gone), error) == (set(rules), NoError)
    assert admin.describe_acls(asked)[0] == []


def test_scram_users_are_created_described_and_deleted(broker, admin):
    user, mechanism = broker.name("user"), ScramMechanism.SCRAM_SHA_256

    def described():
        return admin.describe_user_scram_credentials([user])[user]["credential_infos"]

    made = admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(user, mechanism, "sesame", iterations=8192)]
    )
    assert made == {user: None}
    infos = [{"mechanism": mechanism, "iterations": 8192}]
    # A Kafka broker applies its controller's changes a little later.
    poll_until(lambda: described() == infos)
    login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": user, "sasl_plain_password": "sesame"}
    with an_admin(broker, "SASL_PLAINTEXT", **login) as bob:
        assert bob.list_topics() == []
    assert admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, mechanism)]) == {user: None}
    poll_until(lambda: described() == [])
