"""The broker settings that have an effect here: name, default, type, range, and purpose.

Names, defaults and ranges are those of Kafka 4.3; `metrics.listener` and `flush.policy` are ours. Values are given as
strings. Kafka's other settings, which have no effect here, are in `idle_settings`; `broker_config` parses all of them.

Settings that are defaults of topics (`model.topic_defaults`) accept the same values as the topic's setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from broker_core.model.client_settings import SASL_MECHANISMS
from broker_core.model.limits import MAX_UNAUTHENTICATED_FRAME_BYTES
from broker_core.model.setting_kind import SettingKind, shown_value
from broker_core.model.setting_parsers import (
    INT_MAX,
    Parser,
    SettingValue,
    boolean,
    int_parser,
    invalid_value,
    items_of,
    long_parser,
    one_of,
    text,
)
from broker_core.model.topic_defaults import TOPIC_SYNONYMS
from broker_core.model.topic_settings import SETTINGS as TOPIC_SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSetting:
    """`default` None: no value unless given. `is_dynamic`: a dynamic setting in Kafka. `is_described`: Kafka describes
    it even if it is not given."""

    name: str
    kind: SettingKind
    default: str | None
    parser: Parser
    doc: str
    is_dynamic: bool = False
    is_described: bool = True

    @property
    def is_sensitive(self) -> bool:
        """Its value is never shown: it is a secret, or Kafka does not know its type."""
        return self.kind in (SettingKind.PASSWORD, SettingKind.UNKNOWN)

    def shown(self, value: str) -> str | None:
        """The value as DescribeConfigs shows it; None if it is sensitive."""
        return shown_value(self.kind, value)

    def parse(self, value: str) -> SettingValue:
        """Raises InvalidConfigError."""
        return self.parser(self.name, value)


def listed(name: str, value: str) -> tuple[str, ...]:
    """A parser for lists that keeps the order."""
    items = items_of(value)
    if not all(items):
        raise invalid_value(name, value, f"Configuration '{name}' values must not be empty.")
    return tuple(items)


def listed_of(*choices: str) -> Parser:
    def parse(name: str, value: str) -> tuple[str, ...]:
        items = listed(name, value)
        for item in items:
            if item not in choices:
                raise invalid_value(name, item, f"String must be one of: {', '.join(choices)}")
        return items

    return parse


def _make(
    name: str, kind: SettingKind, default: str | int | None, parser: Parser, doc: str, *, dynamic: bool, hidden: bool
) -> BrokerSetting:
    return BrokerSetting(
        name=name,
        kind=kind,
        default=None if default is None else str(default),
        parser=parser,
        doc=doc,
        is_dynamic=dynamic,
        is_described=not hidden,
    )


def _int(
    name: str,
    default: int | None,
    doc: str,
    *,
    least: int | None = None,
    most: int | None = None,
    dynamic: bool = False,
) -> BrokerSetting:
    return _make(name, SettingKind.INT, default, int_parser(least, most), doc, dynamic=dynamic, hidden=False)


def _long(
    name: str, default: int | None, doc: str, *, least: int | None = None, dynamic: bool = False, hidden: bool = False
) -> BrokerSetting:
    return _make(name, SettingKind.LONG, default, long_parser(least), doc, dynamic=dynamic, hidden=hidden)


def _flag(name: str, default: bool, doc: str) -> BrokerSetting:
    return _make(name, SettingKind.BOOLEAN, str(default).lower(), boolean, doc, dynamic=False, hidden=False)


def _text(
    name: str, default: str | None, doc: str, *, parser: Parser = text, dynamic: bool = False, hidden: bool = False
) -> BrokerSetting:
    return _make(name, SettingKind.STRING, default, parser, doc, dynamic=dynamic, hidden=hidden)


def _list(name: str, default: str | None, doc: str, *, parser: Parser = listed, dynamic: bool = False) -> BrokerSetting:
    return _make(name, SettingKind.LIST, default, parser, doc, dynamic=dynamic, hidden=False)


def _secret(name: str, doc: str) -> BrokerSetting:
    return _make(name, SettingKind.PASSWORD, None, text, doc, dynamic=True, hidden=False)


def _of_authorizer(name: str, default: str | None, parser: Parser, doc: str) -> BrokerSetting:
    """A setting that only the authorizer reads: Kafka's broker does not know its type, and hides its value."""
    return _make(name, SettingKind.UNKNOWN, default, parser, doc, dynamic=False, hidden=True)


