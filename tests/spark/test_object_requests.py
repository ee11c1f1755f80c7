"""What a log on object storage costs: the requests of queries, counted between Spark and an S3 server.

docs/object-storage.md has the table; the long profile holds more of it.
"""

import time

import pytest
from support.builders.builders import a_batch
from support.objects.faulty_proxy import FaultyProxy
from support.objects.s3_servers import BUCKET, find_versitygw, moto, versitygw
from support.spark.object_place import ObjectPlace

from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.open_objects import open_objects

pytest.importorskip("obstore", reason="obstore is not installed: pip install 'spark-streamlog[objects]'")

TRIGGER_S = 0.2


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory):
    with versitygw(tmp_path_factory.mktemp("versitygw")) if find_versitygw() else moto() as server:
        yield server


class CountedPlace(ObjectPlace):
    """Spark's requests go through a proxy that counts them; those of `log` do not."""

    def __init__(self, spark, server, name):
        self.proxy = FaultyProxy(server.port)
        super().__init__(
            spark, f"s3://{BUCKET}/{name}/log", server.options(endpoint=f"http://127.0.0.1:{self.proxy.port}")
        )
        self.log = open_objects(self.url, server.options(), create=True)

    def append(self, *, tasks=1, partitions=3, records=20):
        """One commit of so many tasks, each of which wrote one object with records for each partition."""
        staged = []
        for _ in range(tasks):
            upload = self.log.stage()
            for partition in range(partitions):
                upload.append(TopicPartition("t", partition), bytearray(a_batch(records)))
            staged.append(upload.finish())
        self.log.commit_staged(staged)
        return tasks * partitions * records

    def stream(self, **options):
        given = self.options | {"subscribe": "t", "startingOffsets": "earliest"} | options
        return self.spark.readStream.format("streamlog").options(**given).load(self.url).select("key", "value")

    def requests(self):
        """(method, object or folder, status) of each, in the order of their answers."""
        return [(one.method, self._kind(one.path), one.status) for one in self.proxy.exchanges]

    def forget(self):
        self.proxy.exchanges.clear()

    def _kind(self, path):
        name = path.partition("/log/")[2] or path
        return name.partition("/")[0] if name.startswith(("commits/0", "data/0")) else name


@pytest.fixture
def places(spark, s3_server, tmp_path):
    """Two logs."""
    places = [CountedPlace(spark, s3_server, f"{tmp_path.name}-{number}") for number in range(2)]
    yield places
    for place in places:
        place.log.close()
        place.proxy.close()


@pytest.fixture
def place(places):
    return places[0]


LOOK_FINDS, LOOK_ENDS = ("GET", "commits", 200), ("GET", "commits", 404)
READ, UPLOAD = ("GET", "data", 206), ("PUT", "data", 200)
COMMIT, REFUSED = ("PUT", "commits", 200), ("PUT", "commits", 412)


@pytest.fixture
def started(tmp_path):
    """Starts a query that copies a frame; it is stopped at the end."""
    queries = []

    def start(frame, sink="noop", **options):
        checkpoint = str(tmp_path / f"checkpoint-{len(queries)}")
        writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", checkpoint)
        queries.append(writer.trigger(processingTime=f"{TRIGGER_S} seconds").start())
        return queries[-1]

    yield start
    for query in queries:
        query.stop()


def wait_for(what, query):
    deadline = time.monotonic() + 120
    while not what():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def wait_for_rows(query, count):
    wait_for(lambda: sum(progress.numInputRows for progress in query.recentProgress) >= count, query)


def wait_until_idle(place, query):
    # A process that loads the log asks for four commits at once.
    wait_for(lambda: place.requests()[-6:] == [LOOK_ENDS] * 6, query)


def from_to(requests, first, last):
    """From the first request of one kind to the last of another; idle triggers lie around them."""
    return requests[requests.index(first) : len(requests) - requests[::-1].index(last)]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="alone"),
        pytest.param({"groupId": "g", "pinRetention": "1h"}, id="with a group", marks=pytest.mark.long),
    ],
)
def test_an_idle_trigger_is_one_request(place, started, options):
    place.log.create_topic("t", partition_count=3)
    place.append()
    query = started(place.stream(**options))
    wait_for_rows(query, 60)
    wait_until_idle(place, query)
    place.forget()
    began = time.monotonic()
    wait_for(lambda: len(place.requests()) >= 5, query)
    requests, triggers = place.requests(), (time.monotonic() - began) / TRIGGER_S
    assert set(requests) == {LOOK_ENDS}
    assert len(requests) <= triggers + 1


