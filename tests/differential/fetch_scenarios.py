"""Fetch: bounds, sizes, waits, epochs, isolation, sessions."""

from differential.requests import (
    NO_SUCH,
    UNKNOWN_ID,
    fetch,
    fetch_fields,
    fetch_place,
    new_producer,
    places,
    write,
)
from differential.scenario import for_versions
from differential.side import Topic
from support.builders.builders import a_batch

from broker_core.protocol.api_table import ApiKey


@for_versions(ApiKey.FETCH)
def sizes_and_bounds(play, version):
    topic = play.topic(partitions=2)
    for count in (3, 1, 4):
        write(play, topic, a_batch(count))
    for offset in (0, 1, 2, 3, 4, 7, 8, 9, -1, -2, 2**62):
        fetch(play, fetch_place(topic, 0, offset), version=version, note=f"from {offset}")
    for size in (0, 1, 61, 100, 250):
        fetch(play, fetch_place(topic, 0, 0, max_bytes=size), version=version, note=f"partition's max {size}")
        fetch(play, fetch_place(topic, 0, 0), version=version, max_bytes=size, note=f"max {size}")
    both = places(topic, [fetch_place(topic, p)["partitions"][0] for p in (0, 1)])
    write(play, topic, a_batch(2), partition=1)
    fetch(play, both, version=version, note="both")
    fetch(play, both, version=version, max_bytes=1, note="both, max 1")
    fetch(play, both, version=version, max_bytes=200, note="both, max 200")
    fetch(play, both, version=version, min_bytes=2**30, max_wait=50, note="more than there is")
    fetch(play, fetch_place(topic, 0, 8), version=version, min_bytes=1, max_wait=50, note="at the end, waits")
    fetch(play, fetch_place(topic, 0, 8), version=version, min_bytes=1, max_wait=0, note="at the end, no wait")
    fetch(play, fetch_place(topic, 0, 99), version=version, min_bytes=1, max_wait=10_000, note="an error waits not")
    fetch(play, fetch_place(topic, 0, 0), version=version, min_bytes=-1, max_wait=-1, note="negative waits")


@for_versions(ApiKey.FETCH)
def places_that_are_not_there(play, version):
    topic, other = play.topic(), play.topic("u")
    write(play, topic, a_batch())
    bad = {
        "unknown topic": [fetch_place(Topic(NO_SUCH, UNKNOWN_ID))],
        "no name and no id": [fetch_place(Topic("", None))],
        "bad name": [fetch_place(Topic("a b/c", UNKNOWN_ID))],
        "partition 7": [fetch_place(topic, 7)],
        "partition -1": [fetch_place(topic, -1)],
        "good and bad": [
            fetch_place(Topic(NO_SUCH, UNKNOWN_ID)),
            fetch_place(topic),
            fetch_place(topic, 7),
            fetch_place(other),
        ],
        "twice": [fetch_place(topic), fetch_place(topic, 0, 1)],
        "no partitions": [places(topic, [])],
        "nothing": [],
    }
    for note, topics in bad.items():
        fetch(play, *topics, version=version, note=note)
        fetch(play, *topics, version=version, note=f"{note}, waits", min_bytes=1, max_wait=30)


@for_versions(ApiKey.FETCH)
def leader_epochs(play, version):
    topic = play.topic()
    write(play, topic, a_batch())
    for epoch in (-1, 0, 1, 5, -7):
        fetch(play, fetch_place(topic, 0, 0, epoch=epoch), version=version, note=f"leader epoch {epoch}")
        fetch(play, fetch_place(topic, 0, 3, last_epoch=epoch), version=version, note=f"last fetched epoch {epoch}")
        fetch(play, fetch_place(topic, 0, 9, last_epoch=epoch), version=version, note=f"beyond, last epoch {epoch}")


@for_versions(ApiKey.FETCH)
def below_the_start(play, version):
    topic = play.topic()
    for _ in range(3):
        write(play, topic, a_batch(2))
    trim = {"name": topic.name, "partitions": [{"partition_index": 0, "offset": 3}]}
    play.quietly(ApiKey.DELETE_RECORDS, 2, topics=[trim], timeout=5000)
    for offset in (0, 2, 3, 4, 6, 7):
        fetch(play, fetch_place(topic, 0, offset), version=version, note=f"from {offset}")


