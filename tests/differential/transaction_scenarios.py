"""Transactions: producers' ids and epochs; transactions ended, aborted, listed, described; both versions."""

from collections import Counter

from differential.group_scenarios import commit_topic, fetch_offsets
from differential.requests import NO_SUCH, fetch, fetch_place, latest, list_place, new_producer, produce, write
from differential.scenario import for_versions, once
from differential.side import Topic
from support.builders.builders import a_batch

from broker_core.protocol.api_table import ApiKey


class ScenarioProducer:
    """A producer with a transactional id; every request may override values."""

    def __init__(self, play, suffix="tid"):
        self.play, self.transactional_id = play, play.name(suffix)
        self.id, self.epoch = -1, -1
        self.sequences = Counter()

    def begin(self, version=5, note=None, **given):
        fields = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        } | given
        if note is None:
            answer = self.play.quietly(ApiKey.INIT_PRODUCER_ID, version, **fields)
        else:
            answer = self.play.ask(ApiKey.INIT_PRODUCER_ID, version, note=note, waits_out=True, **fields)
        if answer.error_code.name == "none":
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
            self.play.names.of("producer", self.id)
        return answer

    def common(self):
        return {"transactional_id": self.transactional_id, "producer_id": self.id, "producer_epoch": self.epoch}

    def add(self, topic, *partitions, version=3, note="", **given):
        one = self.common() | given
        topics = [{"name": topic.name, "partitions": list(partitions)}]
        old = {f"v3_and_below_{name}": value for name, value in one.items() if name != "verify_only"}
        return self.play.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            note=note,
            waits_out=True,
            **old,
            v3_and_below_topics=topics,
            transactions=[one | {"topics": topics, "verify_only": given.get("verify_only", False)}],
        )

    def write(self, topic, count=2, *, partition=0, version=9, note="writes"):
        batch = a_batch(count, producer=(self.id, self.epoch, self.sequences[partition]), is_transactional=True)
        self.sequences[partition] += count
        return produce(
            self.play,
            topic,
            batch,
            version=version,
            partition=partition,
            note=note,
            transactional_id=self.transactional_id,
        )

    def end(self, committed=True, *, version=3, note="", **given):
        answer = self.play.ask(
            ApiKey.END_TXN,
            version,
            note=f"{'commit' if committed else 'abort'} {note}",
            waits_out=True,
            **(self.common() | {"committed": committed} | given),
        )
        self.play.until_ended(self.transactional_id)
        if getattr(answer, "producer_epoch", -1) not in (-1, self.epoch):
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    def describe(self, note=""):
        self.play.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, note=note, transactional_ids=[self.transactional_id])


@for_versions(ApiKey.INIT_PRODUCER_ID)
def producers(play, version):
    def ask(note, transactional_id, timeout=60_000, producer=(-1, -1)):
        return play.ask(
            ApiKey.INIT_PRODUCER_ID,
            version,
            note=note,
            waits_out=True,
            transactional_id=transactional_id,
            transaction_timeout=timeout,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )

    mine = play.name("tid")
    ask("idempotent", None)
    for timeout in (-1, 0, 1, 900_000, 900_001, 2**31 - 1):
        ask(f"idempotent {timeout=}", None, timeout)
        ask(f"{timeout=}", play.name(f"tid{timeout}"), timeout)
    ask("empty id", "")
    ask("first", mine)
    answer = ask("second", mine)
    here = (answer.producer_id, answer.producer_epoch)
    for note, producer in {
        "its own epoch": here,
        "an old epoch": (here[0], 0),
        "an epoch too far": (here[0], 99),
        "another's id": (here[0] + 100_000, 0),
        "an id without an epoch": (here[0], -1),
        "an epoch without an id": (-1, 3),
        "negative numbers": (-5, -5),
    }.items():
        ask(note, mine, producer=producer)
        ask(f"{note}, idempotent", None, producer=producer)
    ask("an unknown id with numbers", play.name("other"), producer=(here[0], 0))


