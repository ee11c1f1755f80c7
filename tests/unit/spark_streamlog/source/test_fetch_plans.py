"""The source on a log on object storage: the driver plans, and each task is a process that has not loaded the log."""

import pickle

import pytest
from support.builders.append_records import append_values
from support.builders.builders import a_batch, a_record
from support.spark.read_query import read_options, values_of

from broker_core.model.identifiers import TopicPartition
from spark_streamlog import open_cluster
from spark_streamlog.errors import ConditionError
from spark_streamlog.open_cluster import known_state, one_look
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.source import fetch_ahead, range_reader
from spark_streamlog.source.batch_planner import plan_batch
from spark_streamlog.source.fetch_plans import UsablePlans, with_fetch_plans
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.range_reader import read_ranges
from spark_streamlog.source.small_batch import read_small_batch
from spark_streamlog.source.stream_reader import StreamlogStreamReader

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CLOSED = {"endingOffsets": '{"t": {"0": -1, "1": -1}}'}


def options(**given):
    return read_options(path="objects:///shared/log", **given)


class Query:
    """A batch query: one task for all its ranges, and the requests of the tasks."""

    def __init__(self, log, driver, **given):
        self.log = log
        self.options = options(**given)
        with one_look(driver):
            offsets = OffsetReader(driver, self.options)
            (task,) = with_fetch_plans(driver, [tuple(plan_batch(offsets, self.options))])
        self.task = pickle.dumps(task)

    def run(self):
        """(sorted values, requests of the task by name)"""
        before = self.log.store.requests.copy()
        values = values_of(read_ranges(self.log.open(), pickle.loads(self.task), self.options))
        return sorted(values), dict(self.log.store.requests - before)


@pytest.fixture
def driver(cluster):
    return cluster


def append(cluster, *values, partition=0):
    append_values(cluster, "t", *values, partition=partition, timestamps_ms=[1_764_000_000_000] * len(values))


def let_objects_go(log, cluster):
    """What nothing refers to any more is removed after the grace time."""
    log.clock.milliseconds += 10_000
    cluster.create_topic(f"any-{log.clock.milliseconds}")
    assert cluster.maintain(grace_ms=1000).removed_object_count


def test_a_query_is_planned_with_one_look(log, driver):
    append(driver, "a", "b")
    append(driver, "c", partition=1)
    before = log.store.requests.copy()
    Query(log, driver, startingTimestamp="1", minPartitions="3")
    assert log.store.requests - before == {"get": 1, "get_ranges": 2}, "the ranges with the timestamp are read"


def test_tasks_request_data_and_whether_an_open_end_has_moved(log, driver):
    append(driver, "a", "b")
    append(driver, "c", partition=1)
    assert Query(log, driver).run() == (["a", "b", "c"], {"get": 1, "get_ranges": 2})
    closed = Query(log, driver, endingOffsets='{"t": {"0": 2, "1": 1}}')
    assert closed.run() == (["a", "b", "c"], {"get_ranges": 2})
    cut = Query(log, driver, endingOffsets='{"t": {"0": 1, "1": 0}}', maxRecordsPerPartition="1")
    assert cut.run() == (["a"], {"get_ranges": 1})


def test_a_plan_that_runs_again_sees_what_was_appended(log, driver):
    append(driver, "a")
    query = Query(log, driver)
    assert query.run()[0] == ["a"]
    append(driver, "b")
    append(driver, "c", partition=1)
    assert query.run()[0] == ["a", "b", "c"]


def test_a_plan_that_is_no_longer_current_is_read_beyond_its_end_and_not_read_again(log, driver):
    append(driver, "a")
    query = Query(log, driver, endingOffsets='{"t": {"0": -1, "1": 0}}')
    append(driver, "b")
    values, requests = query.run()
    assert (values, requests["get_ranges"]) == (["a", "b"], 2)


