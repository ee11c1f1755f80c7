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
