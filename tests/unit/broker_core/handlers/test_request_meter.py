"""Requests of clients with quotas at a whole node. The window of Kafka's default spans ten seconds at first."""

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from support.builders.builders import a_batch, some_records
from support.nodes.whole_node import (
    NO_ANSWER,
    a_node,
    ask,
    begin,
    fetch,
    make_topic,
    pass_time,
    produce,
    set_quotas,
    stop,
)

from broker_core.protocol.api_table import ApiKey

VALUE = b"x" * 1_000


class Stopwatch:
    """Each look takes `step_ns`."""

    def __init__(self):
        self.step_ns = 0
        self._time_ns = 0

    def __call__(self):
        self._time_ns += self.step_ns
        return self._time_ns


@pytest.fixture
def stopwatch():
    return Stopwatch()


@pytest.fixture
def node(tmp_path, stopwatch):
    running = a_node(tmp_path, stopwatch_ns=stopwatch)
    make_topic(running, "t")
    yield running
    stop(running)


def a_large_batch():
    return a_batch(some_records(10, value=VALUE))


def produced(node, **more):
    waiting = produce(node, "t", a_large_batch(), run=False, **more)
    node.jobs.run_all()
    return waiting


def fetched(node, offset=0, **more):
    return fetch(node, "t", offset, run=False, **more)


def ms(answer):
    return answer.throttle_time / timedelta(milliseconds=1)


def test_without_quotas_nobody_is_throttled(node):
    waiting = produced(node)
    assert (waiting.throttle_ms, ms(waiting.answer)) == (0, 0)


def test_a_produce_beyond_the_rate_is_carried_out_and_throttled(node):
    set_quotas(node, producer_byte_rate=1_000)
    throttled = [waiting for waiting in (produced(node) for _ in range(2)) if waiting.throttle_ms]
    assert throttled
    assert ms(throttled[0].answer) == throttled[0].throttle_ms
    assert throttled[0].answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def test_the_bytes_of_the_request_count(node):
    set_quotas(node, producer_byte_rate=1_000)
    size_bytes = 10_000  # at least: ten values
    first, second = produced(node), produced(node)
    assert first.throttle_ms >= size_bytes - 10_000
    assert second.throttle_ms == pytest.approx(10_000 + 2 * first.throttle_ms, abs=2)


def test_a_produce_without_an_answer_is_throttled_as_well(node):
    set_quotas(node, producer_byte_rate=500)
    waiting = produced(node, acks=0)
    assert waiting.answer == NO_ANSWER
    assert waiting.throttle_ms > 0


def test_a_quota_of_another_user_does_not_count(node):
    set_quotas(node, entity=(("user", "ann"),), producer_byte_rate=1)
    assert produced(node).throttle_ms == 0


def test_a_removed_quota_ends_the_throttling(node):
    set_quotas(node, producer_byte_rate=1)
    assert produced(node).throttle_ms > 0
    set_quotas(node, producer_byte_rate=None)
    assert produced(node).throttle_ms == 0


def test_a_fetch_beyond_the_rate_gets_no_records_and_nothing_is_lost(node):
    for _ in range(3):
        produced(node)
    set_quotas(node, consumer_byte_rate=1_500)
    first = fetched(node)
    assert first.throttle_ms == 0
    assert len(first.answer.responses[0].partitions[0].records or b"") > 10_000
    second = fetched(node, 10)
    assert second.throttle_ms > 0
    assert ms(second.answer) == second.throttle_ms
    assert second.answer.responses == ()
    pass_time(node, 11_000)
    assert fetched(node, 10).answer.responses[0].partitions[0].records


def test_one_fetch_returns_no_more_than_its_window_allows(node):
    for _ in range(3):
        produced(node)
    set_quotas(node, consumer_byte_rate=2_500)
    (partition,) = fetched(node).answer.responses[0].partitions
    assert 20_000 < len(partition.records) < 25_000


def test_a_session_is_not_begun_by_a_throttled_fetch_and_an_existing_one_goes_on(node):
    produced(node)
    produced(node)
    set_quotas(node, consumer_byte_rate=1_500)
    begun = fetched(node, session_epoch=0).answer
    assert begun.session_id > 0
    throttled = fetched(node, 10, session_id=begun.session_id, session_epoch=1)
    assert (throttled.answer.session_id, throttled.answer.responses) == (begun.session_id, ())
    assert throttled.throttle_ms > 0
    not_begun = fetched(node, 10, session_epoch=0)
    assert (not_begun.answer.session_id, len(node.fetch_sessions)) == (0, 1)
    pass_time(node, 11_000)
    (topic,) = fetched(node, 10, session_id=begun.session_id, session_epoch=2).answer.responses
    assert topic.partitions[0].records


