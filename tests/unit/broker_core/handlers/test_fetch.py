import pytest
from support.builders.builders import a_batch
from support.nodes.whole_node import a_node, ask, begin, fetch, make_topic, pass_time, produce

from broker_core.broker.partition.replica import Replica
from broker_core.handlers.awaited_partitions import AwaitedPartitions
from broker_core.protocol.api_table import ApiKey
from broker_core.record.batch_reader import iter_headers


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 3)
    return node


def code(answer):
    return answer.error_code.name


def offsets(records):
    return [header.base_offset for _, header in iter_headers(records)]


def wants(*numbers, offset=0, max_bytes=2**20):
    return [
        {
            "topic": "t",
            "partitions": [
                {"partition": number, "fetch_offset": offset, "partition_max_bytes": max_bytes} for number in numbers
            ],
        }
    ]


def fetch_all(node, *numbers, max_bytes=2**20, partition_max_bytes=2**20):
    answer = ask(
        node,
        ApiKey.FETCH,
        12,
        max_wait=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=wants(*numbers, max_bytes=partition_max_bytes),
    )
    return {each.partition_index: each for each in answer.responses[0].partitions}


def test_batches_are_returned_unchanged_from_the_one_with_the_offset(node):
    for _ in range(3):
        produce(node, "t", a_batch(4))
    assert offsets(fetch(node, "t", 0).records) == [0, 4, 8]
    assert offsets(fetch(node, "t", 6).records) == [4, 8]
    answer = fetch(node, "t", 12)
    assert (code(answer), len(answer.records), answer.high_watermark) == ("none", 0, 12)


@pytest.mark.parametrize("offset", [-1, 5])
def test_an_offset_out_of_range_is_refused(node, offset):
    produce(node, "t", a_batch(4))
    answer = fetch(node, "t", offset)
    assert (code(answer), answer.high_watermark) == ("offset_out_of_range", -1)


def test_only_the_first_batch_may_exceed_the_limits(node):
    for number in range(3):
        produce(node, "t", a_batch(100), partition=number)
    produce(node, "t", a_batch(100), partition=0)
    found = fetch_all(node, 0, 1, 2, max_bytes=1)
    assert [offsets(each.records) for each in found.values()] == [[0], [], []]
    found = fetch_all(node, 0, 1, 2, partition_max_bytes=1)
    assert offsets(found[0].records) == [0]


def test_an_empty_partition_passes_the_first_batch_exception_on(node):
    produce(node, "t", a_batch(100), partition=2)
    assert offsets(fetch_all(node, 0, 1, 2, max_bytes=1)[2].records) == [0]


def test_a_fetch_waits_for_records_and_the_first_append_completes_it(node):
    waiting = fetch(node, "t", run=False, max_wait=500)
    node.jobs.run_all()
    assert (waiting.answer, len(node.parked_fetches)) == (None, 1)
    produce(node, "t", a_batch(2), partition=1)
    assert waiting.answer is None
    produce(node, "t", a_batch(2))
    assert offsets(waiting.answer.responses[0].partitions[0].records) == [0]
    assert len(node.parked_fetches) == 0


def test_a_fetch_waits_for_min_bytes(node):
    size = len(a_batch(1))
    waiting = fetch(node, "t", run=False, max_wait=500, min_bytes=2 * size)
    produce(node, "t", a_batch(1))
    assert waiting.answer is None
    produce(node, "t", a_batch(1))
    assert offsets(waiting.answer.responses[0].partitions[0].records) == [0, 1]


def test_a_fetch_with_fewer_than_min_bytes_waits_for_the_rest(node):
    size = len(a_batch(1))
    produce(node, "t", a_batch(1))
    waiting = fetch(node, "t", run=False, max_wait=500, min_bytes=2 * size)
    node.jobs.run_all()
    assert (waiting.answer, len(node.parked_fetches)) == (None, 1)
    produce(node, "t", a_batch(1))
    assert offsets(waiting.answer.responses[0].partitions[0].records) == [0, 1]
    exact = fetch(node, "t", run=False, max_wait=500, min_bytes=2 * size)
    assert offsets(exact.answer.responses[0].partitions[0].records) == [0, 1]