_NODE: Final = (
    _int("node.id", None, "This node's number in the cluster.", least=0),
    _int("broker.id", -1, "The old name of node.id."),
    _text("broker.rack", None, "Where the node stands; clients are told."),
    _list("log.dirs", None, "The directory of the log: exactly one."),
    _list("log.dir", "/tmp/kafka-logs", "The same, where log.dirs is not given."),
    _list("listeners", "PLAINTEXT://:9092", "Where the broker listens: NAME://host:port.", dynamic=True),
    _list("advertised.listeners", None, "What clients are told to connect to, where it is not where it listens."),
    _text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener's name.",
        dynamic=True,
    ),
    _list("controller.listener.names", None, "Listeners of controllers: a node alone needs none, they stay closed."),
    _text("metrics.listener", None, "host:port of Prometheus metrics and of the health check. Ours.", hidden=True),
    _int("num.io.threads", 8, "Threads for what may block: the disk.", least=1, dynamic=True),
)

_CONNECTIONS: Final = (
    _long("connections.max.idle.ms", 600_000, "A connection that was silent for so long is closed."),
    _long("connections.max.reauth.ms", 0, "How long a SASL login is good for; 0: for as long as the connection."),
    _int("connection.failed.authentication.delay.ms", 100, "A refused login is answered so late.", least=0),
    _int("max.connections", INT_MAX, "Connections at a time.", least=0, dynamic=True),
    _int("max.connections.per.ip", INT_MAX, "Connections at a time from one address.", least=0, dynamic=True),
    _text("max.connections.per.ip.overrides", "", "The same for named addresses: address:count,…", dynamic=True),
    _int("socket.request.max.bytes", 104_857_600, "The largest request.", least=1),
    _int("socket.send.buffer.bytes", 102_400, "SO_SNDBUF; -1: the operating system's."),
    _int("socket.receive.buffer.bytes", 102_400, "SO_RCVBUF; -1: the operating system's."),
    _int("socket.listen.backlog.size", 50, "Connections that wait to be accepted.", least=1),
    _long("queued.max.request.bytes", -1, "Requests at work at a time, in bytes; -1: a bound of our own."),
    _int("fetch.max.bytes", 57_671_680, "The largest answer to a fetch.", least=1024),
    _int("max.incremental.fetch.session.cache.slots", 1000, "Fetch sessions that are kept.", least=0),
    _int("max.request.partition.size.limit", 2000, "Partitions in one DescribeTopicPartitions answer.", least=1),
)

_TOPICS: Final = (
    _int("num.partitions", 1, "Partitions of a topic where nobody says how many.", least=1),
    _int(
        "default.replication.factor", 1, "Copies of a partition where nobody says how many: 1 on a node alone.", least=1
    ),
    _flag("auto.create.topics.enable", True, "A topic that is asked for is made."),
    _flag("delete.topic.enable", True, "Topics can be deleted."),
    _int("log.retention.hours", 168, "How long records are kept, unless minutes or ms are given."),
    _int("log.retention.minutes", None, "The same in minutes."),
    _int("log.roll.hours", 168, "After how long a segment is rolled, unless ms are given.", least=1),
    _int("log.roll.jitter.hours", 0, "By how much that varies, unless ms are given.", least=0),
    _long("log.retention.check.interval.ms", 300_000, "How often retention and compaction are looked at.", least=1),
    _flag("log.cleaner.enable", True, "Compacted topics are compacted."),
    _long("log.cleaner.dedupe.buffer.size", 134_217_728, "Memory for the keys of one compaction.", dynamic=True),
)

_GROUPS: Final = (
    _int("group.initial.rebalance.delay.ms", 3000, "An empty group waits so long for more members."),
    _int("group.min.session.timeout.ms", 6000, "The shortest session of a classic member."),
    _int("group.max.session.timeout.ms", 1_800_000, "The longest session of a classic member."),
    _int("group.max.size", INT_MAX, "Members of a classic group.", least=1),
    _list(
        "group.coordinator.rebalance.protocols",
        "classic,consumer,streams",
        "Kinds of groups that are coordinated; streams groups are not yet, whatever is said here.",
        parser=listed_of("classic", "consumer", "streams", "share"),
    ),
    _int("group.consumer.session.timeout.ms", 45_000, "Session of a KIP-848 member.", least=1),
    _int("group.consumer.min.session.timeout.ms", 45_000, "The shortest one that a group may be set to.", least=1),
    _int("group.consumer.max.session.timeout.ms", 60_000, "The longest one that a group may be set to.", least=1),
    _int("group.consumer.heartbeat.interval.ms", 5000, "What KIP-848 members are told.", least=1),
    _int("group.consumer.min.heartbeat.interval.ms", 5000, "The shortest one that a group may be set to.", least=1),
    _int("group.consumer.max.heartbeat.interval.ms", 15_000, "The longest one that a group may be set to.", least=1),
    _int(
        "group.consumer.assignment.interval.ms", 1000, "Least time between two target assignments.", least=0,
        dynamic=True,
    ),
    _int("group.consumer.min.assignment.interval.ms", 0, "The shortest one that a group may be set to.", least=0),
    _int("group.consumer.max.assignment.interval.ms", 15_000, "The longest one that a group may be set to.", least=0),
    _int("group.consumer.max.size", INT_MAX, "Members of a KIP-848 group.", least=1),
    _list(
        "group.consumer.assignors", "uniform,range", "The first is taken when no member asks for one.",
        parser=listed_of("uniform", "range"),
    ),
    _text(
        "group.consumer.migration.policy", "bidirectional", "Which groups become the other kind by themselves.",
        parser=one_of("disabled", "upgrade", "downgrade", "bidirectional"),
    ),
    _int("offsets.retention.minutes", 10_080, "Offsets of a group without members are kept so long.", least=1),
    _long("offsets.retention.check.interval.ms", 600_000, "How often that is looked at.", least=1),
    _int("offset.metadata.max.bytes", 4096, "Text beside a committed offset."),
)  # fmt: skip

