"""What settings of a broker change for its groups and transactions; see `test_broker_settings_effects`."""

import pytest
from support.nodes.whole_node import a_node, ask, begin, make_topic, pass_time

from broker_core.protocol.api_table import ApiKey


def of(*names):
    """The test shows what these settings change: `test_broker_settings_all_count` reads them."""
    assert names
    return lambda test: test


def commit(node, metadata=""):
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": metadata}
    fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "",
              "topics": [{"name": "t", "partitions": [partition]}]}  # fmt: skip
    return ask(node, ApiKey.OFFSET_COMMIT, 9, **fields).topics[0].partitions[0].error_code.name


def committed(node):
    asked = [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]
    return ask(node, ApiKey.OFFSET_FETCH, 9, groups=asked).groups[0].topics[0].partitions[0].committed_offset


@of("offset.metadata.max.bytes")
def test_offset_metadata_max_bytes_limits_offset_metadata(tmp_path):
    node = a_node(tmp_path / "log", offset_metadata_max_bytes=3)
    make_topic(node, "t")
    assert [commit(node, "abc"), commit(node, "abcd")] == ["none", "offset_metadata_too_large"]


@of("offsets.retention.minutes", "offsets.retention.check.interval.ms")
def test_offsets_retention_minutes_expires_offsets_of_empty_groups(tmp_path):
    node = a_node(tmp_path / "log", offsets_retention_minutes=1, offsets_retention_check_interval_ms=7000)
    make_topic(node, "t")
    commit(node)
    pass_time(node, 59_000)
    assert committed(node) == 5
    node.clock.time_ms += 1000  # a minute has passed without a check
    assert committed(node) == 5
    pass_time(node, 7000)
    assert committed(node) == -1


def join(node, *, metadata=b""):
    protocols = [{"name": "range", "metadata": metadata}]
    waiting = begin(node, ApiKey.JOIN_GROUP, 3, group_id="g", session_timeout=10_000, rebalance_timeout=10_000,
                    member_id="", protocol_type="consumer", protocols=protocols)  # fmt: skip
    node.jobs.run_all()
    pass_time(node, 0)
    return waiting


@of("group.max.size")
def test_group_max_size_limits_classic_groups(tmp_path):
    node = a_node(tmp_path / "log", group_max_size=1, group_initial_rebalance_delay_ms=0)
    assert join(node).answer.error_code.name == "none"
    assert join(node).answer.error_code.name == "group_max_size_reached"


@of("group.initial.rebalance.delay.ms")
def test_group_initial_rebalance_delay_ms_delays_the_first_rebalance(tmp_path):
    node = a_node(tmp_path / "log", group_initial_rebalance_delay_ms=500)
    first = join(node)
    pass_time(node, 499)
    assert first.answer is None
    pass_time(node, 1)
    assert first.answer.error_code.name == "none"


def heartbeat(node, member_id="m", epoch=0, **fields):
    joining = (
        {"subscribed_topic_names": ["t"], "topic_partitions": [], "rebalance_timeout": 60_000} if not epoch else {}
    )
    return ask(node, ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="g", member_id=member_id, member_epoch=epoch,
               **({"rebalance_timeout": -1, "topic_partitions": None} | joining | fields))  # fmt: skip


def a_node_with_a_topic(path, **settings):
    node = a_node(path, **settings)
    make_topic(node, "t", 2)
    return node


@of("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms")
def test_consumer_members_get_their_heartbeat_interval_and_are_removed_after_the_session_timeout(tmp_path):
    settings = {"group_consumer_heartbeat_interval_ms": 6000, "group_consumer_session_timeout_ms": 50_000}
    node = a_node_with_a_topic(tmp_path / "log", **settings)
    joined = heartbeat(node)
    assert joined.heartbeat_interval.total_seconds() == 6
    pass_time(node, 49_999)
    assert heartbeat(node, epoch=joined.member_epoch).error_code.name == "none"
    pass_time(node, 50_001)
    assert heartbeat(node, epoch=joined.member_epoch).error_code.name == "unknown_member_id"


@of("group.consumer.max.size")
def test_group_consumer_max_size_limits_consumer_groups(tmp_path):
    node = a_node_with_a_topic(tmp_path / "log", group_consumer_max_size=1)
    errors = [heartbeat(node, name).error_code.name for name in ("m", "n")]
    assert errors == ["none", "group_max_size_reached"]