def test_a_fetch_woken_with_too_few_bytes_waits_again(node):
    """What a transaction has blocked is not counted, so its end has the fetch look by itself, and find little."""
    ask(node, ApiKey.INIT_PRODUCER_ID, 4, transactional_id="x", transaction_timeout=60_000)
    ask(
        node,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[{"name": "t", "partitions": [0]}],
    )
    produce(node, "t", a_batch(1, producer=(0, 0, 0), is_transactional=True), transactional_id="x")
    waiting = fetch(node, "t", run=False, max_wait=500, min_bytes=5_000, isolation_level=1)
    ask(node, ApiKey.END_TXN, 3, transactional_id="x", producer_id=0, producer_epoch=0, committed=True)
    assert (waiting.answer, len(node.parked_fetches)) == (None, 1)
    produce(node, "t", a_batch(1_000))
    found = waiting.answer.responses[0].partitions[0].records
    assert (len(found) >= 5_000, offsets(found)) == (True, [0, 1, 2])


def test_at_max_wait_ms_a_fetch_returns_the_available_records(node):
    waiting = fetch(node, "t", run=False, max_wait=500, min_bytes=10_000)
    produce(node, "t", a_batch(1))
    pass_time(node, 499)
    assert waiting.answer is None
    pass_time(node, 1)
    assert offsets(waiting.answer.responses[0].partitions[0].records) == [0]
    assert len(node.parked_fetches) == 0


def test_an_error_is_returned_immediately(node):
    waiting = fetch(node, "nowhere", run=False, max_wait=500)
    assert code(waiting.answer.responses[0].partitions[0]) == "unknown_topic_or_partition"


def test_deleting_a_topic_completes_its_parked_fetches_with_an_error(node):
    waiting = fetch(node, "t", run=False, max_wait=500)
    ask(node, ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=1000)
    assert code(waiting.answer.responses[0].partitions[0]) == "unknown_topic_or_partition"


@pytest.mark.parametrize(("epoch", "expected"), [(-1, "none"), (0, "none"), (1, "unknown_leader_epoch")])
def test_the_leader_epoch_is_validated(node, epoch, expected):
    assert code(fetch(node, "t", current_leader_epoch=epoch)) == expected


def test_a_client_beyond_the_end_of_an_epoch_gets_the_diverging_epoch(node):
    produce(node, "t", a_batch(2))
    answer = fetch(node, "t", 5, last_fetched_epoch=0)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 2)
    assert fetch(node, "t", 1, last_fetched_epoch=0).diverging_epoch.epoch == -1


def session_fetch(node, session_id, epoch, topics=(), forgotten=()):
    return ask(
        node,
        ApiKey.FETCH,
        12,
        max_wait=0,
        min_bytes=1,
        max_bytes=2**20,
        session_id=session_id,
        session_epoch=epoch,
        topics=list(topics),
        forgotten_topics_data=list(forgotten),
    )


def told(answer):
    return [each.partition_index for topic in answer.responses for each in topic.partitions]


def test_a_session_returns_only_changed_partitions(node):
    first = session_fetch(node, 0, 0, wants(0, 1))
    assert first.session_id > 0
    assert told(first) == [0, 1]
    assert told(session_fetch(node, first.session_id, 1)) == []
    produce(node, "t", a_batch(1), partition=1)
    assert told(session_fetch(node, first.session_id, 2)) == [1]
    assert told(session_fetch(node, first.session_id, 3, wants(1, offset=1))) == []
    forgotten = [{"topic": "t", "partitions": [1]}]
    assert told(session_fetch(node, first.session_id, 4, wants(2), forgotten)) == [2]


def test_an_unknown_session_or_a_wrong_session_epoch_is_refused(node):
    assert code(session_fetch(node, 77, 1)) == "fetch_session_id_not_found"
    session_id = session_fetch(node, 0, 0, wants(0)).session_id
    assert code(session_fetch(node, session_id, 2)) == "invalid_fetch_session_epoch"