@pytest.mark.parametrize(
    ("options", "reads"),
    [
        pytest.param(
            {"smallBatchOffsets": "0"},
            6,
            id="a task for each partition: its ranges in two objects",
            marks=pytest.mark.long,
        ),
        pytest.param({"smallBatchOffsets": "0", "maxPartitions": "1"}, 2, id="one task: adjoining ranges together"),
        pytest.param({}, 2, id="read where it is planned", marks=pytest.mark.long),
    ],
)
def test_a_micro_batch_in_is_two_requests_of_the_driver_and_data(place, started, options, reads):
    place.log.create_topic("t", partition_count=3)
    query = started(place.stream(**options))
    wait_until_idle(place, query)
    place.forget()
    wait_for_rows(query, place.append(tasks=2))
    assert from_to(place.requests(), LOOK_FINDS, READ) == [LOOK_FINDS, LOOK_ENDS, *[READ] * reads]


@pytest.mark.long
def test_a_micro_batch_out_is_one_request_for_each_task_and_one_that_commits(place, started):
    place.log.create_topic("out", partition_count=2)
    rows = {"rowsPerBatch": 12, "numPartitions": 3, "advanceMillisPerBatch": 1000}
    numbers = (
        place.spark.readStream.format("rate-micro-batch").options(**rows).load().selectExpr("string(value) AS value")
    )
    query = started(numbers, "streamlog", path=place.url, topic="out", **place.options)
    wait_for(lambda: place.requests().count(COMMIT) >= 5, query)
    query.stop()
    requests = from_to(place.requests(), COMMIT, COMMIT)[1:]
    batches = requests.count(COMMIT)
    assert batches >= 4
    assert requests.count(UPLOAD) == 3 * batches
    assert set(requests) <= {UPLOAD, COMMIT, LOOK_FINDS, LOOK_ENDS}
    # The process that plans the writes looks for new commits every half minute.
    assert len(requests) - 4 * batches <= batches + 1


@pytest.mark.long
def test_a_micro_batch_copied_to_another_log_is_three_requests_of_the_driver(places, started):
    source, target = places
    expected = [LOOK_FINDS, LOOK_ENDS, READ, READ], [COMMIT, UPLOAD, UPLOAD]
    seen = []
    for requests in copied_batches(source, target, started):
        seen.append((requests[0], sorted(requests[1])))
        if seen[-1] == expected:
            return
    raise AssertionError(f"more in each batch, not only until Spark's processes have opened the log: {seen}")


@pytest.mark.long
def test_a_micro_batch_copied_within_a_log_that_is_filled_is_five_requests_of_the_driver_in_turn(place, started):
    # The plan of the copy is from before the commit that brought the rows.
    again = [COMMIT, REFUSED, LOOK_FINDS, *[LOOK_ENDS] * 3]
    expected = [LOOK_FINDS, LOOK_ENDS, *sorted([READ, READ, UPLOAD, UPLOAD, *again])]
    seen = []
    for requests in copied_batches(place, place, started):
        seen.append([*requests[0][:2], *sorted(requests[0][2:])])
        if seen[-1] == expected:
            return
    raise AssertionError(f"more in each batch, not only until Spark's processes have opened the log: {seen}")


@pytest.mark.long
def test_a_process_whose_commits_were_refused_reads_the_new_commits_before_it_commits(place, started):
    expected = [LOOK_FINDS, LOOK_ENDS, *sorted([READ, READ, UPLOAD, UPLOAD, LOOK_FINDS, LOOK_ENDS, COMMIT])]
    seen = []
    for requests in copied_batches(place, place, started):
        seen.append([*requests[0][:2], *sorted(requests[0][2:])])
        if seen[-1] == expected:
            return
    raise AssertionError(f"each of its commits is refused: {seen}")


def copied_batches(source, target, started):
    """The requests for each log in a micro-batch with rows, batch by batch."""
    source.log.create_topic("t", partition_count=2)
    target.log.create_topic("out", partition_count=2)
    options = {"path": target.url, "topic": "out"} | target.options
    query = started(source.stream(smallBatchOffsets="0"), "streamlog", **options)
    rows = 0
    for _ in range(8):
        rows += source.append(partitions=2)
        wait_for_rows(query, rows)
        wait_for(lambda: COMMIT in target.requests(), query)
        wait_until_idle(source, query)
        requests = source.requests()
        last = COMMIT if target is source else READ
        yield from_to(requests, LOOK_FINDS, last), target.requests()
        for place in (source, target):
            place.forget()


@pytest.mark.long
def test_the_tasks_of_a_batch_query_request_data_and_where_its_end_is_open_whether_it_has_moved(place):
    place.log.create_topic("t", partition_count=3)
    place.append()
    ends = {"endingOffsets": '{"t": {"0": 20, "1": 20, "2": 20}}'}
    assert place.read(**ends).count() == 60
    requests = place.requests()
    assert requests[requests.index(READ) :] == [READ] * 3, "the tasks"
    place.forget()
    frame = place.read()
    assert frame.count() == 60
    # The process that plans has opened the log.
    assert sorted(place.requests()) == [LOOK_ENDS] * 4 + [READ] * 3
    place.append()
    assert frame.count() == 120, "a DataFrame that is used again sees new records"
