"""The broker itself: versions, cluster, settings, access rules, users, logins on a listener without them."""

import struct

from differential.requests import NO_SUCH
from differential.scenario import for_versions, once, versions_of
from differential.sides import TYPED_IN_THE_FILE

from broker_core.protocol.api_table import ApiKey
from broker_core.protocol.served_versions import SERVED_VERSIONS

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SOME_KEYS = ["retention.ms", "cleanup.policy", "min.insync.replicas", "no.such.key"]


@for_versions(ApiKey.API_VERSIONS)
def versions(play, version):
    """Only APIs that we serve are compared."""
    served = {int(key) for key in SERVED_VERSIONS}

    def ours(answer):
        return answer | {"api_keys": [one for one in answer["api_keys"] if one["api_key"] in served]}

    for name, number in (("kafka-python", "2.0"), ("", "1"), ("ok", ""), ("bad name!", "1"), ("-x", "1"), ("x", "1 2")):
        play.ask(
            ApiKey.API_VERSIONS,
            version,
            note=f"{name!r} {number!r}",
            listing=ours,
            client_software_name=name,
            client_software_version=number,
        )


@once()
def versions_and_keys_that_are_not_served(play):
    for key in SERVED_VERSIONS:
        last, first = versions_of(key)[-1], SERVED_VERSIONS[key][0]
        for version in (last + 1, first - 1, -1, 999):
            if key != ApiKey.API_VERSIONS:
                play.raw(struct.pack(">hhih", key, version, 5, -1) + bytes(8), f"{key.label} v{version}")
    for key in (4, 5, 6, 7, -1, 93, 999, 32767):
        play.raw(struct.pack(">hhih", key, 0, 5, -1) + bytes(8), f"key {key}")


@for_versions(ApiKey.DESCRIBE_CLUSTER)
def cluster(play, version):
    for kind in (1, 2, 3, 0, -1):
        for operations in (False, True):
            play.ask(
                ApiKey.DESCRIBE_CLUSTER,
                version,
                note=f"{kind=} {operations=}",
                endpoint_type=kind,
                include_cluster_authorized_operations=operations,
                include_fenced_brokers=operations,
            )


def resource(kind, name, keys=None):
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


@for_versions(ApiKey.DESCRIBE_CONFIGS)
def describes_settings(play, version):
    topic = play.topic(retention__ms=5000, cleanup__policy="compact,delete", max__message__bytes=1000)

    def ask(note, *resources, synonyms=False, documentation=False):
        play.ask(
            ApiKey.DESCRIBE_CONFIGS,
            version,
            note=note,
            resources=resources,
            include_synonyms=synonyms,
            include_documentation=documentation,
        )

    ask("a topic", resource(TOPIC, topic.name))
    ask("a topic, with synonyms", resource(TOPIC, topic.name), synonyms=True)
    ask("a topic, with documentation", resource(TOPIC, topic.name, ["retention.ms"]), documentation=True)
    ask("some keys", resource(TOPIC, topic.name, SOME_KEYS))
    ask("no keys", resource(TOPIC, topic.name, []))
    ask("unknown topic", resource(TOPIC, NO_SUCH))
    ask("bad name", resource(TOPIC, "a b"))
    ask("no name", resource(TOPIC, ""))
    ask("twice", resource(TOPIC, topic.name, ["retention.ms"]), resource(TOPIC, topic.name, ["cleanup.policy"]))
    broker_keys = ["num.partitions", "log.retention.ms", "auto.create.topics.enable", "node.id", "no.such.key"]
    ask("the broker, some keys", resource(BROKER, "1", broker_keys))
    ask("the broker, with synonyms", resource(BROKER, "1", ["num.partitions", "message.max.bytes"]), synonyms=True)
    for name in ("2", "x", "-1", ""):
        ask(f"broker {name!r}", resource(BROKER, name, ["num.partitions"]))
    ask("nothing")
    for kind in (0, 1, 3, 99, -1):
        ask(f"{kind=}", resource(kind, "x"))
    ask("a client metrics resource", resource(CLIENT_METRICS, "none"))
    ask("a group", resource(GROUP, play.name("g")))
    ask("a logger", resource(LOGGER, "1", ["no.such.logger"]))


