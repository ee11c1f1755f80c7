"""Groups: where their coordinator is, the classic protocol, the new one, committed offsets, lists and descriptions."""

import struct

from differential.requests import NO_SUCH, UNKNOWN_ID
from differential.scenario import for_versions, once, versions_of
from differential.side import Topic

from broker_core.protocol.api_table import ApiKey

LEVEL = {"session_timeout": 30_000, "rebalance_timeout": 5_000, "protocol_type": "consumer"}


def subscription(*topics):
    """ConsumerProtocolSubscription, version 0."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


RANGE = [{"name": "range", "metadata": subscription("some-topic")}]


@for_versions(ApiKey.FIND_COORDINATOR)
def coordinators(play, version):
    group = play.name("g")
    for kind in (0, 1, 2, 3, -1, 99):
        for key in (group, "", "x" * 300, f"{group}:{UNKNOWN_ID}:0", "a b"):
            play.ask(
                ApiKey.FIND_COORDINATOR,
                version,
                note=f"{kind=} {key[:30]!r}",
                waits_out=kind in (0, 1),
                key=key,
                key_type=kind,
                coordinator_keys=[key],
            )
    if version >= 4:
        play.ask(ApiKey.FIND_COORDINATOR, version, note="two", key_type=0, coordinator_keys=[group, play.name("h")])
        play.ask(ApiKey.FIND_COORDINATOR, version, note="one twice", key_type=0, coordinator_keys=[group, group])
        play.ask(ApiKey.FIND_COORDINATOR, version, note="none", key_type=0, coordinator_keys=[])


class ScenarioMember:
    """A member of a classic group; every request may override values."""

    def __init__(self, play, group, version=9, instance=None):
        self.play, self.group, self.instance = play, group, instance
        self.versions = {
            "join": version,
            "sync": min(5, version),
            "heartbeat": min(4, version),
            "leave": min(5, version),
        }
        self.id, self.generation = "", -1

    def join(self, note="", **given):
        answer = self.play.ask(ApiKey.JOIN_GROUP, self.versions["join"], note=note, waits_out=True, **self._join(given))
        return self._take(answer)

    def begin_join(self, **given):
        return self.play.begin(ApiKey.JOIN_GROUP, self.versions["join"], **self._join(given))

    def take(self, answer):
        return self._take(answer)

    def enter(self):
        """A first join: two rounds in versions that require a member id."""
        answer = self.join("first round")
        if answer is not None and getattr(answer, "error_code", 0).name == "member_id_required":
            answer = self.join("second round")
        return answer

    def sync(self, note="", assignments=(), **given):
        fields = (
            self._common() | {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments} | given
        )
        return self.play.ask(ApiKey.SYNC_GROUP, self.versions["sync"], note=note, **fields)

    def begin_sync(self, **given):
        fields = self._common() | {"protocol_type": "consumer", "protocol_name": "range", "assignments": ()} | given
        return self.play.begin(ApiKey.SYNC_GROUP, self.versions["sync"], **fields)

    def heartbeat(self, note="", **given):
        return self.play.ask(ApiKey.HEARTBEAT, self.versions["heartbeat"], note=note, **(self._common() | given))

    def leave(self, note="", **given):
        who = {"member_id": self.id, "group_instance_id": self.instance} | given
        fields = {"group_id": self.group, "member_id": who["member_id"], "members": [who]}
        return self.play.ask(ApiKey.LEAVE_GROUP, self.versions["leave"], note=note, **fields)

    def _common(self):
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }

    def _join(self, given):
        return (
            {
                "group_id": self.group,
                "member_id": self.id,
                "group_instance_id": self.instance,
                "protocols": RANGE,
                "reason": "why not",
            }
            | LEVEL
            | given
        )

    def _take(self, answer):
        if answer is not None and hasattr(answer, "member_id"):
            self.id = answer.member_id or self.id
            self.generation = answer.generation_id if answer.generation_id > 0 else self.generation
            if self.id:
                self.play.names.of("member", self.id)
        return answer


def describe(play, group, version=6, note=""):
    play.ask(
        ApiKey.DESCRIBE_GROUPS, version, note=f"{group[-1]} {note}", groups=[group], include_authorized_operations=True
    )


@for_versions(ApiKey.JOIN_GROUP)
def one_member_s_life(play, version):
    member = ScenarioMember(play, play.name("g"), version)
    member.enter()
    describe(play, member.group, note="joined")
    member.heartbeat("before the sync")
    member.sync("leads", [{"member_id": member.id, "assignment": b"mine"}])
    member.sync("again")
    member.heartbeat("stable")
    describe(play, member.group, note="stable")
    member.join("joins again, unchanged")
    member.sync(
        "as leader again",
        [{"member_id": member.id, "assignment": b"more"}, {"member_id": "stranger", "assignment": b"x"}],
    )
    member.join("with another protocol", protocols=[{"name": "roundrobin", "metadata": b"m"}])
    member.sync("with the wrong protocol", protocol_name="range")
    member.sync("with the wrong type", protocol_name="roundrobin", protocol_type="connect")
    member.sync("without an assignment", protocol_name="roundrobin")
    for generation in (0, -1, 99):
        member.heartbeat(f"{generation=}", generation_id=generation)
        member.sync(f"{generation=}", generation_id=generation, protocol_name="roundrobin")
    for other in ("stranger", ""):
        member.heartbeat(f"member {other!r}", member_id=other)
        member.sync(f"member {other!r}", member_id=other, protocol_name="roundrobin")
        member.leave(f"member {other!r}", member_id=other)
    member.leave("goes")
    member.heartbeat("has gone")
    member.leave("has gone")
    describe(play, member.group, note="empty")
    member.join("comes back with its old id")
    play.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[member.group])
    describe(play, member.group, note="gone")


@for_versions(ApiKey.JOIN_GROUP)
def joins_that_are_refused(play, version):
    def join(note, suffix="g", **given):
        member = ScenarioMember(play, play.name(suffix), version)
        member.join(note, **given)

    for timeout in (0, 1, 499, 1_800_001, -1, 2**31 - 1):
        join(f"session timeout {timeout}", session_timeout=timeout)
    join("no group", group_id="")
    join("no protocols", "h", protocols=[])
    join("no protocol type", "i", protocol_type="")
    join("unknown member", "j", member_id="stranger")
    join("no name of a protocol", "l", protocols=[{"name": "", "metadata": b""}])
    join("no time to rebalance", "m", rebalance_timeout=0)
    join("negative time to rebalance", "n", rebalance_timeout=-1)
    member = ScenarioMember(play, play.name("o"), version)
    member.enter()
    other = ScenarioMember(play, member.group, version)
    other.join("another type", protocol_type="connect")
    other.join("no common protocol", protocols=[{"name": "sticky", "metadata": b"m"}])
    other.join("unknown member", member_id="stranger")
    member.leave()


@for_versions(ApiKey.JOIN_GROUP)
def two_members(play, version):
    group = play.name("g")
    first, second = ScenarioMember(play, group, version), ScenarioMember(play, group, version)
    first.enter()
    first.sync("alone", [{"member_id": first.id, "assignment": b"all"}])
    if version >= 4:
        second.join("first round")
    coming = second.begin_join()
    _until_rebalance(first)
    first.join("the leader comes back")
    second.take(coming.answer("the second comes in"))
    waiting = second.begin_sync()
    describe(play, group, note="completing")
    first.heartbeat("completing")
    shares = [{"member_id": first.id, "assignment": b"first"}, {"member_id": second.id, "assignment": b"second"}]
    first.sync("leads", shares)
    waiting.answer("gets its share")
    second.heartbeat("stable")
    describe(play, group, note="stable")
    second.join("a follower, unchanged")
    second.leave("goes")
    first.heartbeat("is told")
    first.join("is alone")
    first.sync("is alone", [{"member_id": first.id, "assignment": b"all"}])
    play.ask(ApiKey.DELETE_GROUPS, 2, note="not empty", groups_names=[group])
    first.leave("goes too")
    describe(play, group, note="empty")


def _until_rebalance(member):
    """Without notes, because the other member's join may not have arrived yet."""
    for _ in range(200):
        fields = {"group_id": member.group, "generation_id": member.generation, "member_id": member.id}
        if member.play.quietly(ApiKey.HEARTBEAT, 0, **fields).error_code.name == "rebalance_in_progress":
            return