@for_versions(ApiKey.ADD_PARTITIONS_TO_TXN, last=3)
def added_partitions(play, version):
    topic, producer = play.topic("t", 2), ScenarioProducer(play)
    producer.add(topic, 0, version=version, note="before it is known")
    producer.begin()
    producer.add(topic, 0, version=version, note="one")
    producer.add(topic, 0, 1, version=version, note="two")
    producer.add(topic, version=version, note="none")
    producer.add(topic, 7, version=version, note="partition 7")
    producer.add(topic, -1, 0, version=version, note="partition -1 and a good one")
    producer.add(Topic(NO_SUCH, None), 0, version=version, note="unknown topic")
    producer.add(Topic("a b", None), 0, version=version, note="bad name")
    producer.add(Topic("__consumer_offsets", None), 0, version=version, note="internal")
    producer.add(topic, 0, version=version, note="old epoch", producer_epoch=producer.epoch - 1)
    producer.add(topic, 0, version=version, note="epoch too far", producer_epoch=producer.epoch + 1)
    producer.add(topic, 0, version=version, note="another's producer id", producer_id=producer.id + 100_000)
    producer.add(topic, 0, version=version, note="no id", transactional_id="")
    producer.add(topic, 0, version=version, note="unknown id", transactional_id=play.name("other"))
    producer.describe("open")
    producer.end(False, note="at the end")
    producer.describe("ended")


@once()
def verified_partitions(play):
    """Versions 4 and 5 are for requests between brokers."""
    topic, producer = play.topic("t", 2), ScenarioProducer(play)
    producer.begin()
    for version in (4, 5):
        producer.add(topic, 0, version=version, note="not yet there", verify_only=True)
        producer.add(topic, 0, version=version, note="adds")
        producer.add(topic, 0, 1, version=version, note="one is there", verify_only=True)


@for_versions(ApiKey.END_TXN)
def ends(play, version):
    topic, producer = play.topic("t", 2), ScenarioProducer(play)
    producer.end(version=version, note="unknown")
    producer.begin()
    producer.end(version=version, note="nothing begun")
    producer.end(False, version=version, note="nothing begun")
    for committed in (True, False):
        producer.add(topic, 0, 1)
        producer.write(topic)
        producer.write(topic, 1, partition=1)
        before = dict(producer.common())
        producer.end(committed, version=version)
        producer.end(committed, version=version, note="once more, as it was", **before)
        producer.end(not committed, version=version, note="the other way, as it was", **before)
        producer.describe("ended")
    producer.add(topic, 0)
    producer.end(version=version, note="old epoch", producer_epoch=producer.epoch - 1)
    producer.end(version=version, note="epoch too far", producer_epoch=producer.epoch + 1)
    producer.end(version=version, note="another's id", producer_id=producer.id + 100_000)
    producer.end(version=version, note="no id", transactional_id="")
    producer.end(version=version, note="written to nobody")
    latest(play, topic)
    for isolation in (0, 1):
        fetch(play, fetch_place(topic), isolation=isolation, note=f"{isolation=}")


@for_versions(ApiKey.ADD_OFFSETS_TO_TXN)
def added_offsets(play, version):
    producer, group = ScenarioProducer(play), play.name("g")

    def ask(note, **given):
        play.ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            version,
            note=note,
            waits_out=True,
            **(producer.common() | {"group_id": group} | given),
        )

    ask("unknown")
    producer.begin()
    ask("good")
    ask("again")
    ask("another group", group_id=play.name("h"))
    ask("no group", group_id="")
    ask("old epoch", producer_epoch=producer.epoch - 1)
    ask("epoch too far", producer_epoch=producer.epoch + 1)
    ask("another's id", producer_id=producer.id + 100_000)
    ask("no id", transactional_id="")
    producer.end()
    producer.describe("ended")