TYPED = {
    "retention.ms": " 123 ",
    "flush.ms": "007",
    "segment.bytes": "+01048576",
    "compression.gzip.level": "-01",
    "preallocate": " TRUE ",
    "unclean.leader.election.enable": "False",
    "min.cleanable.dirty.ratio": "0.50",
    "cleanup.policy": " delete, compact ,delete",
    "compression.type": " lz4",
    "message.timestamp.type": "LogAppendTime ",
    "follower.replication.throttled.replicas": " 1:1 , 2:1,1:1",
}
"""One of each type, in unusual spellings."""
RATIOS = ("1", "0.5d", "5e-1", " .5", "1.", "0.00001", "1e-3", "0.123456789012345678", "+0.1", "0f", "1e-400")


@once()
def tells_parsed_values(play):
    """Every type of setting, changed in every way."""
    name = play.name("made")
    configs = [{"name": key, "value": value} for key, value in TYPED.items()]
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}]
    play.ask(ApiKey.CREATE_TOPICS, 7, note="made", topics=topics, timeout=5000, validate_only=False)

    def see(note, *keys, topic=name):
        play.settle()
        asked = [resource(TOPIC, topic, keys or None)]
        play.ask(ApiKey.DESCRIBE_CONFIGS, 4, note=note, resources=asked, include_synonyms=True)

    see("made")
    for number in RATIOS:
        _set_one(play, name, "min.cleanable.dirty.ratio", number)
        see(f"a ratio of {number}", "min.cleanable.dirty.ratio")
    for key, value in (
        ("cleanup.policy", "compact,compact"),
        ("cleanup.policy", " "),
        ("retention.ms", "-0"),
        ("retention.ms", "\t12\n"),
        ("retention.ms", "1 2"),
        ("retention.ms", "000000000000000000000000012"),
        ("retention.ms", "99999999999999999999"),
        ("leader.replication.throttled.replicas", " * "),
    ):
        _set_one(play, name, key, value)
        see(f"{key} {value!r}", key)
    altered = play.topic("altered")
    whole = {"resource_type": TOPIC, "resource_name": altered.name, "configs": configs}
    play.ask(ApiKey.ALTER_CONFIGS, 2, note="all at once", resources=[whole], validate_only=False)
    see("altered", topic=altered.name)


def _set_one(play, topic, key, value):
    configs = [{"name": key, "config_operation": 0, "value": value}]
    resources = [{"resource_type": TOPIC, "resource_name": topic, "configs": configs}]
    play.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, note=f"{key} {value!r}", resources=resources, validate_only=False)