@for_versions(ApiKey.JOIN_GROUP, first=5)
def static_members(play, version):
    group = play.name("g")
    member = ScenarioMember(play, group, version, instance="one")
    member.enter()
    member.sync("leads", [{"member_id": member.id, "assignment": b"all"}])
    old = member.id
    fresh = ScenarioMember(play, group, version, instance="one")
    fresh.join("the same instance, a new process")
    fresh.sync("after that")
    fresh.heartbeat("the new one")
    member.heartbeat("the old one")
    member.sync("the old one")
    member.join("the old one joins")
    fresh.heartbeat("unknown instance", group_instance_id="other")
    fresh.heartbeat("unknown instance and member", group_instance_id="other", member_id="stranger")
    fresh.join("unknown member of a known instance", member_id="stranger")
    describe(play, group, note="static")
    fresh.leave("by its instance", member_id="")
    fresh.leave("by its instance again", member_id="")
    play.ask(
        ApiKey.LEAVE_GROUP,
        5,
        note="several",
        group_id=group,
        members=[
            {"member_id": "", "group_instance_id": "one"},
            {"member_id": old, "group_instance_id": None},
            {"member_id": old, "group_instance_id": "one"},
            {"member_id": "", "group_instance_id": None},
        ],
    )
    play.ask(ApiKey.LEAVE_GROUP, 5, note="nobody", group_id=group, members=[])
    describe(play, group, note="after that")