_TRANSACTIONS: Final = (
    _int("transaction.max.timeout.ms", 900_000, "The longest timeout that a transaction may ask for.", least=1),
    _int("transactional.id.expiration.ms", 604_800_000, "An id that nobody uses is forgotten.", least=1),
    _int(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000,
        "How often timed out transactions are looked for.", least=1,
    ),
    _int(
        "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000,
        "How often expired ids are looked for.", least=1,
    ),
    _int("producer.id.expiration.ms", 86_400_000, "A producer that is silent is forgotten.", least=1, dynamic=True),
)  # fmt: skip

_SECURITY: Final = (
    _list(
        "sasl.enabled.mechanisms", "GSSAPI", "How clients may log in; GSSAPI is not served.",
        parser=listed_of(*SASL_MECHANISMS), dynamic=True,
    ),
    _secret("sasl.jaas.config", 'Users of PLAIN: PlainLoginModule required user_alice="…";'),
    _int("sasl.server.max.receive.size", MAX_UNAUTHENTICATED_FRAME_BYTES, "Largest request before a login.", least=1),
    _text(
        "ssl.client.auth", "none", "Whether clients must show a certificate.",
        parser=one_of("required", "requested", "none"), dynamic=True,
    ),
    _list(
        "ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "Versions of TLS.", parser=listed_of("TLSv1.2", "TLSv1.3"),
        dynamic=True,
    ),
    _text("ssl.keystore.type", "JKS", "PEM, the only one that can be read here.", dynamic=True),
    _text("ssl.keystore.location", None, "PEM file of the private key and its certificates.", dynamic=True),
    _secret("ssl.keystore.key", "The private key itself, PEM."),
    _secret("ssl.keystore.certificate.chain", "Its certificates, PEM."),
    _secret("ssl.keystore.password", "Not for PEM; ssl.key.password opens a key."),
    _secret("ssl.key.password", "Opens an encrypted private key."),
    _text("ssl.truststore.type", "JKS", "PEM, the only one that can be read here.", dynamic=True),
    _text("ssl.truststore.location", None, "PEM file of the authorities that sign clients.", dynamic=True),
    _secret("ssl.truststore.certificates", "Those certificates themselves, PEM."),
    _secret("ssl.truststore.password", "Not for PEM."),
    _text("ssl.principal.mapping.rules", "DEFAULT", "From a certificate's subject to a user's name."),
    _text("authorizer.class.name", "", "The standard authorizer: access rules count."),
    _of_authorizer("super.users", None, text, "Who may do everything: User:ann;User:bob."),
    _of_authorizer("allow.everyone.if.no.acl.found", None, boolean, "What has no access rules is open to all."),
)  # fmt: skip

_WITHOUT_A_VALUE: Final = frozenset({"log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"})
"""Settings without a default: if not given, another setting is used."""

_STATIC: Final = frozenset({"log.flush.scheduler.interval.ms", "flush.policy"})


def _defaults_of_topics() -> list[BrokerSetting]:
    """The settings of `TOPIC_SYNONYMS` without a row above; they accept the same values as the topic's setting."""
    named = {setting.name for setting in _TOPICS}
    found: list[BrokerSetting] = []
    for topic_name, synonyms in TOPIC_SYNONYMS.items():
        topic_setting = TOPIC_SETTINGS[topic_name]
        assert topic_setting.default is not None, f"{topic_name} has no default"
        for name in synonyms:
            if name in named:
                continue
            found.append(
                BrokerSetting(
                    name=name,
                    kind=topic_setting.kind,
                    default=None if name in _WITHOUT_A_VALUE else topic_setting.default,
                    parser=topic_setting.parser,
                    doc=f"{topic_name} of topics that do not set it.",
                    is_dynamic=name not in _STATIC,
                    is_described=name != "flush.policy",
                )
            )
    return found


BROKER_SETTINGS: Final[Mapping[str, BrokerSetting]] = MappingProxyType(
    {
        setting.name: setting
        for setting in sorted(
            (*_NODE, *_CONNECTIONS, *_TOPICS, *_GROUPS, *_TRANSACTIONS, *_SECURITY, *_defaults_of_topics()),
            key=lambda setting: setting.name,
        )
    }
)
"""By name, in alphabetical order."""