@for_versions(ApiKey.FETCH)
def isolation(play, version):
    topic = play.topic()
    ids = [play.name(f"tid-{n}") for n in range(3)]
    producers = [new_producer(play, one) for one in ids]

    def add_and_write(n, count, sequence):
        whole = {"transactional_id": ids[n], "producer_id": producers[n][0], "producer_epoch": producers[n][1]}
        play.quietly(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=ids[n],
            v3_and_below_producer_id=producers[n][0],
            v3_and_below_producer_epoch=producers[n][1],
            v3_and_below_topics=[{"name": topic.name, "partitions": [0]}],
        )
        batch = a_batch(count, producer=(*producers[n], sequence), is_transactional=True)
        write(play, topic, batch, transactional_id=ids[n])
        return whole

    def look(note):
        for level in (0, 1):
            for offset in (0, 4):
                fetch(
                    play,
                    fetch_place(topic, 0, offset),
                    version=version,
                    isolation=level,
                    note=f"{note} {level} {offset}",
                )

    def end(n, whole, committed):
        play.quietly(ApiKey.END_TXN, 3, **whole, committed=committed)
        play.until_ended(ids[n])

    first = add_and_write(0, 2, 0)
    write(play, topic, a_batch(1))
    second = add_and_write(1, 3, 0)
    look("open")
    end(1, second, False)
    write(play, topic, a_batch(1))
    look("one aborted")
    end(0, first, True)
    look("one committed")
    third = add_and_write(2, 1, 0)
    end(2, third, False)
    look("all ended")
    fetch(play, fetch_place(topic, 0, 12), version=version, isolation=1, note="the end")


@for_versions(ApiKey.FETCH, first=7)
def sessions(play, version):
    topic, other = play.topic(partitions=2), play.topic("u")
    write(play, topic, a_batch())

    def ask(note, session, *topics, **more):
        return fetch(play, *topics, version=version, session=session, note=note, **more)

    ask("unknown session", (12345, 1), fetch_place(topic))
    ask("id 0 at epoch 5", (0, 5), fetch_place(topic))
    ask("id 0 at epoch -7", (0, -7), fetch_place(topic))
    ask("id 77 ends", (77, -1), fetch_place(topic))
    ask("id 77 begins", (77, 0), fetch_place(topic))
    first = ask("begins", (0, 0), fetch_place(topic), fetch_place(topic, 1), fetch_place(other))
    mine = first.session_id
    ask("goes on, nothing new", (mine, 1))
    ask("the epoch before", (mine, 1))
    ask("an epoch too far", (mine, 5))
    write(play, topic, a_batch(1), partition=1)
    ask("something new", (mine, 2))
    ask("still unfetched", (mine, 3))
    ask("moves on", (mine, 4), fetch_place(topic, 0, 3), fetch_place(topic, 1, 1))
    ask("nothing left", (mine, 5), max_wait=20, min_bytes=1)
    ask("forgets", (mine, 6), forgotten=[places(topic, [1])])
    write(play, topic, a_batch(2), partition=1)
    write(play, topic, a_batch(2))
    ask("only the other", (mine, 7))
    ask(
        "forgets what it has not", (mine, 8), forgotten=[places(topic, [1, 9]), places(Topic(NO_SUCH, UNKNOWN_ID), [0])]
    )
    ask("adds an unknown topic", (mine, 9), fetch_place(Topic(NO_SUCH, UNKNOWN_ID)))
    ask("which stays", (mine, 10))
    ask("forgets and adds", (mine, 11), fetch_place(topic, 1, 0), forgotten=[places(topic, [1])])
    ask("out of range", (mine, 12), fetch_place(topic, 0, 99))
    ask("still out of range", (mine, 13))
    again = ask("restarts with its id", (mine, 0), fetch_place(topic))
    ask("the old one is gone", (mine, 14))
    ask("the new one goes on", (again.session_id, 1))
    ask("ends", (again.session_id, -1), fetch_place(other))
    ask("is gone", (again.session_id, 2))
    empty = ask("begins with nothing", (0, 0))
    ask("and goes on with nothing", (empty.session_id, 1))
    ask("no session, nothing asked", (0, -1))


@for_versions(ApiKey.FETCH)
def waits_until_something_comes(play, version):
    topic = play.topic()
    play.settle()
    pending = play.begin(ApiKey.FETCH, version, **fetch_fields(fetch_place(topic, 0, 0), max_wait=20_000, min_bytes=1))
    write(play, topic, a_batch(1))
    pending.answer("one record is enough")
    pending = play.begin(
        ApiKey.FETCH, version, **fetch_fields(fetch_place(topic, 0, 1), max_wait=20_000, min_bytes=200)
    )
    write(play, topic, a_batch(1))
    write(play, topic, a_batch(8))
    pending.answer("until there are 200 bytes")
    pending = play.begin(ApiKey.FETCH, version, **fetch_fields(fetch_place(topic, 0, 10), max_wait=20_000, min_bytes=1))
    play.pause()
    play.quietly(ApiKey.DELETE_TOPICS, 5, topic_names=[topic.name], timeout=5000)
    pending.answer("its topic goes")


@for_versions(ApiKey.FETCH)
def replicas_that_are_none(play, version):
    topic = play.topic()
    write(play, topic, a_batch())
    state = {"replica_id": 9, "replica_epoch": 1}
    fetch(play, fetch_place(topic), version=version, replica_id=9, replica_state=state, note="replica 9")
    fetch(play, fetch_place(topic), version=version, rack_id="somewhere", note="a rack")
    if version >= 12:
        fetch(play, fetch_place(topic), version=version, cluster_id="another", note="another cluster's id")