def test_a_parked_session_fetch_wakes_up_for_an_earlier_partition(node):
    session_id = session_fetch(node, 0, 0, wants(0, 1)).session_id
    waiting = begin(
        node, ApiKey.FETCH, 12, max_wait=500, min_bytes=1, max_bytes=2**20, session_id=session_id, session_epoch=1
    )
    assert waiting.answer is None
    produce(node, "t", a_batch(1), partition=1)
    assert told(waiting.answer) == [1]


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_with_names_gives_the_records(node, version):
    produce(node, "t", a_batch(3))
    assert offsets(fetch(node, "t", version=version).records) == [0]


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_with_ids_gives_the_records(node, version):
    produce(node, "t", a_batch(3))
    topic_id = node.topics.image.topics["t"].topic_id
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]
    for asked, expected in ((topic_id, "none"), (None, "unknown_topic_id")):
        answer = ask(
            node,
            ApiKey.FETCH,
            version,
            max_wait=0,
            min_bytes=1,
            max_bytes=2**20,
            session_epoch=-1,
            topics=[{"topic_id": asked, "partitions": partitions}],
        )
        assert (answer.responses[0].topic_id, code(answer.responses[0].partitions[0])) == (asked, expected)


def test_a_parked_fetch_of_a_closed_connection_is_removed(node):
    for _ in range(3):
        fetch(node, "t", run=False, max_wait=2**31 - 1)
    assert len(node.parked_fetches) == 3
    node.forget_client(1)
    node.forget_client(1)
    assert len(node.parked_fetches) == 0
    produce(node, "t", a_batch(1))


def test_min_bytes_is_limited_by_max_bytes(node):
    size = len(a_batch(1))
    waiting = fetch(node, "t", run=False, max_wait=500, min_bytes=2**31 - 1, max_bytes=2 * size)
    produce(node, "t", a_batch(1))
    assert waiting.answer is None
    produce(node, "t", a_batch(1))
    assert len(waiting.answer.responses[0].partitions[0].records) == 2 * size


def test_with_full_response_memory_a_fetch_waits_and_returns_less(node):
    room = [0]
    node.answer_room_bytes = lambda: room[0]
    waiting, late = (fetch(node, "t", run=False, max_wait=wait_ms) for wait_ms in (500, 900))
    produce(node, "t", a_batch(1))
    assert waiting.answer is None
    pass_time(node, 500)
    assert len(waiting.answer.responses[0].partitions[0].records) == 0
    room[0] = 1
    produce(node, "t", a_batch(1))
    assert offsets(late.answer.responses[0].partitions[0].records) == [0], "one batch, however large"


def test_a_failing_parked_fetch_closes_only_its_own_connection(node, monkeypatch):
    first, second = (fetch(node, "t", run=False, max_wait=500) for _ in range(2))
    real, failures = AwaitedPartitions.is_worth_a_look, [RuntimeError("a fault of ours")]

    def failing(self, partition):
        if failures:
            raise failures.pop()
        return real(self, partition)

    monkeypatch.setattr(AwaitedPartitions, "is_worth_a_look", failing)
    produce(node, "t", a_batch(1))
    assert offsets(second.answer.responses[0].partitions[0].records) == [0]
    assert "answering a parked fetch failed" in str(first.answer)
    assert len(node.parked_fetches) == 0


def test_a_parked_fetch_without_memory_reads_nothing_but_gets_errors(node, monkeypatch):
    """A thousand of them read some megabytes each with every append, and threw them away."""
    size, reads = len(a_batch(1)), []
    node.answer_room_bytes = lambda: size
    waiting = fetch(node, "t", run=False, max_wait=500, min_bytes=2 * size)
    monkeypatch.setattr(Replica, "read", lambda *arguments, **more: reads.append(1))
    for _ in range(3):
        produce(node, "t", a_batch(1))
    assert (waiting.answer, reads) == (None, [])
    ask(node, ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=1000)
    assert code(waiting.answer.responses[0].partitions[0]) == "unknown_topic_or_partition"
