import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_record, a_transactional_batch
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, begin, make_topic, produce

from broker_core.broker.partition.replica import Replica
from broker_core.model.access_control import Operation, ResourceType
from broker_core.protocol.api_table import ApiKey

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
NOWHERE = ("none", -1, -1, -1)


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 2)
    return node


def place(spec, *, partition=0, epoch=-1):
    return {"partition_index": partition, "timestamp": spec, "current_leader_epoch": epoch}


def look(node, *places, name="t", version=None, isolation=0, **more):
    """(error, offset, timestamp, leader epoch) of each place."""
    topics = [{"name": name, "partitions": places}]
    answer = ask(node, ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation, topics=topics, **more)
    return [shown(each) for each in answer.topics[0].partitions]


def shown(each):
    instant = each.timestamp
    return each.error_code.name, each.offset, instant if isinstance(instant, int) else ms_of(instant), epoch_of(each)


def epoch_of(each):
    return getattr(each, "leader_epoch", None)


def ms_of(instant):
    return -1 if instant is None else round(instant.timestamp() * 1000)


def records_at(*times):
    return a_batch([a_record(number, timestamp_ms=SOME_TIME_MS + time) for number, time in enumerate(times)])


def test_an_empty_log_has_offsets_0_and_no_timestamp(node):
    specs = (LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING, 0, SOME_TIME_MS)
    assert [look(node, place(spec))[0] for spec in specs] == [
        ("none", 0, -1, 0),
        ("none", 0, -1, 0),
        NOWHERE,
        ("none", 0, -1, 0),
        NOWHERE,
        NOWHERE,
        NOWHERE,
        NOWHERE,
    ]


def test_a_timestamp_lookup_finds_the_first_record_at_or_after_it(node):
    produce(node, "t", records_at(0, 10, 5))
    produce(node, "t", records_at(3, 30, 20))
    asked = (-1, 0, 1, 10, 11, 30, 31)
    found = [look(node, place(SOME_TIME_MS + time))[0] for time in asked]
    expected = [(0, 0), (0, 0), (1, 10), (1, 10), (4, 30), (4, 30)]
    assert found == [*(("none", offset, SOME_TIME_MS + time, 0) for offset, time in expected), NOWHERE]


def test_max_timestamp_finds_its_first_record(node):
    produce(node, "t", records_at(0, 30, 5))
    produce(node, "t", records_at(30, 1))
    assert look(node, place(MAX_TIMESTAMP)) == [("none", 1, SOME_TIME_MS + 30, 0)]


def test_special_offsets_have_no_timestamp(node):
    produce(node, "t", a_batch(3))
    ask(
        node,
        ApiKey.DELETE_RECORDS,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 2}]}],
        timeout=1000,
    )
    places = [look(node, place(spec))[0] for spec in (EARLIEST, EARLIEST_LOCAL, LATEST)]
    assert places == [("none", 2, -1, 0), ("none", 2, -1, 0), ("none", 3, -1, 0)]


@pytest.mark.parametrize(
    ("spec", "first_version"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11), (-7, 99)],
)
def test_a_special_timestamp_newer_than_the_version_is_unsupported(node, spec, first_version):
    for version in range(4, 12):
        ((error, *_),) = look(node, place(spec), version=version)
        assert error == ("none" if version >= first_version else "unsupported_version"), version


def test_read_committed_lookups_end_at_the_first_open_transaction(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t")
    produce(node, "t", records_at(0))
    writer = ask(node, ApiKey.INIT_PRODUCER_ID, 4, transactional_id="mine", transaction_timeout=60_000,
                 producer_id=-1, producer_epoch=-1)  # fmt: skip
    assert writer.error_code.name == "none"
    batch = a_transactional_batch([a_record(0, timestamp_ms=SOME_TIME_MS + 50)], producer_id=writer.producer_id)
    assert produce(node, "t", batch, version=12, transactional_id="mine").error_code.name == "none"
    asked = [place(spec) for spec in (LATEST, SOME_TIME_MS + 20)]
    found = {isolation: [look(node, each, isolation=isolation)[0][1] for each in asked] for isolation in (0, 1)}
    assert found == {0: [2, 1], 1: [1, -1]}


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, "none"), (0, "none"), (1, "unknown_leader_epoch"), (-5, "fenced_leader_epoch")],
)
def test_a_wrong_leader_epoch_is_refused(node, epoch, expected):
    ((error, *_),) = look(node, place(LATEST, epoch=epoch))
    assert error == expected