@pytest.mark.parametrize("start", ["earliest", '{"t": {"0": 0, "1": 0}}'])
def test_an_open_end_of_a_topic_that_was_made_again_is_never_read_from_the_old_topic(log, driver, start):
    append(driver, "a")
    query = Query(log, driver, startingOffsets=start)
    driver.delete_topic("t")
    driver.create_topic("t", partition_count=2)
    append(driver, "new")
    if start == "earliest":
        assert query.run()[0] == ["new"]
    else:
        with pytest.raises(ConditionError, match=r"KAFKA_DATA_LOSS\.TOPIC_RECREATED"):
            query.run()


class AheadOfDecoder:
    """In the place of `BackgroundCall`: runs at once, and notes how much was fetched and not taken."""

    def __init__(self):
        self.bytes_now = self.max_bytes = self.count_now = self.max_count = 0

    def __call__(self, call):
        return _CallAhead(self, call)


class _CallAhead:
    def __init__(self, ahead, call):
        self._ahead, self._answer = ahead, call()
        self._note(1)

    def answer(self):
        self._note(-1)
        return self._answer

    def _note(self, sign):
        if isinstance(self._answer, bool):
            return  # the look at an open end
        ahead = self._ahead
        ahead.bytes_now += sign * len(self._answer.buffer)
        ahead.count_now += sign
        ahead.max_bytes = max(ahead.max_bytes, ahead.bytes_now)
        ahead.max_count = max(ahead.max_count, ahead.count_now)


@pytest.fixture
def ahead(monkeypatch):
    ahead = AheadOfDecoder()
    monkeypatch.setattr(fetch_ahead, "BackgroundCall", ahead)
    return ahead


def test_a_task_has_requested_at_most_32_mib_that_it_has_not_decoded(log, driver, ahead):
    for partition in (0, 1):
        for _ in range(8):
            upload = driver.stage()
            for _ in range(7):
                upload.append(TopicPartition("t", partition), bytearray(a_batch([a_record(value=b"x" * 1024 * 1023)])))
            driver.commit_staged([upload.finish()])
    values, _ = Query(log, driver).run()
    assert len(values) == 2 * 8 * 7
    mib = 1024 * 1024
    assert 27 * mib <= ahead.max_bytes <= range_reader.OBJECT_AHEAD_BYTES == 32 * mib
    assert ahead.max_count == 4


def test_of_small_ranges_a_task_requests_at_most_16_at_once(log, driver, ahead, monkeypatch):
    monkeypatch.setattr(range_reader, "OBJECT_FETCH_BYTES", 100)
    for number in range(40):
        append(driver, f"{number:02}")
    assert Query(log, driver).run()[0] == [f"{number:02}" for number in range(40)]
    assert ahead.max_count == 16


def test_the_next_range_of_a_task_is_requested_while_the_last_one_is_decoded(log, driver, ahead, monkeypatch):
    monkeypatch.setattr(range_reader, "OBJECT_FETCH_BYTES", 100)
    for number in range(3):
        append(driver, f"a{number}")
        append(driver, f"b{number}", partition=1)
    assert Query(log, driver).run()[0] == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert ahead.max_count == 6


def test_a_plan_of_very_many_ranges_is_continued_by_the_log(log, driver, monkeypatch):
    monkeypatch.setattr("broker_core.object_cluster.object_reads.MAX_PLANNED_READ_COUNT", 2)
    for number in range(5):
        append(driver, str(number))
    query = Query(log, driver, endingOffsets='{"t": {"0": 4, "1": 0}}')
    assert len(pickle.loads(query.task)[0].fetch_plan.reads) < 300
    assert query.run()[0] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("start", ["earliest", '{"t": {"0": 0, "1": 0}}'])
def test_records_that_retention_removed_after_planning_are_lost_unless_the_start_follows_the_log(log, driver, start):
    append(driver, "a", "b")
    append(driver, "c")
    query = Query(log, driver, startingOffsets=start, endingOffsets='{"t": {"0": 3, "1": 0}}')
    driver.delete_records(T0, 2)
    assert query.run()[0] == ["a", "b", "c"], "the objects stay for the grace time"
    let_objects_go(log, driver)
    if start == "earliest":
        assert query.run()[0] == ["c"]
    else:
        with pytest.raises(ConditionError, match=r"KAFKA_DATA_LOSS\.COULD_NOT_READ_OFFSET_RANGE"):
            query.run()
        lenient = Query(log, driver, failOnDataLoss="false", startingOffsets=start, **CLOSED)
        assert lenient.run()[0] == ["c"]