def test_followers_and_brokers_are_exempt(node, stopwatch):
    set_quotas(node, consumer_byte_rate=1, request_percentage=0.001)
    stopwatch.step_ns = 10**9
    assert fetched(node, replica_id=1).throttle_ms == 0
    assert begin(node, ApiKey.WRITE_TXN_MARKERS, markers=[]).throttle_ms == 0
    assert begin(node, ApiKey.ADD_PARTITIONS_TO_TXN, 4, transactions=[]).throttle_ms == 0


def test_the_time_of_requests_is_limited(node, stopwatch):
    set_quotas(node, request_percentage=1)
    stopwatch.step_ns = 100_000_000  # of each request: a tenth of a second, one percent of ten seconds
    answers = [begin(node, ApiKey.METADATA, topics=[]) for _ in range(2)]
    assert [each.throttle_ms for each in answers] == [0, 1_000]
    assert ms(answers[1].answer) == 1_000


def test_a_fetch_of_a_client_that_took_too_much_time_gets_no_records(node, stopwatch):
    produced(node)
    set_quotas(node, request_percentage=1, consumer_byte_rate=1_000_000)
    stopwatch.step_ns = 200_000_000
    waiting = fetched(node)
    assert (waiting.throttle_ms, waiting.answer.responses) == (1_000, ())


def test_a_produce_with_acks_0_takes_no_time(node, stopwatch):
    set_quotas(node, request_percentage=1)
    stopwatch.step_ns = 10**9
    assert produced(node, acks=0).throttle_ms == 0


def new_topics(node, *names, partition_count=4, version=7):
    topics = [{"name": name, "num_partitions": partition_count, "replication_factor": 1} for name in names]
    waiting = begin(node, ApiKey.CREATE_TOPICS, version, topics=topics, timeout=1000)
    node.jobs.run_all()
    return waiting


def codes(answers):
    return [answer.error_code.name for answer in answers]


def test_partitions_beyond_the_mutation_rate_are_refused_until_the_debt_is_paid(node):
    set_quotas(node, controller_mutation_rate=1)
    waiting = new_topics(node, "a", "b", "c", "d")  # 11 were saved up, so the third makes a debt of one
    assert codes(waiting.answer.topics) == ["none", "none", "none", "throttling_quota_exceeded"]
    assert waiting.answer.topics[3].error_message == "The throttling quota has been exceeded."
    assert (waiting.throttle_ms, ms(waiting.answer)) == (1_000, 1_000)
    pass_time(node, 1_000)
    assert codes(new_topics(node, "d").answer.topics) == ["none"]


def test_old_clients_are_not_refused_but_throttled(node):
    set_quotas(node, controller_mutation_rate=1)
    waiting = new_topics(node, "a", "b", "c", "d", version=5)
    assert codes(waiting.answer.topics) == ["none"] * 4
    assert waiting.throttle_ms == 5_000


def test_new_partitions_and_deleted_ones_count(node):
    new_topics(node, "a", partition_count=20)
    set_quotas(node, controller_mutation_rate=1)
    grown = begin(node, ApiKey.CREATE_PARTITIONS, topics=[{"name": "t", "count": 13}], timeout=1000)
    node.jobs.run_all()
    assert codes(grown.answer.results) == ["none"]
    refused = begin(node, ApiKey.DELETE_TOPICS, topics=[{"name": "a", "topic_id": None}], timeout=1000)
    assert codes(refused.answer.responses) == ["throttling_quota_exceeded"]
    assert refused.throttle_ms == 1_000
    assert "a" in node.topics.image.topics
    more = begin(node, ApiKey.CREATE_PARTITIONS, topics=[{"name": "t", "count": 14}], timeout=1000)
    assert codes(more.answer.results) == ["throttling_quota_exceeded"]


def test_topics_that_are_created_by_their_use_count(node):
    set_quotas(node, controller_mutation_rate=0.05)
    names = [{"name": name} for name in "abc"]
    waiting = begin(node, ApiKey.METADATA, topics=names, allow_auto_topic_creation=True)
    node.jobs.run_all()
    assert waiting.throttle_ms == pytest.approx(49_000, abs=1)  # 0.55 were saved up, 3 used, at 0.05 a second
    assert {"a", "b", "c"} <= node.topics.image.topics.keys()


def test_the_answer_of_a_request_without_a_throttle_time_is_as_it_was(node, stopwatch):
    set_quotas(node, request_percentage=0.001)
    stopwatch.step_ns = 10**9
    answer = ask(node, ApiKey.CREATE_PARTITIONS, topics=[], timeout=1000)
    assert answer.results == ()
