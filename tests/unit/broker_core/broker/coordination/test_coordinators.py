import pytest
from support.nodes.whole_node import a_node, ask, begin, make_topic, pass_time, stop

from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

WANTED = {"cleanup.policy": "compact"}


@pytest.fixture
def node(tmp_path):
    return a_node(tmp_path / "log", group_initial_rebalance_delay_ms=0)


def commit(node, group="g", offset=5):
    partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "",
              "topics": [{"name": "t", "partitions": partitions}]}  # fmt: skip
    return ask(node, ApiKey.OFFSET_COMMIT, 9, **fields).topics[0].partitions[0].error_code.name


def committed(node, group="g"):
    asked = [{"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}]
    return ask(node, ApiKey.OFFSET_FETCH, 9, groups=asked).groups[0].topics[0].partitions[0].committed_offset


def init(node, transactional_id="mine"):
    return ask(node, ApiKey.INIT_PRODUCER_ID, 4, transactional_id=transactional_id, transaction_timeout=60_000,
               producer_id=-1, producer_epoch=-1)  # fmt: skip


def test_a_new_node_has_no_internal_topics(node):
    assert not node.topics.image.topics


def test_internal_topics_are_created_at_first_use_with_one_compacted_partition(node):
    make_topic(node, "t")
    assert commit(node) == "none"
    assert init(node).error_code.name == "none"
    for name in ("__consumer_offsets", "__transaction_state"):
        topic = node.topics.topic(name)
        assert (topic.partition_count, topic.is_internal) == (1, True)
        assert WANTED.items() <= topic.configs.items()


def test_coordinator_state_survives_a_restart(tmp_path, node):
    make_topic(node, "t")
    commit(node, offset=7)
    first = init(node)
    stop(node)
    again = a_node(tmp_path / "log")
    assert committed(again) == 7
    second = init(again)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


def test_a_client_that_auto_creates_an_internal_topic_gets_the_coordinators_settings(node):
    made = []
    node.make_topic_automatically("__consumer_offsets")
    node._coordinators.make_topic("t", partition_count=4, on_reply=made.append, on_error=made.append)
    node.jobs.run_all()
    assert node.topics.topic("__consumer_offsets").partition_count == 1
    assert WANTED.items() <= node.topics.topic("__consumer_offsets").configs.items()
    assert (made[0].partition_count, made[0].configs) == (4, {})
    assert commit(node) == "none"


def test_every_record_is_pinned_only_while_groups_are_loading(tmp_path, node):
    partition = TopicPartition("t", 0)
    make_topic(node, "t")
    commit(node)
    assert node._coordinators.pinned_offset(partition) is None
    stop(node)
    loading = a_node(tmp_path / "log")
    assert loading._coordinators.pinned_offset(partition) is None


def test_deleting_a_topic_removes_its_group_offsets(node):
    make_topic(node, "t")
    commit(node, offset=7)
    ask(node, ApiKey.DELETE_TOPICS, 1, topic_names=["t"], timeout=1000)
    node.jobs.run_all()
    make_topic(node, "t")
    assert committed(node) == -1


def test_offsets_of_a_topic_deleted_by_a_crashed_process_do_not_apply_to_a_recreated_one(tmp_path, node):
    make_topic(node, "t")
    commit(node, offset=7)
    stop(node)
    with EmbeddedCluster(tmp_path / "log") as dying:
        own = dying._own()
        own.folders.remove(own.metadata_log.change(lambda controller: controller.plan_delete_topic("t")))
    again = a_node(tmp_path / "log")
    make_topic(again, "t")
    assert committed(again) == -1
    assert commit(again, offset=3) == "none"
    assert committed(again) == 3


def test_group_settings_come_from_the_broker_configuration(tmp_path):
    node = a_node(tmp_path / "log", group_min_session_timeout_ms=100, group_max_session_timeout_ms=200,
                  group_initial_rebalance_delay_ms=0)  # fmt: skip
    protocols = [{"name": "range", "metadata": b""}]

    def join(timeout):
        waiting = begin(node, ApiKey.JOIN_GROUP, 3, group_id="g", session_timeout=timeout, rebalance_timeout=timeout,
                        member_id="", protocol_type="consumer", protocols=protocols)  # fmt: skip
        node.jobs.run_all()
        pass_time(node, 1)
        return waiting.answer.error_code.name

    assert [join(timeout) for timeout in (99, 201, 150)] == ["invalid_session_timeout"] * 2 + ["none"]


def test_consumer_groups_are_enabled_unless_the_configuration_disables_them(tmp_path):
    beat = {"group_id": "g", "member_id": "m" * 22, "member_epoch": 0, "rebalance_timeout": 1000,
            "subscribed_topic_names": ("t",), "topic_partitions": ()}  # fmt: skip
    codes = {}
    for protocols in ("classic,consumer", "classic"):
        node = a_node(tmp_path / str(len(codes)), group_coordinator_rebalance_protocols=protocols)
        make_topic(node, "t")
        codes[protocols] = ask(node, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **beat).error_code.name
    assert codes == {"classic,consumer": "none", "classic": "unsupported_version"}


def test_transaction_max_timeout_ms_comes_from_the_broker_configuration(tmp_path):
    node = a_node(tmp_path / "log", transaction_max_timeout_ms=1000)
    assert init(node).error_code.name == "invalid_transaction_timeout"


def make_internal(node, name, count):
    """As another version, or a Kafka, has made it."""
    node.topics.create_topic(name, partition_count=count, configs=WANTED, on_reply=lambda _: None, on_error=pytest.fail)
    node.jobs.run_all()


def test_internal_topics_of_many_partitions_are_used_as_they_are(tmp_path, node):
    make_topic(node, "t")
    for name in ("__consumer_offsets", "__transaction_state"):
        make_internal(node, name, 4)
    groups, ids = ["a", "b", "c", "d"], ["e", "f", "g", "h"]  # by Java's hash: in 1, 2, 3 and 0
    for number, group in enumerate(groups):
        assert commit(node, group, number) == "none"
    producers = {each: init(node, each).producer_id for each in ids}
    stop(node)
    again = a_node(tmp_path / "log")
    sizes = {number: again.replicas.get(TopicPartition("__consumer_offsets", number)).bounds for number in range(4)}
    assert [sizes[number].log_end_offset for number in range(4)] == [1, 1, 1, 1]
    assert [committed(again, group) for group in groups] == [0, 1, 2, 3]
    assert {each: init(again, each).producer_id for each in ids} == producers


def test_requests_for_several_groups_and_ids_are_answered_by_their_partitions(node):
    make_topic(node, "t")
    for name in ("__consumer_offsets", "__transaction_state"):
        make_internal(node, name, 4)
    for number, group in enumerate("abcd"):
        commit(node, group, number)
        init(node, group)
    topics = [{"name": "t", "partition_indexes": [0]}]
    fetched = ask(node, ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": each, "topics": topics} for each in "dxa"]).groups
    assert [(each.group_id, each.topics[0].partitions[0].committed_offset) for each in fetched] == [
        ("d", 3), ("x", -1), ("a", 0),
    ]  # fmt: skip
    listed = ask(node, ApiKey.LIST_GROUPS, 4, states_filter=()).groups
    assert sorted(each.group_id for each in listed) == ["a", "b", "c", "d"]
    described = ask(node, ApiKey.DESCRIBE_GROUPS, 5, groups=("b", "x", "d")).groups
    assert [(each.group_id, each.group_state) for each in described] == [("b", "Empty"), ("x", "Dead"), ("d", "Empty")]
    transactions = ask(node, ApiKey.LIST_TRANSACTIONS, 0, state_filters=(), producer_id_filters=()).transaction_states
    assert [each.transactional_id for each in transactions] == ["a", "b", "c", "d"]
    states = ask(node, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=("c", "x", "a")).transaction_states
    assert [(each.transactional_id, each.error_code.name) for each in states] == [
        ("c", "none"), ("x", "transactional_id_not_found"), ("a", "none"),
    ]  # fmt: skip
    deleted = ask(node, ApiKey.DELETE_GROUPS, 2, groups_names=("a", "x", "c")).results
    assert [(each.group_id, each.error_code.name) for each in deleted] == [
        ("a", "none"), ("x", "group_id_not_found"), ("c", "none"),
    ]  # fmt: skip


def test_a_transaction_with_offsets_in_one_of_many_partitions_ends_there(node):
    make_topic(node, "t")
    make_internal(node, "__consumer_offsets", 4)
    given = init(node)
    producer = {"transactional_id": "mine", "producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    asked = {"group_id": "c", "generation_id": -1, "member_id": "", "group_instance_id": None, **producer}
    partitions = [{"partition_index": 0, "committed_offset": 8, "committed_leader_epoch": -1, "committed_metadata": ""}]
    answer = ask(node, ApiKey.TXN_OFFSET_COMMIT, 5, topics=[{"name": "t", "partitions": partitions}], **asked)
    assert answer.topics[0].partitions[0].error_code.name == "none"
    described = ask(node, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=("mine",)).transaction_states[0]
    assert [(each.topic, list(each.partitions)) for each in described.topics] == [("__consumer_offsets", [3])]
    assert committed(node, "c") == -1
    ask(node, ApiKey.END_TXN, 5, committed=True, **producer)
    assert committed(node, "c") == 8


def test_a_broker_adds_the_partition_of_committed_offsets_to_a_transaction_and_a_client_does_not(node):
    """The group's coordinator asks the transaction's, which may be another broker (KIP-890)."""
    make_internal(node, "__consumer_offsets", 4)
    make_internal(node, "__other", 1)
    given = init(node)
    codes = {}
    for name in ("__consumer_offsets", "__transaction_state"):
        topics = [{"name": name, "partitions": [0]}]
        asked = {
            "transactional_id": "mine", "producer_id": given.producer_id, "producer_epoch": given.producer_epoch,
            "verify_only": False, "topics": topics,
        }  # fmt: skip
        several = ask(node, ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=[asked]).results_by_transaction[0]
        codes[name] = several.topic_results[0].results_by_partition[0].partition_error_code.name
    refused = ask(
        node, ApiKey.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_transactional_id="mine",
        v3_and_below_producer_id=given.producer_id, v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[{"name": "__consumer_offsets", "partitions": [0]}],
    )  # fmt: skip
    result = refused.results_by_topic_v3_and_below[0].results_by_partition[0]
    assert codes == {"__consumer_offsets": "none", "__transaction_state": "topic_authorization_failed"}
    assert result.partition_error_code.name == "topic_authorization_failed"
