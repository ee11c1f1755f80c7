"""A topic that was deleted and created again, at every door: what belongs to the old one does not get into the new."""

import pyarrow as pa
import pytest
from support.builders.builders import SOME_TIME_MS, a_batch
from support.objects.object_builders import MemoryLog

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.cluster_client import open_remote
from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import TopicRecreatedError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey
from broker_core.server.broker_thread import BrokerThread
from broker_core.server.development import development_settings
from broker_core.topic_producer import TopicProducer, describe_or_create

T0 = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    settings = development_settings(str(tmp_path_factory.mktemp("broker")), port=0)
    with BrokerThread(parse_broker_config(settings)) as running:
        yield running


@pytest.fixture(params=["directory", "objects", "broker", "broker without ids in requests"])
def cluster(request, tmp_path, monkeypatch):
    if request.param == "directory":
        opened = open_embedded(tmp_path / "log", create=True)
    elif request.param == "objects":
        opened = MemoryLog().open()
    else:
        opened = open_remote(
            parse_client_settings({"bootstrap.servers": request.getfixturevalue("broker").bootstrap_servers})
        )
    if request.param == "broker without ids in requests":
        supports = BrokerConnection.supports
        by_id = {(ApiKey.PRODUCE, 13), (ApiKey.FETCH, 13), (ApiKey.OFFSET_COMMIT, 10)}
        monkeypatch.setattr(
            BrokerConnection, "supports", lambda self, *asked: asked not in by_id and supports(self, *asked)
        )
    with opened:
        if "t" in opened.describe_topics(["t"]):
            opened.delete_topic("t")
        yield opened


def end(cluster):
    return cluster.bounds(T0).log_end_offset


def test_an_append_with_the_id_of_the_old_topic_is_refused(cluster):
    old_id = cluster.create_topic("t", configs={"retention.ms": "-1"}).topic_id
    assert cluster.append(T0, a_batch(2), topic_id=old_id).last_offset == 1
    cluster.delete_topic("t")
    new_id = cluster.create_topic("t", configs={"retention.ms": "-1"}).topic_id
    with pytest.raises(TopicRecreatedError, match="'t' was deleted and created again"):
        cluster.append(T0, a_batch(1), topic_id=old_id)
    assert end(cluster) == 0
    cluster.append(T0, a_batch(1), topic_id=new_id)
    cluster.append(T0, a_batch(1))
    assert end(cluster) == 2


def test_a_fetch_with_the_id_of_the_old_topic_returns_no_record_of_the_new_one(cluster):
    old_id = cluster.create_topic("t", configs={"retention.ms": "-1"}).topic_id
    cluster.append(T0, a_batch(2))
    assert cluster.fetch(T0, 0, max_bytes=1 << 20, topic_id=old_id).next_offset == 2
    cluster.delete_topic("t")
    new_id = cluster.create_topic("t", configs={"retention.ms": "-1"}).topic_id
    cluster.append(T0, a_batch(3))
    with pytest.raises(UnknownTopicError):  # or its kind that says more
        cluster.fetch(T0, 0, max_bytes=1 << 20, topic_id=old_id)
    assert cluster.fetch(T0, 0, max_bytes=1 << 20, topic_id=new_id).next_offset == 3


def test_an_append_with_the_id_of_a_deleted_topic_is_refused(cluster):
    old_id = cluster.create_topic("t", configs={"retention.ms": "-1"}).topic_id
    cluster.delete_topic("t")
    with pytest.raises(UnknownTopicError):
        cluster.append(T0, a_batch(1), topic_id=old_id)
    assert "t" not in cluster.describe_topics(["t"])


def test_a_producer_does_not_go_on_in_the_new_topic(cluster):
    producer = TopicProducer(
        cluster, find_topic=lambda name: describe_or_create(cluster, name), now_ms=lambda: SOME_TIME_MS
    )
    producer.add("t", pa.RecordBatch.from_pydict({"value": [b"old"]}))
    producer.flush()
    cluster.delete_topic("t")
    cluster.create_topic("t", configs={"retention.ms": "-1"})
    producer.add("t", pa.RecordBatch.from_pydict({"value": [b"of the old topic"]}))
    with pytest.raises(TopicRecreatedError, match="'t' was deleted and created again during the write"):
        producer.flush()
    assert end(cluster) == 0


def test_offsets_of_the_old_topic_are_not_committed_for_the_new_one(cluster):
    old_id = cluster.create_topic("t", configs={"retention.ms": "-1"}).topic_id
    cluster.commit_offsets("g", {T0: GroupOffset(offset=3)}, topic_ids={"t": old_id})
    assert cluster.fetch_offsets("g")[T0].offset == 3
    cluster.delete_topic("t")
    new_id = cluster.create_topic("t", configs={"retention.ms": "-1"}).topic_id
    with pytest.raises(TopicRecreatedError, match="'t' was deleted and created again"):
        cluster.commit_offsets("g", {T0: GroupOffset(offset=4)}, topic_ids={"t": old_id})
    assert T0 not in cluster.fetch_offsets("g", [T0])
    cluster.commit_offsets("g", {T0: GroupOffset(offset=1)}, topic_ids={"t": new_id})
    assert cluster.fetch_offsets("g")[T0].offset == 1