@of("group.consumer.assignors")
def test_the_first_assignor_is_the_default_and_an_unlisted_one_is_refused(tmp_path):
    node = a_node_with_a_topic(tmp_path / "log", group_consumer_assignors="range")
    heartbeat(node)
    (described,) = ask(node, ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["g"]).groups
    assert described.assignor_name == "range"
    assert heartbeat(node, "n", server_assignor="uniform").error_code.name == "unsupported_assignor"


@of("group.consumer.assignment.interval.ms")
def test_the_assignment_interval_separates_target_assignments(tmp_path):
    node = a_node_with_a_topic(tmp_path / "log", group_consumer_assignment_interval_ms=7000)
    heartbeat(node)
    second = heartbeat(node, "n")
    pass_time(node, 6999)
    assert heartbeat(node, "n", second.member_epoch).member_epoch == second.member_epoch
    pass_time(node, 1)
    assert heartbeat(node, "n", second.member_epoch).member_epoch > second.member_epoch


@of("group.consumer.migration.policy")
@pytest.mark.parametrize(("policy", "expected"), [("disabled", "group_id_not_found"), ("upgrade", "none")])
def test_the_migration_policy_allows_a_classic_group_to_upgrade(tmp_path, policy, expected):
    node = a_node_with_a_topic(
        tmp_path / "log", group_consumer_migration_policy=policy, group_initial_rebalance_delay_ms=0
    )
    subscription = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
    joined = join(node, metadata=subscription).answer
    assigned = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2\0\0\0\0\0\0\0\1" + b"\xff\xff\xff\xff"
    ask(node, ApiKey.SYNC_GROUP, 3, group_id="g", generation_id=joined.generation_id, member_id=joined.member_id,
        assignments=[{"member_id": joined.member_id, "assignment": assigned}])  # fmt: skip
    assert heartbeat(node).error_code.name == expected


BOUNDS = {
    "group.consumer.min.session.timeout.ms": ("consumer.session.timeout.ms", 40_000, 39_999),
    "group.consumer.max.session.timeout.ms": ("consumer.session.timeout.ms", 50_000, 50_001),
    "group.consumer.min.heartbeat.interval.ms": ("consumer.heartbeat.interval.ms", 4000, 3999),
    "group.consumer.max.heartbeat.interval.ms": ("consumer.heartbeat.interval.ms", 7000, 7001),
    "group.consumer.min.assignment.interval.ms": ("consumer.assignment.interval.ms", 500, 499),
    "group.consumer.max.assignment.interval.ms": ("consumer.assignment.interval.ms", 2000, 2001),
}


@of(
    "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms",
    "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms",
)  # fmt: skip
@pytest.mark.parametrize("name", BOUNDS)
def test_a_group_setting_must_be_within_the_brokers_bounds(tmp_path, name):
    setting, bound, beyond = BOUNDS[name]
    node = a_node(tmp_path / "log", **{name.replace(".", "_"): bound})

    def alter(value):
        change = {"name": setting, "config_operation": 0, "value": str(value)}
        resources = [{"resource_type": 32, "resource_name": "g", "configs": [change]}]
        return ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources).responses[0].error_code.name

    assert [alter(bound), alter(beyond)] == ["none", "invalid_config"]


def init(node, transactional_id="mine", timeout=1000):
    return ask(node, ApiKey.INIT_PRODUCER_ID, 4, transactional_id=transactional_id, transaction_timeout=timeout,
               producer_id=-1, producer_epoch=-1)  # fmt: skip


def states(node):
    return [each.transaction_state for each in ask(node, ApiKey.LIST_TRANSACTIONS).transaction_states]


@of("transaction.abort.timed.out.transaction.cleanup.interval.ms")
def test_the_abort_interval_checks_for_timed_out_transactions(tmp_path):
    settings = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 30_000}
    node = a_node_with_a_topic(tmp_path / "log", **settings)
    producer = init(node)
    ask(node, ApiKey.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_transactional_id="mine",
        v3_and_below_producer_id=producer.producer_id, v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[{"name": "t", "partitions": [0]}])  # fmt: skip
    pass_time(node, 29_999)
    assert states(node) == ["Ongoing"]
    pass_time(node, 1)
    assert states(node) == ["CompleteAbort"]


@of("transactional.id.expiration.ms", "transaction.remove.expired.transaction.cleanup.interval.ms")
def test_unused_transactional_ids_expire(tmp_path):
    node = a_node(
        tmp_path / "log",
        transactional_id_expiration_ms=10_000,
        transaction_remove_expired_transaction_cleanup_interval_ms=4000,
    )
    init(node)
    pass_time(node, 9000)
    assert states(node) == ["Empty"]
    pass_time(node, 4000)
    assert states(node) == []