@once()
def tells_parsed_values_of_its_file(play):
    """See `sides.SETTINGS`."""
    keys = [line.partition("=")[0] for line in TYPED_IN_THE_FILE]
    keys += [
        "super.users",
        "allow.everyone.if.no.acl.found",
        "log.roll.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ]
    keys += ["sasl.jaas.config", "listener.name.sasl_ssl.plain.sasl.jaas.config"]
    resources = [resource(BROKER, "1", keys), resource(TOPIC, play.topic().name)]
    play.ask(ApiKey.DESCRIBE_CONFIGS, 4, note="the file", resources=resources, include_synonyms=True)


STEADY, ANOTHER = "log.cleaner.delete.retention.ms", "log.index.interval.bytes"
"""Settings of a broker that no other scenario depends on."""


@once()
def settings_changed_while_the_broker_runs(play):
    """Of this broker, and of all brokers. At the end all are reset."""
    topic = play.topic()

    def alter(note, name, *changes, check=False):
        configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
        resources = [{"resource_type": BROKER, "resource_name": name, "configs": configs}]
        play.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, note=note, resources=resources, validate_only=check)

    def see(note):
        play.settle()
        keys = [STEADY, ANOTHER, "min.insync.replicas", "log.cleanup.policy"]
        for kind, name, asked in (
            (BROKER, "1", keys),
            (BROKER, "", keys),
            (TOPIC, topic.name, ["delete.retention.ms", "index.interval.bytes", "min.insync.replicas"]),
        ):
            resources = [resource(kind, name, asked)]
            play.ask(ApiKey.DESCRIBE_CONFIGS, 4, note=f"{note}: {name!r}", resources=resources, include_synonyms=True)

    see("before")
    alter("all brokers", "", (STEADY, 0, " 0100000 "), (ANOTHER, 0, "8192"))
    see("all brokers")
    alter("this broker", "1", (STEADY, 0, "200000"))
    see("this broker")
    alter("only checked", "1", (STEADY, 0, "300000"), check=True)
    for name, key, value in (
        ("1", STEADY, "x"),
        ("1", STEADY, None),
        ("1", "log.segment.bytes", "1"),
        ("1", "log.retention.hours", "5"),
        ("", "log.retention.hours", "5"),
        ("", "num.partitions", "5"),
        ("1", "min.insync.replicas", "2"),
        ("", "group.consumer.assignment.interval.ms", "200000"),
        ("", "group.consumer.session.timeout.ms", "50000"),
        ("1", "log.cleaner.dedupe.buffer.size", "1000"),
        ("7", STEADY, "5"),
        ("x", STEADY, "5"),
        ("-1", STEADY, "5"),
    ):
        alter(f"{name!r} {key}={value}", name, (key, 0, value))
    alter("twice", "1", (STEADY, 0, "5"), (STEADY, 1, None))
    alter("append to a number", "1", (STEADY, 2, "5"))
    alter("remove what Kafka keeps", "", ("min.insync.replicas", 1, None))
    alter("append to a list", "1", ("log.cleanup.policy", 2, "delete"))
    see("after refusals and a list")
    configs = [{"name": ANOTHER, "value": "5000"}]
    resources = [{"resource_type": BROKER, "resource_name": "1", "configs": configs}]
    play.ask(ApiKey.ALTER_CONFIGS, 2, note="as a whole", resources=resources, validate_only=False)
    see("as a whole")
    resources = [{"resource_type": BROKER, "resource_name": "", "configs": configs}]
    play.ask(ApiKey.ALTER_CONFIGS, 2, note="all brokers as a whole", resources=resources, validate_only=False)
    alter("back to the file", "1", (STEADY, 1, None), (ANOTHER, 1, None), ("log.cleanup.policy", 1, None))
    alter("all back to the file", "", (STEADY, 1, None), (ANOTHER, 1, None))
    see("in the end")


@for_versions(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def alters_settings_step_by_step(play, version):
    topic = play.topic()

    def ask(note, *changes, kind=TOPIC, name=topic.name, check=False):
        configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
        play.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            version,
            note=note,
            validate_only=check,
            resources=[{"resource_type": kind, "resource_name": name, "configs": configs}],
        )

    _changes(play, topic, ask)
    ask("append to a list", ("cleanup.policy", 2, "compact"))
    _see(play, topic, "after the append")
    ask("append again", ("cleanup.policy", 2, "compact"))
    ask("subtract", ("cleanup.policy", 3, "delete"))
    ask("subtract what is not there", ("cleanup.policy", 3, "delete"))
    _see(play, topic, "after the subtraction")
    ask("append to a number", ("retention.ms", 2, "5"))
    ask("an unknown operation", ("retention.ms", 7, "5"))
    ask("set and delete", ("retention.ms", 0, "5"), ("retention.ms", 1, None))
    ask("delete what is not set", ("flush.ms", 1, None))
    ask("delete with a value", ("max.message.bytes", 1, "7"))
    ask("delete an unknown one", ("no.such", 1, None))
    _see(play, topic, "in the end")


@for_versions(ApiKey.ALTER_CONFIGS)
def alters_settings_as_a_whole(play, version):
    topic = play.topic()

    def ask(note, *changes, kind=TOPIC, name=topic.name, check=False):
        configs = [{"name": key, "value": value} for key, _, value in changes]
        play.ask(
            ApiKey.ALTER_CONFIGS,
            version,
            note=note,
            validate_only=check,
            resources=[{"resource_type": kind, "resource_name": name, "configs": configs}],
        )

    _changes(play, topic, ask)
    ask("everything else goes", ("retention.bytes", 0, "7000"))
    _see(play, topic, "in the end")