@once()
def group_names_that_are_none(play):
    member = ScenarioMember(play, "")
    member.sync()
    member.heartbeat()
    member.leave()
    unknown = ScenarioMember(play, play.name("unknown"))
    unknown.id, unknown.generation = "m", 1
    unknown.sync()
    unknown.heartbeat()
    unknown.leave()


@for_versions(ApiKey.HEARTBEAT)
def beats_for_no_group(play, version):
    """The member's own values are ignored."""
    for group in ("", " "):
        for member_id in ("", "m"):
            for generation in (-1, 0, 1):
                for instance in (None, "i") if version >= 3 else (None,):
                    play.ask(
                        ApiKey.HEARTBEAT,
                        version,
                        note=f"{group=} {member_id=} {generation=} {instance=}",
                        waits_out=True,
                        group_id=group,
                        member_id=member_id,
                        generation_id=generation,
                        group_instance_id=instance,
                    )


@once()
def requests_for_no_group(play):
    """After a simple commit, which Kafka accepts for old clients."""
    topic = play.topic()
    asked = {"name": topic.name, "partition_indexes": [0]}
    play.ask(
        ApiKey.OFFSET_COMMIT,
        9,
        waits_out=True,
        group_id="",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[commit_topic(topic, (0, 5, "note"))],
    )
    for version in versions_of(ApiKey.SYNC_GROUP):
        for member_id in ("", "m"):
            play.ask(
                ApiKey.SYNC_GROUP,
                version,
                note=f"{member_id=}",
                waits_out=True,
                group_id="",
                member_id=member_id,
                generation_id=1,
                group_instance_id=None,
                protocol_type=None,
                protocol_name=None,
                assignments=[],
            )
    for version in versions_of(ApiKey.LEAVE_GROUP):
        for member_id in ("", "m"):
            left = [{"member_id": member_id, "group_instance_id": None}]
            play.ask(
                ApiKey.LEAVE_GROUP,
                version,
                note=f"{member_id=}",
                waits_out=True,
                group_id="",
                member_id=member_id,
                members=left,
            )
    for version in versions_of(ApiKey.DESCRIBE_GROUPS):
        play.ask(ApiKey.DESCRIBE_GROUPS, version, waits_out=True, groups=[""])
    for version in versions_of(ApiKey.CONSUMER_GROUP_DESCRIBE):
        play.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, waits_out=True, group_ids=[""])
    for version in versions_of(ApiKey.OFFSET_FETCH)[:-1]:
        one = {"group_id": "", "topics": [asked]}
        play.ask(ApiKey.OFFSET_FETCH, version, waits_out=True, **one, groups=[one], require_stable=False)
    places = [{"name": topic.name, "partitions": [{"partition_index": 0}]}]
    play.ask(ApiKey.OFFSET_DELETE, 0, group_id="", topics=places)
    join = {"session_timeout": 30_000, "rebalance_timeout": 5_000, "protocol_type": "consumer", "protocols": RANGE}
    for version in versions_of(ApiKey.JOIN_GROUP):
        play.ask(
            ApiKey.JOIN_GROUP,
            version,
            waits_out=True,
            group_id="",
            member_id="",
            group_instance_id=None,
            **join,
        )
    play.ask(ApiKey.FIND_COORDINATOR, 4, waits_out=True, key_type=0, coordinator_keys=[""])
    for version in versions_of(ApiKey.DELETE_GROUPS):
        play.ask(ApiKey.DELETE_GROUPS, version, waits_out=True, groups_names=[""])