@for_versions(ApiKey.TXN_OFFSET_COMMIT)
def offsets_in_transactions(play, version):
    topic, producer, group = play.topic("t", 2), ScenarioProducer(play), play.name("g")

    def ask(note, *topics, **given):
        fields = (
            producer.common()
            | {"group_id": group, "generation_id": -1, "member_id": "", "group_instance_id": None, "topics": topics}
            | given
        )
        play.ask(ApiKey.TXN_OFFSET_COMMIT, version, note=note, waits_out=True, **fields)

    one = commit_topic(topic, (0, 5, "note"))
    one.pop("topic_id")
    ask("unknown id", one)
    producer.begin()
    ask("group not added", one)
    producer.end(False, note="what that may have begun")
    producer.begin()
    play.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, waits_out=True, **producer.common(), group_id=group)
    ask("good", one)
    fetch_offsets(play, 7, group, topic, "open, as it is")
    play.ask(
        ApiKey.OFFSET_FETCH,
        7,
        note="open, stable only",
        group_id=group,
        require_stable=True,
        topics=[{"name": topic.name, "partition_indexes": [0, 1]}],
    )
    for note, bad in {
        "partition 7": commit_topic(topic, (7, 1, ""), (1, 4, None)),
        "no partitions": commit_topic(topic),
        "unknown": commit_topic(Topic(NO_SUCH, None), (0, 1, "")),
        "too long": commit_topic(topic, (0, 1, "x" * 4097)),
        "negative": commit_topic(topic, (0, -3, "")),
    }.items():
        bad.pop("topic_id")
        ask(note, bad)
    ask("nothing")
    ask("old epoch", one, producer_epoch=producer.epoch - 1)
    ask("epoch too far", one, producer_epoch=producer.epoch + 1)
    ask("another's id", one, producer_id=producer.id + 100_000)
    ask("another group", one, group_id=play.name("h"))
    ask("no group", one, group_id="")
    if version >= 3:
        ask("unknown member", one, member_id="stranger", generation_id=3)
        ask("a generation alone", one, generation_id=3)
    producer.describe("open")
    producer.end()
    fetch_offsets(play, 7, group, topic, "committed")
    producer.begin()
    play.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, waits_out=True, **producer.common(), group_id=group)
    two = commit_topic(topic, (0, 50, ""))
    two.pop("topic_id")
    ask("another one", two)
    producer.end(False)
    fetch_offsets(play, 7, group, topic, "aborted")


@once()
def a_new_producer_ends_an_old_one_s_transaction(play):
    topic, old = play.topic(), ScenarioProducer(play)
    old.begin(note="first")
    old.add(topic, 0)
    old.write(topic)
    old.describe("open")
    fresh = ScenarioProducer(play)
    fresh.begin(note="second")
    fresh.describe("taken over")
    old.write(topic, note="the old one writes")
    old.add(topic, 0, note="the old one adds")
    old.end(note="of the old one")
    old.begin(note="the old one renews", producer_id=old.id, producer_epoch=old.epoch)
    fresh.add(topic, 0, note="the second goes on")
    fresh.write(topic)
    fresh.end(note="of the second")
    fetch(play, fetch_place(topic), isolation=1, note="what can be read")


@once()
def transactions_of_version_2(play):
    """KIP-890: partitions are added by writing, each end bumps the epoch."""
    topic, producer = play.topic("t", 2), ScenarioProducer(play)
    producer.begin()
    for committed in (True, False, True):
        producer.write(topic, version=12, note="adds by writing")
        producer.write(topic, 1, version=12, partition=1, note="another partition")
        producer.describe("open")
        before, sequence = dict(producer.common()), producer.sequences[0]
        producer.end(committed, version=5)
        batch = a_batch(1, producer=(before["producer_id"], before["producer_epoch"], sequence), is_transactional=True)
        produce(
            play,
            topic,
            batch,
            version=12,
            note="a late one of the old epoch",
            transactional_id=producer.transactional_id,
        )
        producer.end(committed, version=5, note="once more, as it was", **before)
        producer.describe("ended")
    producer.end(True, version=5, note="nothing begun")
    producer.end(False, version=5, note="nothing begun")
    producer.write(topic, version=11, note="version 11 does not add")
    producer.end(False, version=5)
    play.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": topic.name, "partition_indexes": [0, 1]}])
    for partition in (0, 1):
        latest(play, topic, partition)
        fetch(play, fetch_place(topic, partition), isolation=1, note="what can be read")


@once()
def plain_records_inside_a_transaction(play):
    topic, producer = play.topic(), ScenarioProducer(play)
    producer.begin()
    producer.add(topic, 0)
    producer.write(topic)
    write(play, topic, a_batch(2))
    plain = a_batch(1, producer=(producer.id, producer.epoch, producer.sequences[0]))
    produce(play, topic, plain, note="its own producer, not transactional", transactional_id=producer.transactional_id)
    produce(play, topic, plain, note="the same without the id")
    producer.end()
    latest(play, topic)