def _changes(play, topic, ask):
    ask("checked only", ("retention.ms", 0, "9000"), check=True)
    _see(play, topic, "after the check")
    ask("two", ("retention.ms", 0, "9000"), ("max.message.bytes", 0, "2000"))
    _see(play, topic, "after two")
    ask("none")
    ask("an unknown key", ("no.such", 0, "1"))
    ask("an empty key", ("", 0, "1"))
    ask("a bad value", ("retention.ms", 0, "soon"))
    ask("out of range", ("retention.ms", 0, "-7"))
    ask("null", ("retention.ms", 0, None))
    ask("empty", ("retention.ms", 0, ""))
    ask("one good, one bad", ("flush.ms", 0, "100"), ("retention.ms", 0, "x"))
    ask("twice", ("flush.ms", 0, "100"), ("flush.ms", 0, "200"))
    ask("unknown topic", ("retention.ms", 0, "1"), name=NO_SUCH)
    ask("bad name", ("retention.ms", 0, "1"), name="a b")
    ask("no name", ("retention.ms", 0, "1"), name="")
    for kind in (0, 1, 3, 99, -1):
        ask(f"{kind=}", ("a", 0, "1"), kind=kind)
    ask("another broker", ("log.retention.ms", 0, "1"), kind=BROKER, name="7")
    ask("a broker that is no number", ("log.retention.ms", 0, "1"), kind=BROKER, name="x")
    _see(play, topic, "after all that")


def _see(play, topic, note):
    play.settle()

    def set_ones(answer):
        chosen = [one for one in answer["results"][0]["configs"] if one["config_source"] == 1]
        return sorted([one["name"], one["value"]] for one in chosen)

    play.ask(ApiKey.DESCRIBE_CONFIGS, 4, note=note, resources=[resource(TOPIC, topic.name)], listing=set_ones)


@for_versions(ApiKey.LIST_CONFIG_RESOURCES)
def config_resources(play, version):
    def mine(answer):
        kept = [
            one
            for one in answer["config_resources"]
            if str(one.get("resource_name")).startswith((play.shown_slug, "1"))
        ]
        return answer | {"config_resources": kept}

    play.topic()
    play.settle()
    for kinds in (
        (),
        (TOPIC,),
        (BROKER,),
        (CLIENT_METRICS,),
        (GROUP,),
        (LOGGER,),
        (0,),
        (1,),
        (99,),
        (-1,),
        (TOPIC, TOPIC),
    ):
        play.ask(ApiKey.LIST_CONFIG_RESOURCES, version, note=f"{kinds}", resource_types=kinds, listing=mine)