def commit_topic(topic, *partitions):
    asked = [
        {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": text}
        for index, offset, text in partitions
    ]
    return {"name": topic.name, "topic_id": topic.id, "partitions": asked}


@for_versions(ApiKey.OFFSET_COMMIT)
def commits(play, version):
    topic, group = play.topic("t", 2), play.name("g")

    def ask(note, *topics, **given):
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": topics,
        } | given
        play.ask(ApiKey.OFFSET_COMMIT, version, note=note, waits_out=True, **fields)

    ask("plain", commit_topic(topic, (0, 5, "note"), (1, 0, "")))
    ask(
        "nothing",
    )
    ask("no partitions", commit_topic(topic))
    ask("unknown topic", commit_topic(Topic(NO_SUCH, UNKNOWN_ID), (0, 5, "")))
    ask("bad name", commit_topic(Topic("a b", UNKNOWN_ID), (0, 5, "")))
    ask("partition 7 and -1", commit_topic(topic, (7, 5, ""), (-1, 5, "")))
    ask(
        "good and bad",
        commit_topic(topic, (0, 6, ""), (7, 5, "")),
        commit_topic(Topic(NO_SUCH, UNKNOWN_ID), (0, 5, "")),
    )
    ask("twice", commit_topic(topic, (0, 7, ""), (0, 8, "")))
    ask("negative offset", commit_topic(topic, (0, -5, "")))
    ask("offset -1", commit_topic(topic, (1, -1, "")))
    ask("null text", commit_topic(topic, (1, 3, None)))
    ask("4096 characters", commit_topic(topic, (1, 3, "x" * 4096)))
    ask("4097 characters", commit_topic(topic, (1, 3, "x" * 4097)))
    ask("of two bytes each", commit_topic(topic, (1, 3, "ä" * 4000)))
    ask("no group", commit_topic(topic, (0, 1, "")), group_id="")
    ask("unknown member", commit_topic(topic, (0, 1, "")), member_id="stranger")
    ask("a generation without a member", commit_topic(topic, (0, 1, "")), generation_id_or_member_epoch=3)
    ask(
        "unknown instance",
        commit_topic(topic, (0, 1, "")),
        group_instance_id="i",
        member_id="m",
        generation_id_or_member_epoch=1,
    )
    member = ScenarioMember(play, play.name("h"))
    member.enter()
    who = {"group_id": member.group, "member_id": member.id, "generation_id_or_member_epoch": member.generation}
    ask("before the sync", commit_topic(topic, (0, 1, "")), **who)
    member.sync("leads", [{"member_id": member.id, "assignment": b"all"}])
    ask("as a member", commit_topic(topic, (0, 2, "")), **who)
    ask("old generation", commit_topic(topic, (0, 3, "")), **(who | {"generation_id_or_member_epoch": 99}))
    ask("unknown member", commit_topic(topic, (0, 3, "")), **(who | {"member_id": "stranger"}))
    ask("as nobody, beside members", commit_topic(topic, (0, 3, "")), group_id=member.group)
    for one in (group, member.group):
        fetch_offsets(play, 8, one, topic, "what is there")
        fetch_offsets(play, 8, one, None, "all")
    member.leave("goes")


def fetch_offsets(play, version, group, topic, note, partitions=(0, 1), **given):
    named = None if topic is None else [{"name": topic.name, "partition_indexes": list(partitions)}]
    topics = named and [one | {"topic_id": topic.id} for one in named]
    one = {"group_id": group, "topics": topics, "member_id": None, "member_epoch": -1} | given
    play.ask(
        ApiKey.OFFSET_FETCH,
        version,
        note=note,
        waits_out=True,
        group_id=group,
        topics=named,
        groups=[one],
        require_stable=False,
    )


