"""Options that are accepted and ignored: one warning names them.

Spark's Kafka connector passes every option `kafka.*` on to Kafka's clients, so a query written for it may have any of
their settings. Each setting of Kafka 4.3's consumer and producer is one of three here:

    used       by the source, by the sink, or by the connection to brokers
    refused    ignoring it would change what is written, or weaken a login or TLS
    ignored    all others: those of the other side, and those about groups, buffers and metrics that do not exist here

Where the log is a directory, the settings of the connection are ignored too. The source ignores the options of the
sink, and the sink those of the source, so that one set of options, or one view, may serve both. Any other name is
refused, since it is most likely a typo.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Final

from spark_streamlog.options.format_options import SETTINGS
from spark_streamlog.options.option_reader import BOOTSTRAP_SERVERS, OptionReader
from spark_streamlog.options.remote_options import PREFIX

logger = logging.getLogger("spark_streamlog")

OF_SOURCE: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "failOnDataLoss", "includeHeaders", "minPartitions", "maxPartitions", "maxRecordsPerPartition",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger", "smallBatchOffsets",
    "onUnreadableRecord", "groupId", "groupIdPrefix", "pinRetention", "pushFilters", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip
OF_SINK: Final = ("topic", "topic.create", "topic.partitions", "delivery", "txnAppId", "txnVersion")
OF_FORMATS: Final = tuple(
    f"{side}Format{setting}" for side in ("key", "value") for setting in ("", *(f".{name}" for name in SETTINGS))
)
"""Of both."""
TOPIC_CONFIG_PREFIX: Final = "topic.config."

NUMBERS: Final = (
    "auto.commit.interval.ms", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level",
    "compression.zstd.level", "connections.max.idle.ms", "default.api.timeout.ms", "delivery.timeout.ms",
    "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "heartbeat.interval.ms", "linger.ms", "max.block.ms",
    "max.in.flight.requests.per.connection", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records",
    "max.request.size", "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metrics.num.samples", "metrics.sample.window.ms", "partitioner.availability.timeout.ms", "receive.buffer.bytes",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retries", "retry.backoff.max.ms",
    "retry.backoff.ms", "sasl.kerberos.min.time.before.relogin", "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
    "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "send.buffer.bytes", "session.timeout.ms", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms", "transaction.timeout.ms",
)  # fmt: skip
FLAGS: Final = (
    "allow.auto.create.topics", "check.crcs", "enable.auto.commit", "enable.idempotence", "enable.metrics.push",
    "exclude.internal.topics", "internal.throw.on.fetch.stable.offset.unsupported",
    "partitioner.adaptive.partitioning.enable", "partitioner.ignore.keys",
    "sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.header.urlencode",
    "transaction.two.phase.commit.enable",
)  # fmt: skip
TEXTS: Final = (
    "acks", "auto.offset.reset", "client.dns.lookup", "client.id", "client.rack", "compression.type",
    "config.providers", "group.id", "group.instance.id", "group.protocol", "group.remote.assignor",
    "interceptor.classes", "isolation.level", "key.deserializer", "key.serializer", "metadata.recovery.strategy",
    "metric.reporters", "metrics.recording.level", "partition.assignment.strategy", "partitioner.class",
    "sasl.client.callback.handler.class", "sasl.jaas.config", "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class", "sasl.login.class", "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter", "sasl.mechanism", "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud", "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file", "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope", "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username",
    "security.protocol", "security.providers", "share.acknowledgement.mode", "share.acquire.mode",
    "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class", "ssl.key.password", "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain",
    "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol",
    "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.certificates",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "transactional.id",
    "value.deserializer", "value.serializer",
)  # fmt: skip
"""By type, all settings of Kafka's clients except `bootstrap.servers`; and two of librdkafka's, which are used."""

_JAVA_CLASS: Final = "is not supported: it names a Java class, and this client does not run Java"
REFUSED_AT_BROKERS: Final = {
    "config.providers": "is not supported: option values are used as given and never resolved by a provider",
    "security.providers": _JAVA_CLASS,
    "ssl.provider": _JAVA_CLASS,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.login.callback.handler.class": _JAVA_CLASS,
    "sasl.login.class": _JAVA_CLASS,
    "ssl.cipher.suites": "is not supported: the machine's OpenSSL determines the ciphers",
}
"""By setting, the reason of the refusal: ignoring it would change a login or a connection."""


def ignored_options(options: OptionReader) -> tuple[str, ...]:
    """All ignored options of the user, in order. Call it after every used option has been read."""
    if options.text(BOOTSTRAP_SERVERS) is not None:
        for name, reason in REFUSED_AT_BROKERS.items():
            options.refuse(PREFIX + name, reason)
    for names, check in (
        (NUMBERS, lambda name: options.integer(name, minimum=-1)),
        (FLAGS, lambda name: options.flag(name, default=False)),
        (TEXTS, options.text),
    ):
        for name in names:
            if not options.is_known(PREFIX + name):
                check(PREFIX + name)
                options.ignore(PREFIX + name)
    for name in _of_other_side(options):
        options.ignore(name)
    options.spell((*OF_SOURCE, *OF_SINK, *OF_FORMATS))
    return tuple(sorted(options.ignored))


def _of_other_side(options: OptionReader) -> Sequence[str]:
    if options.role == "sink":
        return OF_SOURCE
    if options.role == "source":
        return (*OF_SINK, *(TOPIC_CONFIG_PREFIX + name for name in options.texts_behind(TOPIC_CONFIG_PREFIX)))
    return ()


@cache
def warn_of_ignored(role: str, names: tuple[str, ...]) -> None:
    """Warns once per process, because a stream is planned many times in it."""
    if names:
        logger.warning("The streamlog %s ignores options that have no effect on it: %s", role, ", ".join(names))
