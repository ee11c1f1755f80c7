"""Topics: created, listed, extended, deleted; their records deleted; their offsets listed."""

from differential.requests import (
    NO_SUCH,
    UNKNOWN_ID,
    fetch,
    fetch_place,
    list_place,
    new_producer,
    produce_topic,
    write,
)
from differential.scenario import for_versions, once
from support.builders.builders import SOME_TIME_MS, a_batch, a_record

from broker_core.model.identifiers import CompressionType
from broker_core.protocol.api_table import ApiKey

SEEN_ONLY = {"allow_auto_topic_creation": False}
BAD_NAMES = ("", ".", "..", "a b", "a/b", "ä", "x" * 249, "x" * 250, "a\0b", "__consumer_offsets", "__cluster_metadata")


def wanted(name, partitions=1, factor=1, assignments=(), configs=()):
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments],
        "configs": [{"name": key, "value": value} for key, value in configs],
    }


def odd_topics(name):
    """By what is unusual about each."""
    return {
        "plain": [wanted(f"{name}-a")],
        "exists": [wanted(f"{name}-a")],
        "default numbers": [wanted(f"{name}-b", -1, -1)],
        "0 partitions": [wanted(f"{name}-c", 0)],
        "-2 partitions": [wanted(f"{name}-c", -2)],
        "0 replicas": [wanted(f"{name}-c", 1, 0)],
        "2 replicas": [wanted(f"{name}-c", 1, 2)],
        "-2 replicas": [wanted(f"{name}-c", 1, -2)],
        "twice": [wanted(f"{name}-d"), wanted(f"{name}-d", 2)],
        "none": [],
        "assigned": [wanted(f"{name}-e", -1, -1, [(0, [1]), (1, [1])])],
        "assigned with numbers": [wanted(f"{name}-f", 1, 1, [(0, [1])])],
        "assigned with a gap": [wanted(f"{name}-f", -1, -1, [(0, [1]), (2, [1])])],
        "assigned from 1": [wanted(f"{name}-f", -1, -1, [(1, [1])])],
        "assigned twice": [wanted(f"{name}-f", -1, -1, [(0, [1]), (0, [1])])],
        "assigned to nobody": [wanted(f"{name}-f", -1, -1, [(0, [])])],
        "assigned to a stranger": [wanted(f"{name}-f", -1, -1, [(0, [7])])],
        "assigned to one twice": [wanted(f"{name}-f", -1, -1, [(0, [1, 1])])],
        "settings": [wanted(f"{name}-g", configs=[("retention.ms", "1000"), ("cleanup.policy", "compact,delete")])],
        "a null setting": [wanted(f"{name}-h", configs=[("retention.ms", None)])],
        "an unknown setting": [wanted(f"{name}-i", configs=[("no.such", "1")])],
        "a bad value": [wanted(f"{name}-i", configs=[("retention.ms", "soon")])],
        "a value out of range": [wanted(f"{name}-i", configs=[("segment.bytes", "1")])],
        "a bad policy": [wanted(f"{name}-i", configs=[("cleanup.policy", "burn")])],
        "a setting twice": [wanted(f"{name}-j", configs=[("retention.ms", "1"), ("retention.ms", "2")])],
        "an empty setting": [wanted(f"{name}-i", configs=[("retention.ms", "")])],
        "an empty name of a setting": [wanted(f"{name}-i", configs=[("", "1")])],
        "good and bad": [wanted(f"{name}-k"), wanted("a b"), wanted(f"{name}-l", 0)],
    }


@for_versions(ApiKey.CREATE_TOPICS)
def creates(play, version):
    name = play.name("t")
    for note, topics in odd_topics(name).items():
        for only_checked in (True, False):
            play.ask(
                ApiKey.CREATE_TOPICS,
                version,
                note=f"{note}{', validated' if only_checked else ''}",
                topics=topics,
                timeout=5000,
                validate_only=only_checked,
            )
    for bad in BAD_NAMES:
        play.ask(
            ApiKey.CREATE_TOPICS, version, note=f"{bad[:20]!r}", topics=[wanted(bad)], timeout=5000, validate_only=True
        )
    play.settle()
    names = [f"{name}-{letter}" for letter in "abdeghjk"]
    play.ask(
        ApiKey.METADATA,
        12,
        note="what is there",
        topics=[{"name": one} for one in names],
        **SEEN_ONLY,
        listing=_without_ids,
    )