@for_versions(ApiKey.OFFSET_FETCH)
def committed_offsets(play, version):
    topic, other, group = play.topic("t", 3), play.topic("u"), play.name("g")
    where = [commit_topic(topic, (0, 5, "note"), (1, 7, "")), commit_topic(other, (0, 1, ""))]
    play.quietly(ApiKey.OFFSET_COMMIT, 9, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=where)
    fetch_offsets(play, version, group, topic, "some")
    fetch_offsets(play, version, group, topic, "not committed, not there", (2, 7, -1))
    fetch_offsets(play, version, group, topic, "twice", (0, 0))
    fetch_offsets(play, version, group, topic, "no partitions", ())
    fetch_offsets(play, version, group, Topic(NO_SUCH, UNKNOWN_ID), "unknown topic")
    fetch_offsets(play, version, group, Topic("a b", None), "bad name")
    fetch_offsets(play, version, play.name("unknown"), topic, "unknown group")
    fetch_offsets(play, version, "", topic, "no group")
    if version >= 2:
        fetch_offsets(play, version, group, None, "all")
        fetch_offsets(play, version, play.name("unknown"), None, "all of an unknown group")
    if version >= 8:
        asked = {"group_id": group, "topics": None, "member_id": None, "member_epoch": -1}
        for note, groups in {
            "no groups": [],
            "one twice": [asked, asked],
            "two": [asked, asked | {"group_id": play.name("unknown")}],
        }.items():
            play.ask(ApiKey.OFFSET_FETCH, version, note=note, groups=groups, require_stable=True)
    if version >= 9:
        fetch_offsets(play, version, group, topic, "unknown member", member_id="m", member_epoch=1)
        fetch_offsets(play, version, group, topic, "an epoch without a member", member_id=None, member_epoch=1)
        fetch_offsets(play, version, group, topic, "a member without an epoch", member_id="m")


@once()
def deleted_offsets(play):
    topic, group = play.topic("t", 2), play.name("g")
    where = [commit_topic(topic, (0, 5, "note"), (1, 7, ""))]
    play.quietly(ApiKey.OFFSET_COMMIT, 9, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=where)

    def ask(note, name, *partitions, group_id=group):
        topics = [{"name": name, "partitions": [{"partition_index": index} for index in partitions]}]
        play.ask(ApiKey.OFFSET_DELETE, 0, note=note, group_id=group_id, topics=topics)

    ask("one", topic.name, 0)
    ask("again", topic.name, 0)
    ask("not there", topic.name, 7, -1)
    ask("unknown topic", NO_SUCH, 0)
    ask("bad name", "a b", 0)
    ask("no partitions", topic.name)
    ask("unknown group", topic.name, 0, group_id=play.name("unknown"))
    ask("no group", topic.name, 0, group_id="")
    ask("twice", topic.name, 1, 1)
    fetch_offsets(play, 8, group, None, "what is left")
    member = ScenarioMember(play, play.name("h"))
    member.join("first", protocols=[{"name": "range", "metadata": subscription(topic.name)}])
    member.join("second", protocols=[{"name": "range", "metadata": subscription(topic.name)}])
    ask("while somebody reads it", topic.name, 0, group_id=member.group)
    member.sync("leads", [{"member_id": member.id, "assignment": b"all"}])
    ask("while somebody reads it, stable", topic.name, 0, group_id=member.group)
    ask("of an unsubscribed one", play.topic("u").name, 0, group_id=member.group)
    member.leave("goes")


@for_versions(ApiKey.DESCRIBE_GROUPS)
def descriptions(play, version):
    member = ScenarioMember(play, play.name("g"))
    member.enter()
    simple = play.name("s")
    topic = play.topic()
    play.quietly(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=simple,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[commit_topic(topic, (0, 1, ""))],
    )
    for operations in (False, True):
        for names in ([member.group], [simple], [play.name("unknown")], [], [simple, member.group]):
            play.ask(
                ApiKey.DESCRIBE_GROUPS,
                version,
                note=f"{len(names)} {operations}",
                groups=names,
                include_authorized_operations=operations,
            )
    member.leave()


@for_versions(ApiKey.LIST_GROUPS)
def lists(play, version):
    member, simple = ScenarioMember(play, play.name("g")), play.name("s")
    member.enter()
    topic = play.topic()
    play.quietly(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=simple,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[commit_topic(topic, (0, 1, ""))],
    )
    newest = play.name("n")
    NewMember(play, newest, 1).beat("joins", subscribed_topic_names=[topic.name])

    def mine(answer):
        kept = [one for one in answer["groups"] if one["group_id"].startswith(play.shown_slug)]
        return answer | {"groups": sorted(kept, key=repr)}

    for states in (
        (),
        ("Stable",),
        ("Empty",),
        ("stable", "empty"),
        ("CompletingRebalance",),
        ("NoSuch",),
        ("",),
        ("Dead",),
        ("Assigning",),
    ):
        play.ask(ApiKey.LIST_GROUPS, version, note=f"{states}", states_filter=states, types_filter=(), listing=mine)
    for types in (("classic",), ("consumer",), ("Classic", "CONSUMER"), ("NoSuch",), ("",), ("share",)):
        play.ask(ApiKey.LIST_GROUPS, version, note=f"{types}", states_filter=(), types_filter=types, listing=mine)
    member.leave()


