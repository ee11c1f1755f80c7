import pytest
from support.clients.transacting import init

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.log_directory.internal_topics import INTERNAL_TOPIC_CONFIGS, require_no_internal_topic
from broker_core.model.exceptions import InvalidTopicNameError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig

INTERNAL = ["__consumer_offsets", "__transaction_state"]


@pytest.fixture
def cluster(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as opened:
        opened.create_topic("t")
        yield opened


def test_an_internal_topic_is_created_at_first_use_with_one_compacted_partition(cluster):
    assert set(cluster.describe_topics()) == {"t"}
    init(cluster, "id")
    cluster.commit_offsets("group", {TopicPartition("t", 0): GroupOffset(offset=0)})
    topics = cluster.describe_topics()
    assert sorted(topics) == [*INTERNAL, "t"]
    for name in INTERNAL:
        assert (topics[name].is_internal, topics[name].partition_count) == (True, 1)
        assert topics[name].configs == INTERNAL_TOPIC_CONFIGS
    config = TopicConfig.from_strings(INTERNAL_TOPIC_CONFIGS)
    assert config.is_compacted and not config.is_deleted_by_retention
    assert config.is_synced_per_batch


def test_concurrent_processes_create_one_internal_topic(cluster, tmp_path):
    with EmbeddedCluster(tmp_path / "log") as other:
        other.describe_topics()
        made = cluster._own().transactions._log._topics
        late = other._own().transactions._log._topics
        made.make("__transaction_state")
        late.make("__transaction_state")
        assert cluster.describe_topics(INTERNAL) == other.describe_topics(INTERNAL)


@pytest.mark.parametrize("name", [*INTERNAL, "__cluster_metadata"])
def test_users_cannot_create_extend_or_write_internal_topics(cluster, name):
    for act in (
        lambda: cluster.create_topic(name),
        lambda: cluster.create_partitions(name, 3),
        lambda: cluster.append(TopicPartition(name, 0), bytearray()),
        lambda: require_no_internal_topic(name, "touch"),
    ):
        with pytest.raises(InvalidTopicNameError, match=f"internal topic {name}: only streamlog itself"):
            act()
    require_no_internal_topic("t", "touch")