def _without_ids(answer):
    """Kafka returns them in any order, and ids are named in order of appearance."""
    return answer | {"topics": [topic | {"topic_id": None} for topic in answer["topics"]]}


@for_versions(ApiKey.DELETE_TOPICS)
def deletes(play, version):
    topics = {letter: play.topic(letter) for letter in "abcd"}
    write(play, topics["a"], a_batch())

    def by_name(note, *names):
        play.ask(
            ApiKey.DELETE_TOPICS,
            version,
            note=note,
            timeout=5000,
            topic_names=names,
            topics=[{"name": name, "topic_id": None} for name in names],
        )

    by_name("one", topics["a"].name)
    play.settle()
    by_name("one that is gone", topics["a"].name)
    by_name("none")
    by_name("unknown", NO_SUCH)
    for bad in ("", "a b", "."):
        by_name(f"bad name {bad!r}", bad)
    by_name("one twice", topics["b"].name, topics["b"].name)
    by_name("good and bad", topics["c"].name, NO_SUCH)
    if version >= 6:
        for note, fields in {
            "by id": {"name": None, "topic_id": topics["d"].id},
            "by an id that is gone": {"name": None, "topic_id": topics["a"].id},
            "by an unknown id": {"name": None, "topic_id": UNKNOWN_ID},
            "by both": {"name": topics["b"].name, "topic_id": topics["b"].id},
            "by neither": {"name": None, "topic_id": None},
        }.items():
            play.ask(ApiKey.DELETE_TOPICS, version, note=note, topics=[fields], timeout=5000)
    play.settle()
    play.ask(
        ApiKey.METADATA, 9, note="what is left", topics=[{"name": topic.name} for topic in topics.values()], **SEEN_ONLY
    )
    again = play.topic("a")
    fetch(play, fetch_place(again), note="a new one of the name is empty")
    fetch(play, fetch_place(topics["a"]), version=13, note="its old id")


@for_versions(ApiKey.CREATE_PARTITIONS)
def grows(play, version):
    topic, other = play.topic("a", 2), play.topic("b")

    def ask(note, *wishes, check=False):
        topics = [
            {"name": name, "count": count, "assignments": brokers and [{"broker_ids": one} for one in brokers]}
            for name, count, brokers in wishes
        ]
        play.ask(ApiKey.CREATE_PARTITIONS, version, note=note, topics=topics, timeout=5000, validate_only=check)

    ask("checked only", (topic.name, 3, None), check=True)
    ask("to 3", (topic.name, 3, None))
    for count in (3, 2, 1, 0, -1, -5):
        ask(f"to {count}", (topic.name, count, None))
    ask("to 4, assigned", (topic.name, 4, [[1]]))
    ask("too few assignments", (topic.name, 6, [[1]]))
    ask("too many assignments", (topic.name, 5, [[1], [1]]))
    ask("assigned to nobody", (topic.name, 5, [[]]))
    ask("assigned to a stranger", (topic.name, 5, [[9]]))
    ask("assigned to one twice", (topic.name, 5, [[1, 1]]))
    ask("no assignments", (topic.name, 5, ()))
    ask("unknown", (NO_SUCH, 3, None))
    ask("bad name", ("a b", 3, None))
    ask("twice", (other.name, 2, None), (other.name, 3, None))
    ask("good and bad", (other.name, 2, None), (NO_SUCH, 2, None))
    ask("none")
    play.settle()
    play.ask(ApiKey.METADATA, 9, note="what is there", topics=[{"name": topic.name}, {"name": other.name}], **SEEN_ONLY)