@once(recorded=False)
def a_transaction_that_takes_too_long(play):
    topic, producer = play.topic(), ScenarioProducer(play)
    producer.begin(transaction_timeout=300)
    producer.add(topic, 0)
    producer.write(topic)
    # Waits until it has ended: longer than the interval at which a broker looks for timed out transactions.
    for _ in range(400):
        asked = {"replica_id": -1, "isolation_level": 1, "topics": [list_place(topic.name, 0, -1)]}
        if play.quietly(ApiKey.LIST_OFFSETS, 4, **asked).topics[0].partitions[0].offset == 3:
            break
        play.settle()
    producer.describe("given up")
    producer.write(topic, note="too late")
    producer.end(note="too late")
    producer.add(topic, 0, note="too late")
    producer.begin(note="renews", producer_id=producer.id, producer_epoch=producer.epoch)
    producer.add(topic, 0, note="goes on")
    producer.end()


@for_versions(ApiKey.LIST_TRANSACTIONS)
def lists(play, version):
    topic, ongoing, empty, ended = (
        play.topic(),
        ScenarioProducer(play, "a"),
        ScenarioProducer(play, "b"),
        ScenarioProducer(play, "c"),
    )
    for producer in (ongoing, empty, ended):
        producer.begin()
    for producer in (ongoing, ended):
        producer.add(topic, 0)
    ended.end()

    def ask(note, **given):
        fields = {
            "state_filters": (),
            "producer_id_filters": (),
            "duration_filter": -1,
            "transactional_id_pattern": None,
        } | given
        play.ask(ApiKey.LIST_TRANSACTIONS, version, note=note, **fields, listing=lambda answer: _mine(answer, play))

    ask("all")
    for states in (
        ["Ongoing"],
        ["Empty"],
        ["CompleteCommit"],
        ["ongoing"],
        ["NoSuch"],
        ["Empty", "Ongoing", "NoSuch", "x"],
        [""],
    ):
        ask(f"{states}", state_filters=states)
    ask("by producer", producer_id_filters=[ongoing.id, ended.id])
    ask("by a producer that is not there", producer_id_filters=[10**12])
    ask("by nothing that fits", producer_id_filters=[ongoing.id], state_filters=["Empty"])
    for duration in (0, 10**9, -7):
        ask(f"{duration=}", duration_filter=duration)
    for pattern in (".*", "", f"{play.slug}-a", "a", ".*-[ab]", "(", "*"):
        ask(f"pattern {pattern!r}", transactional_id_pattern=pattern)
    for ids in (
        [ongoing.transactional_id],
        [empty.transactional_id, ended.transactional_id],
        [play.name("unknown")],
        [""],
        [],
        [empty.transactional_id, empty.transactional_id],
    ):
        play.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, note="some", transactional_ids=ids)
    ongoing.end(False)


def _mine(answer, play):
    slug = play.shown_slug
    kept = [one for one in answer["transaction_states"] if one["transactional_id"].startswith(slug)]
    return answer | {"transaction_states": sorted(kept, key=lambda one: one["transactional_id"])}


@for_versions(ApiKey.WRITE_TXN_MARKERS)
def markers(play, version):
    """What an administrator sends to abort a transaction that its coordinator does not know."""
    topic = play.topic("t", 2)
    producer = new_producer(play, play.name("tid"))
    play.quietly(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id=play.name("tid"),
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[{"name": topic.name, "partitions": [0]}],
    )
    write(play, topic, a_batch(2, producer=(*producer, 0), is_transactional=True), transactional_id=play.name("tid"))

    def ask(
        note, *partitions, producer_id=producer[0], epoch=producer[1], result=False, name=topic.name, coordinator=0
    ):
        marker = {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transaction_result": result,
            "transaction_version": 0,
            "coordinator_epoch": coordinator,
            "topics": [{"name": name, "partition_indexes": list(partitions)}],
        }
        play.ask(ApiKey.WRITE_TXN_MARKERS, version, note=note, markers=[marker])

    ask("not there", 7)
    ask("unknown topic", 0, name=NO_SUCH)
    ask("old epoch", 0, epoch=-1)
    ask("aborts", 0)
    ask("aborts again", 0)
    ask("a producer that never wrote", 1, producer_id=10**12)
    ask("an older coordinator", 0, coordinator=-1)
    ask("no partitions")
    play.ask(ApiKey.WRITE_TXN_MARKERS, version, note="nothing", markers=[])
    for partition in (0, 1):
        latest(play, topic, partition)
        fetch(play, fetch_place(topic, partition), isolation=1, note="what is there")
