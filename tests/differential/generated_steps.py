"""Steps that can follow one another in any order. Each draws random numbers, the same on both sides."""

from __future__ import annotations

from differential.group_scenarios import NewMember, ScenarioMember, commit_topic, fetch_offsets
from differential.requests import fetch, fetch_place, list_place, produce
from differential.scenario import versions_of
from differential.side import Play
from differential.transaction_scenarios import ScenarioProducer
from support.builders.builders import a_batch

from broker_core.model.identifiers import CompressionType
from broker_core.protocol.api_table import ApiKey

STEPS = {}
PARTITIONS = (0, 1, 2)
"""The last one does not exist."""


class GeneratedPlay(Play):
    """With two topics of two partitions, two transactional producers, and members of two groups."""

    def __init__(self, side, name):
        super().__init__(side, name)
        self.topics = [self.topic(letter, 2) for letter in "ab"]
        self.producers = [ScenarioProducer(self, f"tid-{number}") for number in range(2)]
        for producer in self.producers:
            producer.begin()
        self.member = ScenarioMember(self, self.name("classic"))
        self.new_member = NewMember(self, self.name("new"), 1)


def step(act):
    STEPS[act.__name__] = act
    return act


@step
def write(play, dice):
    version = dice.choice(versions_of(ApiKey.PRODUCE))
    codec = dice.choice([one for one in CompressionType if version >= 7 or one is not CompressionType.ZSTD])
    batch = a_batch(dice.randrange(1, 4), compression=codec)
    produce(
        play,
        dice.choice(play.topics),
        batch,
        version=version,
        partition=dice.choice(PARTITIONS),
        acks=dice.choice((1, -1)),
    )


@step
def read(play, dice):
    version = dice.choice(versions_of(ApiKey.FETCH))
    place = fetch_place(
        dice.choice(play.topics), dice.choice(PARTITIONS), dice.randrange(-1, 12), max_bytes=dice.choice((1, 2**20))
    )
    fetch(play, place, version=version, isolation=dice.randrange(2), note="reads")


@step
def look_for_offsets(play, dice):
    version = dice.choice(versions_of(ApiKey.LIST_OFFSETS))
    place = list_place(dice.choice(play.topics).name, dice.choice(PARTITIONS), dice.choice((-1, -2, -4, 0, 2**50)))
    play.ask(
        ApiKey.LIST_OFFSETS,
        version,
        note="offsets",
        replica_id=-1,
        isolation_level=dice.randrange(2),
        topics=[place],
        timeout=1000,
    )


@step
def delete_records(play, dice):
    place = {"partition_index": dice.choice(PARTITIONS), "offset": dice.randrange(-1, 5)}
    play.ask(
        ApiKey.DELETE_RECORDS,
        dice.choice(versions_of(ApiKey.DELETE_RECORDS)),
        note="deletes",
        timeout=5000,
        topics=[{"name": dice.choice(play.topics).name, "partitions": [place]}],
    )


@step
def write_in_a_transaction(play, dice):
    producer, topic, partition = dice.choice(play.producers), dice.choice(play.topics), dice.randrange(2)
    producer.add(topic, partition, note="adds")
    # A sequence counts for one partition of one topic.
    sequences = producer.__dict__.setdefault("by_topic", {}).setdefault((producer.id, producer.epoch), {})
    at = sequences.setdefault((topic.name, partition), 0)
    batch = a_batch(2, producer=(producer.id, producer.epoch, at), is_transactional=True)
    answer = produce(
        play, topic, batch, partition=partition, transactional_id=producer.transactional_id, note="in a transaction"
    )
    if answer.responses[0].partition_responses[0].error_code.name == "none":
        sequences[topic.name, partition] = at + 2


@step
def end_a_transaction(play, dice):
    dice.choice(play.producers).end(dice.choice((True, False)))


@step
def restart(play, dice):
    producer = dice.choice(play.producers)
    producer.begin(note="restarts")
    play.until_ended(producer.transactional_id)


@step
def describe_transactions(play, dice):
    dice.choice(play.producers).describe()


@step
def describe_producers(play, dice):
    topic = dice.choice(play.topics)
    play.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": topic.name, "partition_indexes": [0, 1]}])


@step
def commit_offsets(play, dice):
    group = dice.choice((play.name("plain"), play.member.group))
    topic = commit_topic(
        dice.choice(play.topics), (dice.choice(PARTITIONS), dice.randrange(9), dice.choice(("", "note", None)))
    )
    play.ask(
        ApiKey.OFFSET_COMMIT,
        dice.choice(versions_of(ApiKey.OFFSET_COMMIT)),
        note="commits",
        group_id=group,
        member_id="",
        generation_id_or_member_epoch=-1,
        topics=[topic],
    )


@step
def fetch_committed(play, dice):
    group = dice.choice((play.name("plain"), play.member.group, play.new_member.group))
    fetch_offsets(play, dice.choice(versions_of(ApiKey.OFFSET_FETCH)), group, dice.choice(play.topics), "committed")


@step
def join(play, dice):
    play.member.join("joins")


@step
def sync(play, dice):
    play.member.sync("syncs", [{"member_id": play.member.id, "assignment": b"all"}])


@step
def beat(play, dice):
    play.member.heartbeat("beats", generation_id=play.member.generation + dice.choice((0, 0, 1)))


@step
def leave(play, dice):
    play.member.leave("leaves")


@step
def beat_the_new_way(play, dice):
    names = [topic.name for topic in play.topics][: dice.randrange(1, 3)]
    play.new_member.beat("beats", subscribed_topic_names=names)


@step
def leave_the_new_way(play, dice):
    play.new_member.beat("leaves", member_epoch=-1, topic_partitions=None)
    play.new_member.epoch = 0


@step
def describe_groups(play, dice):
    group = dice.choice((play.name("plain"), play.member.group, play.new_member.group))
    play.ask(ApiKey.DESCRIBE_GROUPS, dice.choice(versions_of(ApiKey.DESCRIBE_GROUPS)), note="describes", groups=[group])


@step
def delete_group(play, dice):
    play.ask(
        ApiKey.DELETE_GROUPS, 2, note="deletes", groups_names=[dice.choice((play.name("plain"), play.member.group))]
    )


@step
def describe_topics(play, dice):
    topics = [{"name": topic.name, "topic_id": None} for topic in play.topics]
    play.ask(
        ApiKey.METADATA,
        dice.choice(versions_of(ApiKey.METADATA)),
        note="describes",
        topics=topics,
        allow_auto_topic_creation=False,
    )
