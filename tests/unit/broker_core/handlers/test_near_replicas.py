"""A leader sends consumers to a replica in their rack. The other replica is made up: a single node has none."""

from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode
from support.builders.builders import a_batch
from support.nodes.whole_node import a_node, fetch, make_topic, produce, stop

from broker_core.broker.settings.broker_settings import RACK_AWARE_SELECTOR
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.identifiers import TopicPartition

HERE, THERE = "here", "there"
T0 = TopicPartition("t", 0)


class Near:
    """`node` leads t-0, broker 7 in the rack THERE follows; what the leader was told and asked."""

    def __init__(self, path, **settings):
        self.node = a_node(path, broker_rack=HERE, **settings)
        make_topic(self.node, "t")
        produce(self.node, "t", a_batch(3))
        self.node.cluster = SimpleNamespace(
            node_id=1, rack_of={1: HERE, 7: THERE}.get, leader_of=self.node.cluster.leader_of
        )
        self.has_news, self.told = False, []
        replica = self.replica = self.node.replicas.get(T0)
        replica.preferred_reader = lambda offset, is_near: 7 if is_near(7) and offset <= 3 else None
        replica.is_watermark_news = lambda replica_id: self.has_news
        replica.on_watermark_told = lambda replica_id, watermark: self.told.append((replica_id, watermark))

    def fetch(self, rack, **more):
        return fetch(self.node, "t", 0, rack_id=rack, **more)


@pytest.fixture
def near(tmp_path):
    found = Near(tmp_path, replica_selector_class=RACK_AWARE_SELECTOR)
    yield found
    stop(found.node)


def test_a_consumer_is_sent_to_the_replica_in_its_rack_without_records(near):
    answer = near.fetch(THERE)
    assert (answer.error_code, answer.preferred_read_replica) == (ErrorCode.none, 7)
    assert not answer.records
    assert answer.high_watermark == 3


@pytest.mark.parametrize("rack", ["", HERE, "elsewhere"])
def test_a_consumer_of_the_leader_s_rack_or_of_none_stays(near, rack):
    answer = near.fetch(rack)
    assert answer.preferred_read_replica == -1
    assert answer.records


def test_it_is_sent_at_once_though_it_would_wait(near):
    waiting = near.fetch(THERE, run=False, max_wait=60_000, min_bytes=2**20)
    assert waiting.answer.responses[0].partitions[0].preferred_read_replica == 7


def test_the_epoch_comes_first(near):
    assert near.fetch(THERE, current_leader_epoch=9).error_code is ErrorCode.unknown_leader_epoch


def test_an_old_consumer_is_not_sent_anywhere(near):
    answer = fetch(near.node, "t", 0, version=10)
    assert answer.records


def test_a_session_tells_it_each_time(near):
    begun = near.fetch(THERE, run=False, session_epoch=0).answer
    again = near.fetch(THERE, run=False, session_id=begun.session_id, session_epoch=1).answer
    assert again.responses[0].partitions[0].preferred_read_replica == 7


@pytest.mark.parametrize("selector", ["", "org.apache.kafka.common.replica.LeaderSelector"])
def test_without_the_selector_nobody_is_sent(tmp_path, selector):
    near = Near(tmp_path, replica_selector_class=selector)
    assert near.fetch(THERE).preferred_read_replica == -1
    stop(near.node)


def test_another_selector_is_refused(tmp_path):
    with pytest.raises(InvalidConfigError, match=r"replica\.selector\.class"):
        a_node(tmp_path, replica_selector_class="com.example.Nearest")


def test_a_waiting_follower_is_told_of_a_high_watermark_that_is_news(near):
    near.replica.on_fetch = lambda fetch: SimpleNamespace(error=ErrorCode.none, diverging=None, until_offset=3)
    waiting = fetch(near.node, "t", 3, run=False, replica_id=7, max_wait=60_000)
    assert waiting.answer is None
    assert near.told == []
    near.node.parked_fetches.wake(T0)
    assert waiting.answer is None
    near.has_news = True
    near.node.parked_fetches.wake(T0)
    assert waiting.answer.responses[0].partitions[0].high_watermark == 3
    assert near.told == [(7, 3)]
