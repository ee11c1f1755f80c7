import pickle

from support.objects.object_builders import LOG_ID, TOPIC_ID, a_commit, a_range, a_topic, an_append

from broker_core.object_log.log_image import LogImage
from broker_core.object_log.read_plan import MAX_PLANNED_READ_COUNT, PlannedRead, decode_reads, encode_reads, plan_read


def a_read(number, **fields):
    values = {"object": f"data/{number}", "position": number, "size_bytes": 5, "base_offset": number, "offset_count": 1}
    return PlannedRead(**(values | fields))


def test_a_plan_arrives_as_it_was_sent():
    reads = (a_read(1), a_read(2, object="data/1", size_bytes=2**40), a_read(2**62, position=0))
    for each in ((), reads[:1], reads):
        assert decode_reads(pickle.loads(pickle.dumps(encode_reads(each)))) == each


def test_the_plan_of_a_hundred_thousand_ranges_is_small_and_whole_from_its_start():
    image = LogImage(LOG_ID)
    image.apply(a_commit(1, a_topic(partitions=1)))
    image.apply(a_commit(2, an_append(*(a_range(number) for number in range(100_000)))))
    partition = image.partition(TOPIC_ID, 0)
    assert len(plan_read(partition, 0, 1_000_000)) == 100_000
    reads = plan_read(partition, 5, 1_000_000, max_count=MAX_PLANNED_READ_COUNT)
    assert len(reads) == MAX_PLANNED_READ_COUNT
    assert [read.base_offset for read in reads] == list(range(0, 10 * MAX_PLANNED_READ_COUNT, 10))
    assert len(encode_reads(reads)) < 40 * MAX_PLANNED_READ_COUNT
    few = plan_read(partition, 500_000, 500_030)
    assert len(few) == 3 and len(encode_reads(few)) < 300