@for_versions(ApiKey.DELETE_GROUPS)
def deletions(play, version):
    simple, topic = play.name("s"), play.topic()
    play.quietly(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=simple,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[commit_topic(topic, (0, 1, ""))],
    )
    member = ScenarioMember(play, play.name("g"))
    member.enter()
    for names in ([play.name("unknown")], [], [member.group, simple], [simple], [member.group, member.group]):
        play.ask(ApiKey.DELETE_GROUPS, version, note=f"{len(names)} groups", groups_names=names)
    fetch_offsets(play, 8, simple, None, "its offsets")
    member.leave()


class NewMember:
    """A member of a group of the new protocol."""

    def __init__(self, play, group, version, name="m1"):
        self.play, self.group, self.version = play, group, version
        self.id = f"client-made-{name}" if version >= 1 else ""
        self.epoch = 0

    def beat(self, note="", **given):
        fields = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 30_000,
            "subscribed_topic_names": None,
            "server_assignor": None,
            "subscribed_topic_regex": None,
            "topic_partitions": (),
        } | given
        if fields["member_epoch"] > 0 and not given.keys() & {"rebalance_timeout"}:
            fields["rebalance_timeout"] = -1
        answer = self.play.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, self.version, note=note, waits_out=True, **fields)
        if answer is not None and hasattr(answer, "member_epoch") and answer.error_code.name == "none":
            self.id, self.epoch = answer.member_id or self.id, answer.member_epoch
        return answer


def describe_new(play, group, version=1, note=""):
    play.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, note=note, group_ids=[group], include_authorized_operations=True)


@for_versions(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def new_protocol_life(play, version):
    topic, group = play.topic("t", 4), play.name("g")
    member = NewMember(play, group, version)
    member.beat("joins", subscribed_topic_names=[topic.name])
    describe_new(play, group, note="joined")
    owned = [{"topic_id": topic.id, "partitions": [0, 1, 2, 3]}]
    member.beat("owns all", topic_partitions=owned)
    member.beat("says nothing", topic_partitions=None)
    member.beat("the epoch before", member_epoch=member.epoch - 1, topic_partitions=None)
    member.beat("an epoch too far", member_epoch=member.epoch + 5, topic_partitions=None)
    member.beat("unknown member", member_id="stranger", topic_partitions=None)
    other = NewMember(play, group, version, "m2")
    other.beat("a second one", subscribed_topic_names=[topic.name], server_assignor="range")
    member.beat("is to give some back", topic_partitions=owned)
    member.beat("has given back", topic_partitions=[{"topic_id": topic.id, "partitions": [0, 1]}])
    other.beat("gets them", topic_partitions=[])
    describe_new(play, group, note="two")
    member.beat("subscribes to nothing", subscribed_topic_names=[])
    other.beat("follows", topic_partitions=[{"topic_id": topic.id, "partitions": [2, 3]}])
    other.beat("once more", topic_partitions=None)
    play.ask(ApiKey.DESCRIBE_GROUPS, 6, note="by the classic request", groups=[group])
    play.ask(ApiKey.DELETE_GROUPS, 2, note="not empty", groups_names=[group])
    member.beat("leaves", member_epoch=-1, topic_partitions=None)
    member.beat("has left", topic_partitions=None)
    other.beat("leaves", member_epoch=-1, topic_partitions=None)
    describe_new(play, group, note="empty")
    fetch_offsets(play, 9, group, topic, "nothing committed")
    play.ask(ApiKey.DELETE_GROUPS, 2, note="empty", groups_names=[group])
    describe_new(play, group, note="gone")


@for_versions(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def new_protocol_refusals(play, version):
    topic = play.topic()

    def beat(note, suffix, **given):
        names = {"subscribed_topic_names": [topic.name]}
        NewMember(play, play.name(suffix), version).beat(note, **(names | given))

    beat("no group", "a", group_id="")
    beat("blank group", "a", group_id="  ")
    beat("no member id", "b", member_id="")
    for epoch in (-3, -2, -1, 1, 9):
        beat(f"first beat at {epoch}", f"c{epoch}", member_epoch=epoch)
    beat("no rebalance timeout", "d", rebalance_timeout=-1)
    beat("rebalance timeout 0", "d", rebalance_timeout=0)
    beat("no partitions given", "e", topic_partitions=None)
    beat("owns some at the start", "f", topic_partitions=[{"topic_id": topic.id, "partitions": [0]}])
    beat("no subscription", "g", subscribed_topic_names=None)
    beat("empty subscription", "h", subscribed_topic_names=[])
    beat("unknown assignor", "i", server_assignor="no-such")
    beat("empty assignor", "j", server_assignor="")
    beat("range", "k", server_assignor="range")
    beat("empty instance", "l", instance_id="")
    beat("an instance that is not there yet, at -2", "m", instance_id="i", member_epoch=-2)
    beat("empty rack", "n", rack_id="")
    beat("unknown topic", "o", subscribed_topic_names=[NO_SUCH])
    beat("bad topic name", "p", subscribed_topic_names=["a b"])
    beat("a topic twice", "q", subscribed_topic_names=[topic.name, topic.name])
    if version >= 1:
        beat("a bad regex", "r", subscribed_topic_names=None, subscribed_topic_regex="(")
        beat("an empty regex", "s", subscribed_topic_names=None, subscribed_topic_regex="")
        beat("names and a regex", "t", subscribed_topic_regex="x")
        beat("a long member id", "u", member_id="x" * 100)
    for group in (play.name("unknown"), ""):
        describe_new(play, group)
    play.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, note="none", group_ids=[])
    play.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, note="twice", group_ids=[play.name("k"), play.name("k")])


