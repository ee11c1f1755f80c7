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
    empty_item,
    int_parser,
    invalid_value,
    items_of,
    long_parser,
    one_of,
    text,
)
from broker_core.model.topic_defaults import TOPIC_SYNONYMS
from broker_core.model.topic_settings import SETTINGS as TOPIC_SETTINGS

LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


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
        raise empty_item(name, value)
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
    _int("node.id", None, "Id of this node, unique in the cluster.", least=0),
    _int("broker.id", -1, "Old name of node.id."),
    _text("broker.rack", None, "Rack of this node. Clients get it in metadata responses."),
    _text(
        "replica.selector.class",
        None,
        "Which replica a consumer reads from: the leader, or one in sync in its own rack (client.rack).",
        parser=one_of("", LEADER_SELECTOR, RACK_AWARE_SELECTOR),
    ),
    _list("log.dirs", None, "Directory of the log. Exactly one is supported."),
    _list("log.dir", "/tmp/kafka-logs", "Directory of the log if log.dirs is not set."),
    _list("listeners", "PLAINTEXT://:9092", "Addresses on which the broker listens: NAME://host:port.", dynamic=True),
    _list("advertised.listeners", None, "Addresses that clients connect to. Default: listeners."),
    _text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name.",
        dynamic=True,
    ),
    _list("controller.listener.names", None, "Listeners for controllers. A single node does not open them."),
    _text(
        "metrics.listener",
        None,
        "host:port of Prometheus metrics and the health check. Not a Kafka setting.",
        hidden=True,
    ),
    _int("num.io.threads", 8, "Threads for disk operations.", least=1, dynamic=True),
)

_CONNECTIONS: Final = (
    _long("connections.max.idle.ms", 600_000, "Idle connections are closed after this time."),
    _long("connections.max.reauth.ms", 0, "Lifetime of a SASL login. 0: as long as the connection."),
    _int("connection.failed.authentication.delay.ms", 100, "Delay of the response to a failed login.", least=0),
    _int("max.connections", INT_MAX, "Maximum number of open connections.", least=0, dynamic=True),
    _int(
        "max.connections.per.ip", INT_MAX, "Maximum number of open connections from one address.", least=0, dynamic=True
    ),
    _text(
        "max.connections.per.ip.overrides",
        "",
        "max.connections.per.ip of single addresses: address:count,…",
        dynamic=True,
    ),
    _int("socket.request.max.bytes", 104_857_600, "Maximum size of a request.", least=1),
    _int("socket.send.buffer.bytes", 102_400, "SO_SNDBUF. -1: the operating system's default."),
    _int("socket.receive.buffer.bytes", 102_400, "SO_RCVBUF. -1: the operating system's default."),
    _int("socket.listen.backlog.size", 50, "Maximum number of connections that wait for accept.", least=1),
    _long("queued.max.request.bytes", -1, "Maximum bytes of queued requests. -1: a built-in limit."),
    _int("fetch.max.bytes", 57_671_680, "Maximum size of a fetch response.", least=1024),
    _int("max.incremental.fetch.session.cache.slots", 1000, "Maximum number of fetch sessions.", least=0),
    _int(
        "max.request.partition.size.limit",
        2000,
        "Maximum number of partitions in a DescribeTopicPartitions response.",
        least=1,
    ),
    _int("quota.window.num", 11, "Number of samples in the window of the rates of quotas.", least=1),
    _int("quota.window.size.seconds", 1, "Time of one sample of it.", least=1),
    _int("controller.quota.window.num", 11, "The same for controller_mutation_rate.", least=1),
    _int("controller.quota.window.size.seconds", 1, "Time of one sample of it.", least=1),
)

_TOPICS: Final = (
    _int("num.partitions", 1, "Number of partitions of a new topic if the request does not set it.", least=1),
    _int(
        "default.replication.factor",
        1,
        "Replication factor of a new topic if the request does not set it. Must be 1 on a single node.",
        least=1,
    ),
    _flag("auto.create.topics.enable", True, "Whether a metadata request creates a missing topic."),
    _flag("delete.topic.enable", True, "Whether topics can be deleted."),
    _int(
        "log.retention.hours",
        168,
        "How long records are kept if neither log.retention.minutes nor log.retention.ms is set.",
    ),
    _int("log.retention.minutes", None, "How long records are kept if log.retention.ms is not set."),
    _int("log.roll.hours", 168, "Age at which a segment is rolled if log.roll.ms is not set.", least=1),
    _int("log.roll.jitter.hours", 0, "Maximum random jitter of the roll if log.roll.jitter.ms is not set.", least=0),
    _long("log.retention.check.interval.ms", 300_000, "Interval between checks for retention and compaction.", least=1),
    _flag("log.cleaner.enable", True, "Whether topics with cleanup.policy=compact are compacted."),
    _long("log.cleaner.dedupe.buffer.size", 134_217_728, "Memory for the keys of one compaction.", dynamic=True),
)