@for_versions(ApiKey.METADATA)
def describes(play, version):
    topic, other = play.topic("a", 2), play.topic("b")

    def ask(note, *topics, **more):
        fields = {"allow_auto_topic_creation": False} | more
        return play.ask(ApiKey.METADATA, version, note=note, topics=topics, **fields)

    def named(name, topic_id=None):
        return {"name": name, "topic_id": topic_id}

    ask("two", named(other.name), named(topic.name))
    ask("one twice", named(topic.name), named(topic.name))
    if version > 0:
        ask("none")
    if version >= 4:
        ask("unknown", named(NO_SUCH), named(topic.name))
        for bad in BAD_NAMES[:-2]:
            ask(f"{bad[:20]!r}", named(bad))
    ask(
        "with all operations",
        named(topic.name),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    if version >= 10:
        ask("by id", named(None, topic.id))
        ask("by unknown id", named(None, UNKNOWN_ID))
        ask("by both", named(topic.name, topic.id))
        ask("by name and another's id", named(topic.name, other.id))
        ask("by neither", named(None, None))
        ask("by id and by name", named(None, topic.id), named(other.name))
    everything = play.ask(
        ApiKey.METADATA,
        version,
        note="all",
        topics=None if version else [],
        allow_auto_topic_creation=False,
        listing=lambda answer: (
            answer | {"topics": [t for t in answer["topics"] if t["name"] in (topic.name, other.name)]}
        ),
    )
    assert everything is not None
    if version >= 4:
        ask("made at first sight", named(play.name("new")), allow_auto_topic_creation=True)
        play.until_there(play.name("new"))
        ask("is there", named(play.name("new")))
        ask("bad name, made at first sight", named("a b"), allow_auto_topic_creation=True)


@for_versions(ApiKey.DELETE_RECORDS)
def deletes_records(play, version):
    topic, compacted = play.topic("a", 2), play.topic("c", cleanup__policy="compact")
    for _ in range(4):
        write(play, topic, a_batch(2))

    def ask(note, *places, name=topic.name, timeout=5000):
        partitions = [{"partition_index": partition, "offset": offset} for partition, offset in places]
        play.ask(
            ApiKey.DELETE_RECORDS,
            version,
            note=note,
            topics=[{"name": name, "partitions": partitions}],
            timeout=timeout,
        )

    for offset in (0, 3, 2, -2, 9, 8):
        ask(f"to {offset}", (0, offset))
    ask("to the end", (0, -1))
    ask("to the end of nothing", (1, -1), (1, 0))
    ask("partition 7", (7, 0))
    ask("partition -1", (-1, 0))
    ask("no partitions")
    ask("unknown", (0, 0), name=NO_SUCH)
    ask("bad name", (0, 0), name="a b")
    ask("good and bad", (1, 0), (9, 0))
    ask("compacted", (0, 0), name=compacted.name)
    ask("internal", (0, 0), name="__consumer_offsets")
    ask("no time", (0, 8), timeout=0)
    play.ask(ApiKey.DELETE_RECORDS, version, note="nothing", topics=[], timeout=1000)
    for timestamp in (-1, -2, -4, 0):
        play.ask(
            ApiKey.LIST_OFFSETS, 8, note=f"{timestamp}", replica_id=-1, topics=[list_place(topic.name, 0, timestamp)]
        )


@for_versions(ApiKey.LIST_OFFSETS)
def offsets(play, version):
    topic, empty = play.topic("a", 2), play.topic("b")
    write(play, topic, a_batch([a_record(n, timestamp_ms=SOME_TIME_MS + t) for n, t in enumerate((0, 10, 5))]))
    write(
        play,
        topic,
        a_batch(
            [a_record(n, timestamp_ms=SOME_TIME_MS + t) for n, t in enumerate((3, 30, 20))],
            compression=CompressionType.LZ4,
        ),
    )
    write(play, topic, a_batch([a_record(0, timestamp_ms=SOME_TIME_MS + 30)]))
    special = (-1, -2, -3, -4, -5, -6, -7, -100)
    searched = [SOME_TIME_MS + t for t in (-1, 0, 1, 4, 5, 6, 10, 11, 20, 30, 31)]

    def ask(note, *topics, isolation=0, replica=-1):
        play.ask(
            ApiKey.LIST_OFFSETS,
            version,
            note=note,
            replica_id=replica,
            isolation_level=isolation,
            topics=topics,
            timeout=1000,
        )

    for timestamp in (*special, 0, 1, *searched, 2**62):
        ask(f"{timestamp}", list_place(topic.name, 0, timestamp), list_place(empty.name, 0, timestamp))
    for isolation in (1,):
        for timestamp in (-1, -2, -3, SOME_TIME_MS):
            ask(f"{timestamp} {isolation=}", list_place(topic.name, 0, timestamp), isolation=isolation)
    for epoch in (0, 1, -5):
        ask(f"{epoch=}", list_place(topic.name, 0, -1, epoch))
    for replica in (1, -2, 7):
        ask(f"{replica=}", list_place(topic.name, 0, -1), replica=replica)
    ask("unknown", list_place(NO_SUCH, 0, -1))
    ask("partition 7", list_place(topic.name, 7, -1))
    ask("partition -1", list_place(topic.name, -1, -2))
    ask("twice", list_place(topic.name, 0, -1), list_place(topic.name, 0, -2))
    ask(
        "twice, in one topic",
        {
            "name": topic.name,
            "partitions": [{"partition_index": 0, "timestamp": t, "current_leader_epoch": -1} for t in (-1, -2)],
        },
    )
    ask("no partitions", {"name": topic.name, "partitions": []})
    ask("nothing")
    ask("bad name", list_place("a b", 0, -1))


@for_versions(ApiKey.LIST_OFFSETS, first=2)
def offsets_under_a_transaction(play, version):
    topic, mine = play.topic(), play.name("tid")
    write(play, topic, a_batch([a_record(0, timestamp_ms=SOME_TIME_MS)]))
    producer = new_producer(play, mine)
    whole = {"transactional_id": mine, "producer_id": producer[0], "producer_epoch": producer[1]}
    batch = a_batch([a_record(0, timestamp_ms=SOME_TIME_MS + 50)], producer=(*producer, 0), is_transactional=True)
    play.quietly(
        ApiKey.PRODUCE,
        12,
        acks=-1,
        timeout=5000,
        transactional_id=mine,
        topic_data=[produce_topic(topic, (0, bytes(batch)))],
    )
    for isolation in (0, 1):
        for timestamp in (-1, -2, -3, -4, SOME_TIME_MS + 20):
            play.ask(
                ApiKey.LIST_OFFSETS,
                version,
                note=f"{timestamp} {isolation=}",
                replica_id=-1,
                isolation_level=isolation,
                topics=[list_place(topic.name, 0, timestamp)],
                timeout=1000,
            )
    play.quietly(ApiKey.END_TXN, 4, **whole, committed=True)


@for_versions(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def ends_of_epochs(play, version):
    topic, empty = play.topic("a", 2), play.topic("b")
    write(play, topic, a_batch(4))

    def ask(note, name, partition=0, current=-1, epoch=0, replica=-1):
        asked = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        play.ask(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            version,
            note=note,
            replica_id=replica,
            topics=[{"topic": name, "partitions": [asked]}],
        )

    for epoch in (0, 1, 5, -1, -2):
        ask(f"{epoch=}", topic.name, epoch=epoch)
        ask(f"current {epoch}", topic.name, current=epoch)
        ask(f"empty {epoch=}", empty.name, epoch=epoch)
    for partition in (1, 2, -1):
        ask(f"{partition=}", topic.name, partition)
    ask("unknown", NO_SUCH)
    ask("bad name", "a b")
    for replica in (-2, 1, 5):
        ask(f"{replica=}", topic.name, replica=replica)
    play.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, note="nothing", replica_id=-1, topics=[])


@for_versions(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describes_partitions(play, version):
    topic, other = play.topic("a", 3), play.topic("b", 2)

    def ask(note, *names, limit=2000, cursor=None):
        play.ask(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            version,
            note=note,
            topics=[{"name": name} for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        )

    ask("two", other.name, topic.name)
    ask("twice", topic.name, topic.name)
    ask("unknown", NO_SUCH, topic.name)
    ask("bad names", "", "a b")
    for limit in (1, 2, 3, 4, 0, -1):
        ask(f"{limit=}", topic.name, other.name, limit=limit)
    for name, index in (
        (topic.name, 0),
        (topic.name, 2),
        (topic.name, 3),
        (topic.name, -1),
        (other.name, 1),
        ("zzz", 0),
    ):
        ask(f"from {name} {index}", topic.name, other.name, cursor={"topic_name": name, "partition_index": index})
        ask(
            f"from {name} {index}, at most 2",
            topic.name,
            other.name,
            limit=2,
            cursor={"topic_name": name, "partition_index": index},
        )


@for_versions(ApiKey.DESCRIBE_PRODUCERS)
def producers(play, version):
    topic, mine = play.topic("a", 2), play.name("tid")
    idempotent, transactional = new_producer(play), new_producer(play, mine)
    write(play, topic, a_batch(2, producer=(*idempotent, 0)))
    batch = a_batch(3, producer=(*transactional, 0), is_transactional=True)
    play.quietly(
        ApiKey.PRODUCE,
        12,
        acks=-1,
        timeout=5000,
        transactional_id=mine,
        topic_data=[produce_topic(topic, (1, bytes(batch)))],
    )

    def ask(note, name, *partitions):
        play.ask(
            ApiKey.DESCRIBE_PRODUCERS, version, note=note, topics=[{"name": name, "partition_indexes": partitions}]
        )

    ask("open", topic.name, 0, 1)
    play.quietly(
        ApiKey.END_TXN,
        4,
        transactional_id=mine,
        producer_id=transactional[0],
        producer_epoch=transactional[1],
        committed=True,
    )
    play.until_ended(mine)
    ask("ended", topic.name, 0, 1)
    ask("not there", topic.name, 7, -1)
    ask("twice", topic.name, 0, 0)
    ask("unknown", NO_SUCH, 0)
    ask("bad name", "a b", 0)
    ask("no partitions", topic.name)
    play.ask(ApiKey.DESCRIBE_PRODUCERS, version, note="nothing", topics=[])


@for_versions(ApiKey.DESCRIBE_LOG_DIRS)
def log_dirs(play, version):
    topic = play.topic("a", 2)
    write(play, topic, a_batch(3))

    def ask(note, topics):
        play.ask(
            ApiKey.DESCRIBE_LOG_DIRS,
            version,
            note=note,
            topics=topics,
            listing=lambda answer: _only(answer, play.shown_slug),
        )

    ask("both", [{"topic": topic.name, "partitions": [0, 1]}])
    ask("one", [{"topic": topic.name, "partitions": [0]}])
    ask("not there", [{"topic": topic.name, "partitions": [7, -1]}])
    ask("unknown", [{"topic": NO_SUCH, "partitions": [0]}])
    ask("no partitions", [{"topic": topic.name, "partitions": []}])
    ask("nothing", [])
    ask("everything", None)


def _only(answer, slug):
    dirs = [one | {"topics": [t for t in one["topics"] if t["name"].startswith(slug)]} for one in answer["results"]]
    return answer | {"results": dirs}


@once()
def a_topic_and_its_name_with_dots(play):
    """`a.b` and `a_b` are one metric's name: Kafka refuses the second."""
    for end in ("dots.and_more", "dots_and.more", "dots.and.more", "dots-and-more"):
        play.ask(ApiKey.CREATE_TOPICS, 7, note=end, topics=[wanted(play.name(end))], timeout=5000)