def test_ranges_that_were_merged_meanwhile_are_found_where_they_are_now(log, driver):
    for number in range(8):
        append(driver, str(number))
    query = Query(log, driver, endingOffsets='{"t": {"0": 8, "1": 0}}')
    driver.maintain(grace_ms=1000)
    let_objects_go(log, driver)
    assert query.run()[0] == [str(number) for number in range(8)]


def test_a_topic_that_was_deleted_or_made_again_is_reported_as_in_any_log(log, driver):
    append(driver, "a")
    query = Query(log, driver, endingOffsets='{"t": {"0": 1, "1": 0}}')
    driver.delete_topic("t")
    let_objects_go(log, driver)
    with pytest.raises(ConditionError, match=r"KAFKA_DATA_LOSS\.PARTITIONS_DELETED"):
        query.run()
    driver.create_topic("t", partition_count=2)
    append(driver, "new")
    with pytest.raises(ConditionError, match=r"KAFKA_DATA_LOSS\.TOPIC_RECREATED"):
        query.run()


def test_a_range_whose_data_is_lost_when_it_is_planned_gets_no_plan(log, driver):
    append(driver, "a", "b")
    topic_id = driver.describe_topics()["t"].topic_id
    lost = PlannedRange(topic_partition=T0, from_offset=0, until_offset=2, topic_id=topic_id, planned_offsets=(0, 2))
    ((kept,),) = with_fetch_plans(driver, [(lost,)])
    assert kept.fetch_plan is not None
    driver.delete_records(T0, 1)
    ((found,),) = with_fetch_plans(driver, [(lost,)])
    assert found.fetch_plan is None and UsablePlans(driver, [found]).of(found) is None
    driver.delete_topic("t")
    assert with_fetch_plans(driver, [(lost,)]) == [(lost,)]
    driver.create_topic("t")
    append(driver, "x", "y")
    assert with_fetch_plans(driver, [(lost,)]) == [(lost,)], "another topic of this name"


def test_a_small_batch_is_read_where_it_is_planned_and_asks_for_data_only(log, driver):
    append(driver, "a", "b")
    append(driver, "c", partition=1)
    topic_id = driver.describe_topics()["t"].topic_id
    ranges = tuple(
        PlannedRange(topic_partition=tp, from_offset=0, until_offset=end, topic_id=topic_id, planned_offsets=(0, end))
        for tp, end in ((T0, 2), (T1, 1))
    )
    before = log.store.requests.copy()
    with known_state(driver):
        (planned,) = with_fetch_plans(driver, [ranges])
        assert values_of(read_small_batch(driver, planned, options())) == ["a", "b", "c"]
    assert log.store.requests - before == {"get_ranges": 2}


def test_a_run_with_available_now_looks_once_and_again_only_between_its_batches(log, driver, monkeypatch, tmp_path):
    append(driver, "a", "b")
    monkeypatch.setattr(open_cluster, "_reopened", lambda target, create: driver)
    url = f"objects://{tmp_path}/log"
    reader = StreamlogStreamReader(
        read_options(QueryKind.STREAM, path=url, startingOffsets="earliest", maxOffsetsPerTrigger="1")
    )
    limit = reader.getDefaultReadLimit()
    requests = []

    def counted(answer):
        requests.append(dict(log.store.requests - before))
        before.update(log.store.requests - before)
        return answer

    before = log.store.requests.copy()
    counted(reader.prepareForTriggerAvailableNow())
    start = counted(reader.initialOffset())
    ends = []
    for _ in range(2):
        ends.append(counted(reader.latestOffset(start, limit)))
        counted(reader.partitions(start, ends[-1]))
        start = ends[-1]
    assert counted(reader.latestOffset(start, limit)) == start
    assert [end["t"]["0"] for end in ends] == [1, 2]
    look, none = {"get": 1}, {}
    assert requests == [look, none, none, none, look, none, none]