_GROUPS: Final = (
    _int("group.initial.rebalance.delay.ms", 3000, "Delay of the first rebalance of an empty group."),
    _int("group.min.session.timeout.ms", 6000, "Minimum session timeout of a classic member."),
    _int("group.max.session.timeout.ms", 1_800_000, "Maximum session timeout of a classic member."),
    _int("group.max.size", INT_MAX, "Maximum number of members of a classic group.", least=1),
    _list(
        "group.coordinator.rebalance.protocols",
        "classic,consumer,streams",
        "Enabled group protocols. Streams groups are not supported, even if they are listed.",
        parser=listed_of("classic", "consumer", "streams", "share"),
    ),
    _int("group.consumer.session.timeout.ms", 45_000, "Session timeout of a KIP-848 member.", least=1),
    _int("group.consumer.min.session.timeout.ms", 45_000, "Minimum that a group may set.", least=1),
    _int("group.consumer.max.session.timeout.ms", 60_000, "Maximum that a group may set.", least=1),
    _int("group.consumer.heartbeat.interval.ms", 5000, "Heartbeat interval of KIP-848 members.", least=1),
    _int("group.consumer.min.heartbeat.interval.ms", 5000, "Minimum that a group may set.", least=1),
    _int("group.consumer.max.heartbeat.interval.ms", 15_000, "Maximum that a group may set.", least=1),
    _int(
        "group.consumer.assignment.interval.ms",
        1000,
        "Minimum time between two target assignments.",
        least=0,
        dynamic=True,
    ),
    _int("group.consumer.min.assignment.interval.ms", 0, "Minimum that a group may set.", least=0),
    _int("group.consumer.max.assignment.interval.ms", 15_000, "Maximum that a group may set.", least=0),
    _int("group.consumer.max.size", INT_MAX, "Maximum number of members of a KIP-848 group.", least=1),
    _list(
        "group.consumer.assignors",
        "uniform,range",
        "Enabled assignors. The first is the default.",
        parser=listed_of("uniform", "range"),
    ),
    _text(
        "group.consumer.migration.policy",
        "bidirectional",
        "How groups convert between the classic and consumer protocols.",
        parser=one_of("disabled", "upgrade", "downgrade", "bidirectional"),
    ),
    _int("offsets.retention.minutes", 10_080, "How long the offsets of a group without members are kept.", least=1),
    _long("offsets.retention.check.interval.ms", 600_000, "Interval between checks for expired offsets.", least=1),
    _int("offset.metadata.max.bytes", 4096, "Maximum size of the metadata of a committed offset."),
)

_TRANSACTIONS: Final = (
    _int("transaction.max.timeout.ms", 900_000, "Maximum timeout of a transaction.", least=1),
    _int("transactional.id.expiration.ms", 604_800_000, "Unused transactional ids expire after this time.", least=1),
    _int(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "Interval between checks for transactions that timed out.",
        least=1,
    ),
    _int(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "Interval between checks for expired transactional ids.",
        least=1,
    ),
    _int(
        "producer.id.expiration.ms",
        86_400_000,
        "The state of an idle producer expires after this.",
        least=1,
        dynamic=True,
    ),
)

_SECURITY: Final = (
    _list(
        "sasl.enabled.mechanisms",
        "GSSAPI",
        "Enabled SASL mechanisms. GSSAPI is not supported.",
        parser=listed_of(*SASL_MECHANISMS),
        dynamic=True,
    ),
    _secret("sasl.jaas.config", 'Users of PLAIN: PlainLoginModule required user_alice="…";'),
    _int("sasl.server.max.receive.size", MAX_UNAUTHENTICATED_FRAME_BYTES, "Maximum size of a SASL request.", least=1),
    _text(
        "ssl.client.auth",
        "none",
        "Whether clients need a certificate.",
        parser=one_of("required", "requested", "none"),
        dynamic=True,
    ),
    _list(
        "ssl.enabled.protocols",
        "TLSv1.2,TLSv1.3",
        "Enabled versions of TLS.",
        parser=listed_of("TLSv1.2", "TLSv1.3"),
        dynamic=True,
    ),
    _text("ssl.keystore.type", "JKS", "Must be PEM.", dynamic=True),
    _text("ssl.keystore.location", None, "PEM file of the private key and its certificates.", dynamic=True),
    _secret("ssl.keystore.key", "Private key as PEM text."),
    _secret("ssl.keystore.certificate.chain", "Certificates of the private key as PEM text."),
    _secret("ssl.keystore.password", "Does not apply to PEM; see ssl.key.password."),
    _secret("ssl.key.password", "Password of an encrypted private key."),
    _text("ssl.truststore.type", "JKS", "Must be PEM.", dynamic=True),
    _text("ssl.truststore.location", None, "PEM file of the authorities that sign client certificates.", dynamic=True),
    _secret("ssl.truststore.certificates", "Certificates of the authorities as PEM text."),
    _secret("ssl.truststore.password", "Does not apply to PEM."),
    _flag("ssl.allow.dn.changes", False, "Whether a certificate can be replaced by one with another subject."),
    _flag("ssl.allow.san.changes", False, "Whether a certificate can be replaced by one without all of its names."),
    _text("ssl.principal.mapping.rules", "DEFAULT", "Rules that map a certificate's subject to a user name."),
    _text("authorizer.class.name", "", "Class of the authorizer, or empty for no authorization."),
    _of_authorizer("super.users", None, text, "Principals that may do everything: User:ann;User:bob."),
    _of_authorizer(
        "allow.everyone.if.no.acl.found", None, boolean, "Whether everyone may use a resource without ACLs."
    ),
)

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
                    doc=f"Default of {topic_name} for topics that do not set it.",
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
