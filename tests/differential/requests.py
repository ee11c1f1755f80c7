"""Requests that many scenarios send, in the form of each version: topics by name and by id at once."""

from __future__ import annotations

from uuid import UUID

from broker_core.protocol.api_table import ApiKey

UNKNOWN_ID = UUID("11111111-2222-3333-4444-555555555555")
NO_SUCH = "no-such-topic"


def places(topic, partitions):
    """One topic of a fetch, by name and by id."""
    return {"topic": topic.name, "topic_id": topic.id, "partitions": partitions}


def produce_topic(topic, *batches_and_partitions):
    """`(partition, records)` each."""
    data = [{"index": index, "records": records} for index, records in batches_and_partitions]
    return {"name": topic.name, "topic_id": topic.id, "partition_data": data}


def produce(play, topic, records, *, version=9, partition=0, acks=-1, note="", transactional_id=None):
    return play.ask(
        ApiKey.PRODUCE,
        version,
        note=note,
        acks=acks,
        timeout=10_000,
        transactional_id=transactional_id,
        topic_data=[produce_topic(topic, (partition, bytes(records)))],
    )


def write(play, topic, records, *, partition=0, transactional_id=None):
    """Without a note."""
    return play.quietly(
        ApiKey.PRODUCE,
        9,
        acks=-1,
        timeout=10_000,
        transactional_id=transactional_id,
        topic_data=[produce_topic(topic, (partition, bytes(records)))],
    )


def fetch_place(topic, partition=0, offset=0, *, max_bytes=2**20, epoch=-1, last_epoch=-1, start=-1):
    asked = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": max_bytes,
        "log_start_offset": start,
        "current_leader_epoch": epoch,
        "last_fetched_epoch": last_epoch,
    }
    return places(topic, [asked])


def fetch_fields(*topics, max_wait=0, min_bytes=0, max_bytes=2**25, isolation=0, session=(0, -1), forgotten=(), **more):
    return {
        "max_wait": max_wait,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": topics,
        "forgotten_topics_data": forgotten,
        "replica_id": -1,
        "rack_id": "",
        **more,
    }


def fetch(play, *topics, version=12, note="", **fields):
    return play.ask(ApiKey.FETCH, version, note=note, **fetch_fields(*topics, **fields))


def list_place(name, partition, timestamp, epoch=-1):
    asked = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    return {"name": name, "partitions": [asked]}


def latest(play, topic, partition=0):
    return play.ask(
        ApiKey.LIST_OFFSETS, 4, note="where it ends", replica_id=-1, topics=[list_place(topic.name, partition, -1)]
    )


def new_producer(play, transactional_id=None, *, version=5, timeout=60_000, producer=(-1, -1)):
    """(id, epoch), without a note; an internal topic may have to be created first."""
    answer = play.quietly(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=transactional_id,
        transaction_timeout=timeout,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    play.names.of("producer", answer.producer_id)
    return answer.producer_id, answer.producer_epoch