@for_versions(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def new_protocol_static_members(play, version):
    topic, group = play.topic("t", 2), play.name("g")
    member = NewMember(play, group, version)
    member.beat("joins", subscribed_topic_names=[topic.name], instance_id="one")
    other = NewMember(play, group, version, "m2")
    other.beat("the same instance, still there", subscribed_topic_names=[topic.name], instance_id="one")
    member.beat("goes for a while", member_epoch=-2, instance_id="one", topic_partitions=None)
    describe_new(play, group, note="without it")
    other.beat("takes over", subscribed_topic_names=[topic.name], instance_id="one")
    member.beat("is fenced", instance_id="one", topic_partitions=None, member_epoch=1)
    other.beat("goes on", instance_id="one", topic_partitions=None)
    other.beat("unknown instance", instance_id="two", topic_partitions=None)
    other.beat("leaves for good", member_epoch=-1, instance_id="one", topic_partitions=None)
    describe_new(play, group, note="empty")


@for_versions(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def new_protocol_offsets(play, version):
    topic, group = play.topic("t", 2), play.name("g")
    member = NewMember(play, group, version)
    member.beat("joins", subscribed_topic_names=[topic.name])
    for commit_version in (8, 9, 10):
        for note, member_id, epoch in (
            ("as it is", member.id, member.epoch),
            ("an old epoch", member.id, member.epoch - 1),
            ("an epoch too far", member.id, 9),
            ("unknown member", "stranger", member.epoch),
            ("nobody", "", -1),
        ):
            play.ask(
                ApiKey.OFFSET_COMMIT,
                commit_version,
                note=note,
                group_id=group,
                member_id=member_id,
                generation_id_or_member_epoch=epoch,
                topics=[commit_topic(topic, (0, 3, ""))],
            )
    for note, member_id, epoch in (
        ("as it is", member.id, member.epoch),
        ("an old epoch", member.id, member.epoch - 1),
        ("an epoch too far", member.id, 9),
        ("unknown member", "stranger", 1),
        ("nobody", None, -1),
    ):
        fetch_offsets(play, 9, group, topic, note, member_id=member_id, member_epoch=epoch)
    play.ask(
        ApiKey.OFFSET_DELETE,
        0,
        note="subscribed",
        group_id=group,
        topics=[{"name": topic.name, "partitions": [{"partition_index": 0}]}],
    )
    member.beat("leaves", member_epoch=-1, topic_partitions=None)


@once()
def from_one_protocol_to_the_other(play):
    topic = play.topic("t", 2)
    classic = ScenarioMember(play, play.name("g"))
    protocols = [{"name": "range", "metadata": subscription(topic.name)}]
    for note in ("first", "second"):
        classic.join(note, protocols=protocols)
    classic.sync("leads", [{"member_id": classic.id, "assignment": b"\0\0\0\0\0\0\xff\xff\xff\xff"}])
    NewMember(play, classic.group, 1).beat("a new one in a classic group", subscribed_topic_names=[topic.name])
    modern = NewMember(play, play.name("h"), 1)
    modern.beat("joins", subscribed_topic_names=[topic.name])
    late = ScenarioMember(play, modern.group)
    late.join("a classic one in a new group", protocols=protocols)
    late.join("with its id", protocols=protocols)
    describe_new(play, modern.group, note="mixed")
    late.leave("goes")
    odd = ScenarioMember(play, play.name("i"))
    for note in ("first", "second"):
        odd.join(note, protocol_type="connect", protocols=[{"name": "x", "metadata": b""}])
    NewMember(play, odd.group, 1).beat("in a group of another type", subscribed_topic_names=[topic.name])
    empty = play.name("j")
    play.quietly(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=empty,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[commit_topic(topic, (0, 1, ""))],
    )
    NewMember(play, empty, 1).beat("in an empty classic group", subscribed_topic_names=[topic.name])
    fetch_offsets(play, 8, empty, None, "its offsets stay")


GROUP, GROUP_SESSION, GROUP_BEAT = 32, "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@once()
def settings_of_a_group(play):
    """Bounds are those of `sides.SETTINGS`, and Kafka's."""
    topic, group = play.topic("t"), play.name("g")
    member = NewMember(play, group, 1)
    member.beat("joins", subscribed_topic_names=[topic.name])

    def see(note):
        play.settle()
        resources = [{"resource_type": GROUP, "resource_name": group, "configuration_keys": None}]
        play.ask(ApiKey.DESCRIBE_CONFIGS, 4, note=note, resources=resources, include_synonyms=True)

    def alter(note, *changes, name=group, check=False):
        configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
        resources = [{"resource_type": GROUP, "resource_name": name, "configs": configs}]
        play.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, note=note, resources=resources, validate_only=check)

    see("nothing set")
    alter("two", (GROUP_SESSION, 0, "46000"), (GROUP_BEAT, 0, "7000"))
    see("two set")
    member.beat("is told the interval", topic_partitions=None)
    # Kafka stores and returns such a value, and then ignores all settings of the group.
    alter("as nobody should type it", (GROUP_SESSION, 0, " 046000 "))
    see("typed")
    for key, value in (
        (GROUP_SESSION, "1"),
        (GROUP_SESSION, "999999"),
        (GROUP_SESSION, "x"),
        (GROUP_SESSION, "6999"),
        (GROUP_BEAT, "1"),
        (GROUP_BEAT, "15001"),
        ("consumer.assignment.interval.ms", "-1"),
        ("consumer.assignment.interval.ms", "15001"),
        ("share.auto.offset.reset", "EARLIEST"),
        ("share.auto.offset.reset", "by_duration:-PT1H"),
        ("share.auto.offset.reset", "by_duration:P1DT2H"),
        ("share.isolation.level", "READ_COMMITTED"),
        ("share.delivery.count.limit", "11"),
        ("share.record.lock.duration.ms", "14999"),
        ("share.partition.max.record.locks", "99"),
        ("share.renew.acknowledge.enable", " FALSE"),
        ("streams.num.standby.replicas", "3"),
        ("streams.initial.rebalance.delay.ms", "2147483647"),
        ("no.such", "1"),
    ):
        alter(f"{key} {value!r}", (key, 0, value))
    see("what was taken")
    alter("checked only", (GROUP_SESSION, 0, "50000"), check=True)
    alter("one good, one bad", (GROUP_SESSION, 0, "50000"), ("no.such", 0, "1"))
    alter("null", (GROUP_SESSION, 0, None))
    alter("twice", (GROUP_SESSION, 0, "50000"), (GROUP_SESSION, 1, None))
    alter("append", (GROUP_SESSION, 2, "5"))
    alter("no group", (GROUP_SESSION, 0, "50000"), name="")
    alter("delete what is not known", ("no.such", 1, None))
    alter("delete", (GROUP_SESSION, 1, None))
    see("deleted")
    configs = [{"name": "consumer.assignment.interval.ms", "value": "5"}]
    resources = [{"resource_type": GROUP, "resource_name": group, "configs": configs}]
    play.ask(ApiKey.ALTER_CONFIGS, 2, note="as a whole", resources=resources, validate_only=False)
    see("as a whole")
    _listed_with_settings(play, "with settings")
    resources = [{"resource_type": GROUP, "resource_name": group, "configs": []}]
    play.ask(ApiKey.ALTER_CONFIGS, 2, note="nothing left", resources=resources, validate_only=False)
    _listed_with_settings(play, "without")


def _listed_with_settings(play, note):
    def mine(answer):
        kept = [one for one in answer["config_resources"] if one["resource_name"].startswith(play.shown_slug)]
        return answer | {"config_resources": kept}

    play.settle()
    play.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, note=note, resource_types=[GROUP], listing=mine)