def rule(play, suffix="x", **given):
    plain = {
        "resource_type": TOPIC,
        "resource_name": play.name(suffix),
        "resource_pattern_type": 3,
        "principal": "User:ann",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return plain | given


def rule_filter(**given):
    plain = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return plain | given


@for_versions(ApiKey.CREATE_ACLS)
def access_rules(play, version):
    bad = (
        [{"resource_type": kind} for kind in (0, 1, 7, 99)]
        + [{"operation": number} for number in (0, 1, 2, 9, 12, 14, 99)]
        + [{"permission_type": number} for number in (0, 1, 2, 9)]
        + [
            {"principal": "ann"},
            {"principal": ""},
            {"principal": "User:"},
            {"principal": "Group:x"},
            {"host": ""},
            {"host": "1.2.3.4"},
        ]
        + [
            {"resource_name": ""},
            {"resource_name": "*"},
            {"resource_type": 4, "resource_name": "x"},
            {"resource_type": 4, "resource_name": "kafka-cluster"},
        ]
    )
    if version >= 1:
        bad += [{"resource_pattern_type": number} for number in (0, 1, 2, 4, 9)]
    play.ask(ApiKey.CREATE_ACLS, version, note="nothing", creations=[])
    play.ask(ApiKey.CREATE_ACLS, version, note="two of one", creations=[rule(play), rule(play)])
    for number, given in enumerate(bad):
        play.ask(ApiKey.CREATE_ACLS, version, note=f"{given}", creations=[rule(play, f"r{number}", **given)])
    play.settle()
    for given in (
        {},
        {"operation": 3},
        {"permission_type": 2},
        {"principal_filter": "User:ann"},
        {"host_filter": "1.2.3.4"},
        {"resource_name_filter": play.name("x")},
        {"resource_name_filter": play.name("x"), "pattern_type_filter": 2},
        {"resource_type_filter": 0},
        {"operation": 0},
        {"permission_type": 0},
        {"pattern_type_filter": 0},
        {"resource_type_filter": 99},
        {"operation": 99},
        {"principal_filter": ""},
    ):
        play.ask(
            ApiKey.DESCRIBE_ACLS,
            version,
            note=f"{given}",
            **rule_filter(**given),
            listing=lambda a: _own_rules(a, play.shown_slug),
        )
        mine = {"resource_name_filter": play.name("r12"), "resource_type_filter": 2} | given
        play.ask(ApiKey.DELETE_ACLS, version, note=f"{mine}", filters=[rule_filter(**mine)])
    play.ask(ApiKey.DELETE_ACLS, version, note="nothing", filters=[])
    play.ask(
        ApiKey.DELETE_ACLS,
        version,
        note="whose",
        filters=[rule_filter(resource_name_filter=play.name("x")) for _ in range(2)],
    )
    # Deletes what other scenarios left.
    play.quietly(ApiKey.DELETE_ACLS, 3, filters=[rule_filter()])
    play.settle()


def _own_rules(answer, slug):
    kept = [one for one in answer["resources"] if one["resource_name"].startswith(slug)]
    return answer | {"resources": sorted(kept, key=repr)}


@once()
def users(play):
    def alter(note, *upsertions, deletions=()):
        ups = [
            {"name": n, "mechanism": m, "iterations": i, "salt": s, "salted_password": p}
            for n, m, i, s, p in upsertions
        ]
        downs = [{"name": name, "mechanism": mechanism} for name, mechanism in deletions]
        play.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, note=note, upsertions=ups, deletions=downs)

    def describe(note, *names):
        play.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, note=note, users=[{"name": name} for name in names])

    salt, password = b"s" * 16, b"p" * 32
    ann, bob = play.name("ann"), play.name("bob")
    alter("nothing")
    alter("ann", (ann, 1, 4096, salt, password))
    alter("ann again, and bob", (ann, 1, 8192, salt, password), (bob, 2, 4096, salt, b"p" * 64))
    for iterations in (4095, 0, -1, 16384, 16385):
        alter(f"{iterations=}", (bob, 1, iterations, salt, password))
    for mechanism in (0, 3, -1):
        alter(f"{mechanism=}", (bob, mechanism, 4096, salt, password))
        alter(f"delete {mechanism=}", deletions=[(bob, mechanism)])
    alter("no name", ("", 1, 4096, salt, password))
    alter("twice", (bob, 1, 4096, salt, password), (bob, 1, 4096, salt, password))
    alter("up and down", (bob, 1, 4096, salt, password), deletions=[(bob, 1)])
    alter("no salt", (bob, 1, 4096, b"", password))
    alter("no password", (bob, 1, 4096, salt, b""))
    alter("delete who is not there", deletions=[("nobody", 1)])
    alter("good and bad", (play.name("cid"), 1, 4096, salt, password), deletions=[("nobody", 1)])
    play.settle()
    describe("both", ann, bob)
    describe("nobody", "nobody")
    describe("twice", ann, ann)
    describe("no name", "")
    alter("ann goes", deletions=[(ann, 1)])
    play.settle()
    describe("ann has gone", ann)


@for_versions(ApiKey.SASL_HANDSHAKE)
def logins_where_there_are_none(play, version):
    """On a listener without SASL."""
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "NO-SUCH", ""):
        play.ask(ApiKey.SASL_HANDSHAKE, version, note=mechanism, mechanism=mechanism)
    for authenticate in versions_of(ApiKey.SASL_AUTHENTICATE):
        play.ask(ApiKey.SASL_AUTHENTICATE, authenticate, auth_bytes=b"\0ann\0x")