def test_missing_partitions_are_refused_separately(node):
    answers = look(node, place(LATEST), place(LATEST, partition=7), place(LATEST, partition=-1))
    assert answers[0][0] == "none"
    assert answers[1:] == [("unknown_topic_or_partition", -1, -1, -1)] * 2
    assert look(node, place(LATEST), name="nowhere") == [("unknown_topic_or_partition", -1, -1, -1)]


def test_a_duplicate_partition_is_refused_once(node):
    topics = [
        {"name": "t", "partitions": [place(LATEST), place(EARLIEST), place(LATEST, partition=1)]},
        {"name": "t", "partitions": [place(LATEST)]},
        {"name": "empty", "partitions": []},
    ]
    (topic,) = ask(node, ApiKey.LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=topics).topics
    found = {(each.partition_index, each.error_code.name, each.offset) for each in topic.partitions}
    assert found == {(0, "invalid_request", -1), (1, "none", 0)}
    assert len(topic.partitions) == 2


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_is_answered(node, version):
    produce(node, "t", a_batch(3))
    ((error, offset, _, epoch),) = look(node, place(LATEST), version=version)
    assert (error, offset, epoch) == ("none", 3, 0 if version >= 4 else None)


def test_without_describe_access_existing_and_missing_topics_are_refused(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    make_topic(node, "t")
    for name in ("t", "nowhere"):
        assert look(node, place(LATEST), name=name, principal=EVE) == [("topic_authorization_failed", -1, -1, -1)]
    allow(node, EVE, Operation.DESCRIBE, ResourceType.TOPIC, "t")
    assert look(node, place(LATEST), principal=EVE) == [("none", 0, -1, 0)]


def test_timestamp_lookups_run_in_a_job_and_bounds_are_immediate(node):
    """A batch that inflates to half a gigabyte would hold up everybody else."""
    produce(node, "t", a_batch(3))
    topics = [{"name": "t", "partitions": [place(LATEST), place(EARLIEST, partition=1)]}]
    assert begin(node, ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=topics).answer is not None
    for spec in (SOME_TIME_MS, MAX_TIMESTAMP):
        waiting = begin(
            node, ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": "t", "partitions": [place(spec)]}]
        )
        assert waiting.answer is None
        node.jobs.run_all()
        assert waiting.answer.topics[0].partitions[0].offset >= 0


def test_a_topic_deleted_during_a_timestamp_lookup_is_unknown(node):
    produce(node, "t", a_batch(3))
    topics = [{"name": "t", "partitions": [place(SOME_TIME_MS)]}]
    waiting = begin(node, ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=topics)
    deleting = begin(node, ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=1000)
    node.jobs.run_next(slot=1)
    node.jobs.run_all()
    assert deleting.answer.responses[0].error_code.name == "none"
    assert shown(waiting.answer.topics[0].partitions[0])[0] == "unknown_topic_or_partition"


@pytest.mark.parametrize(("version", "error"), [(4, "leader_not_available"), (5, "offset_not_available")])
def test_a_new_leader_tells_no_end_that_may_lie_before_what_was_told(node, monkeypatch, version, error):
    produce(node, "t", records_at(0, 5))
    monkeypatch.setattr(Replica, "is_end_known", False)
    specs = (LATEST, EARLIEST, SOME_TIME_MS + 5, SOME_TIME_MS + 6)
    found = [look(node, place(spec), version=version)[0][:2] for spec in specs]
    assert found == [(error, -1), ("none", 0), ("none", 1), (error, -1)]
