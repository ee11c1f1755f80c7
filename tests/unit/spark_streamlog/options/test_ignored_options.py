"""Each setting of Kafka's consumer and producer: what becomes of it, at brokers and in a directory."""

import ast
import dataclasses
import logging
from functools import cache
from pathlib import Path

import pytest
from support.brokers.client_settings import recorded_client_settings

from broker_core.model.client_settings import ClientSettings, SaslSettings, TlsSettings
from broker_core.model.identifiers import CompressionType, IsolationLevel
from broker_core.topic_producer import ProducerSettings
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.ignored_options import FLAGS, NUMBERS, OF_SINK, OF_SOURCE, TEXTS, warn_of_ignored
from spark_streamlog.options.option_reader import OptionReader, QueryKind
from spark_streamlog.options.read_options import ReadOptions, parse_read_options
from spark_streamlog.options.table_options import parse_table_options
from spark_streamlog.options.write_options import WriteOptions, parse_write_options

ROOT = Path(__file__).parents[4]
KAFKA = recorded_client_settings()
CLIENT_SETTINGS = {name: kind for side in KAFKA.values() for name, kind in side.items()}
VALID = {"BOOLEAN": "true", "DOUBLE": "0.5", "INT": "7", "LONG": "7", "SHORT": "7"}
DIRECTORY = {"path": "/log"}
BROKERS = {"kafka.bootstrap.servers": "a:1"}
TLS = {"kafka.security.protocol": "SSL"}
LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "u", "kafka.sasl.password": "p",
}  # fmt: skip
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s";'

# Of the connection: setting -> (value, what else is needed, what must then hold of ClientSettings).
CONNECTION = {
    "bootstrap.servers": ("b:2", {}, lambda s: s.bootstrap_servers[0].port == 2),
    "client.id": ("me", {}, lambda s: s.client_id == "me"),
    "connections.max.idle.ms": ("7", {}, lambda s: s.max_idle_ms == 7),
    "default.api.timeout.ms": ("7", {}, lambda s: s.api_timeout_ms == 7),
    "metadata.max.age.ms": ("7", {}, lambda s: s.metadata_max_age_ms == 7),
    "receive.buffer.bytes": ("7", {}, lambda s: s.receive_buffer_bytes == 7),
    "request.timeout.ms": ("7", {}, lambda s: s.request_timeout_ms == 7),
    "retry.backoff.max.ms": ("7", {}, lambda s: s.retry_backoff_max_ms == 7),
    "retry.backoff.ms": ("7", {}, lambda s: s.retry_backoff_ms == 7),
    "send.buffer.bytes": ("7", {}, lambda s: s.send_buffer_bytes == 7),
    "socket.connection.setup.timeout.ms": ("7", {}, lambda s: s.connect_timeout_ms == 7),
    "security.protocol": ("SSL", {}, lambda s: s.tls is not None),
    "sasl.mechanism": ("SCRAM-SHA-256", LOGIN, lambda s: s.sasl.mechanism == "SCRAM-SHA-256"),
    "sasl.jaas.config": (JAAS, {**LOGIN, "kafka.sasl.username": None, "kafka.sasl.password": None},
                         lambda s: s.sasl.username == "ann"),
    "ssl.enabled.protocols": ("TLSv1.3", TLS, lambda s: s.tls.versions == ("TLSv1.3",)),
    "ssl.endpoint.identification.algorithm": ("", TLS, lambda s: not s.tls.verifies_host_name),
    "ssl.key.password": ("p", TLS, lambda s: s.tls.key_password == "p"),
    "ssl.keystore.certificate.chain": ("c", {**TLS, "kafka.ssl.keystore.key": "k"},
                                       lambda s: s.tls.certificates_pem == "c"),
    "ssl.keystore.key": ("k", {**TLS, "kafka.ssl.keystore.certificate.chain": "c"}, lambda s: s.tls.key_pem == "k"),
    "ssl.keystore.location": ("/k.pem", TLS, lambda s: s.tls.key_path == "/k.pem"),
    "ssl.truststore.certificates": ("c", TLS, lambda s: s.tls.trust_pem == "c"),
    "ssl.truststore.location": ("/t.pem", TLS, lambda s: s.tls.trust_path == "/t.pem"),
}  # fmt: skip
# What a PEM file cannot have is refused; PEM is the only type there is.
REFUSED_AT_BROKERS = {
    "ssl.keystore.password", "ssl.truststore.password", "config.providers", "security.providers", "ssl.provider",
    "ssl.engine.factory.class", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class",
    "sasl.login.class", "ssl.cipher.suites",
}  # fmt: skip
FULFILLED_AT_BROKERS = {"ssl.keystore.type", "ssl.truststore.type"}

SOURCE = {"isolation.level": ("read_uncommitted", lambda o: o.isolation is IsolationLevel.READ_UNCOMMITTED)}
REFUSED_BY_SOURCE = {
    "auto.offset.reset", "enable.auto.commit", "interceptor.classes", "key.deserializer", "value.deserializer",
}  # fmt: skip
SINK = {
    "batch.size": ("7", lambda o: o.producer.max_batch_bytes == 7),
    "compression.gzip.level": ("7", lambda o: o.producer.compression_level is None),  # of the codec that is not chosen
    "compression.lz4.level": ("7", lambda o: o.producer.compression_level is None),
    "compression.zstd.level": ("7", lambda o: o.producer.compression_level is None),
    "compression.type": ("lz4", lambda o: o.producer.compression is CompressionType.LZ4),
    "max.request.size": ("7", lambda o: o.producer.max_request_bytes == 7),
    "partitioner.ignore.keys": ("true", lambda o: o.producer.ignores_keys),
    "transaction.timeout.ms": ("7", lambda o: o.transaction_timeout_ms == 7),
}
SINK_FULFILS = {"acks": "all", "enable.idempotence": "true"}
REFUSED_BY_SINK = {
    "interceptor.classes", "key.serializer", "partitioner.class", "transaction.two.phase.commit.enable",
    "transactional.id", "value.serializer",
}  # fmt: skip


def parse_source(**given):
    return parse_read_options({"subscribe": "t"} | given, QueryKind.STREAM)


def parse_sink(**given):
    return parse_write_options({"topic": "t"} | given, QueryKind.STREAM)


SIDES = [
    pytest.param(parse_source, SOURCE, {}, REFUSED_BY_SOURCE, id="source"),
    pytest.param(parse_sink, SINK, SINK_FULFILS, REFUSED_BY_SINK, id="sink"),
]


def with_value(name, value, place):
    return place | {f"kafka.{name}": value}


def value_of(name, place):
    special = {
        "security.protocol": "PLAINTEXT", "sasl.mechanism": "PLAIN", "acks": "1", "auto.offset.reset": "latest",
        "max.in.flight.requests.per.connection": "5",
    }  # fmt: skip
    return special.get(name, VALID.get(CLIENT_SETTINGS[name], "x"))


@pytest.mark.parametrize(("parse", "used", "fulfilled", "refused"), SIDES)
@pytest.mark.parametrize("place", [DIRECTORY, BROKERS], ids=["directory", "brokers"])
def test_each_setting_of_kafkas_clients_is_used_or_ignored_or_refused_by_name(parse, used, fulfilled, refused, place):
    is_remote = place is BROKERS
    elsewhere = {"delivery.timeout.ms"} if is_remote and parse is parse_sink else set()
    connection = CONNECTION.keys() | FULFILLED_AT_BROKERS if is_remote else {"bootstrap.servers"}
    for name in sorted(CLIENT_SETTINGS.keys() - connection - used.keys() - fulfilled.keys() - elsewhere):
        given = with_value(name, value_of(name, place), place)
        if name in refused or (is_remote and name in REFUSED_AT_BROKERS):
            context = TLS if is_remote and name.endswith("store.password") else {}
            with pytest.raises(ConditionError, match=f"kafka.{name.replace('.', '[.]')} "):
                parse(**(given | context))
        else:
            assert parse(**given).ignored == (f"kafka.{name}",), name


@pytest.mark.parametrize(("parse", "used", "fulfilled", "refused"), SIDES)
@pytest.mark.parametrize("place", [DIRECTORY, BROKERS], ids=["directory", "brokers"])
def test_every_used_setting_has_its_effect(parse, used, fulfilled, refused, place):
    for name, (value, holds) in used.items():
        options = parse(**with_value(name, value, place))
        assert options.ignored == (), name
        assert holds(options), name
    for name, value in fulfilled.items():
        assert parse(**with_value(name, value, place)) == parse(**place), name


@pytest.mark.parametrize(("parse", "used", "fulfilled", "refused"), SIDES)
def test_connection_settings_take_effect_at_brokers_and_are_ignored_for_a_directory(parse, used, fulfilled, refused):
    for name, (value, others, holds) in CONNECTION.items():
        given = {key: other for key, other in (BROKERS | others).items() if other is not None}
        options = parse(**with_value(name, value, given))
        assert options.ignored == (), name
        assert holds(options.target.brokers), name
        if name != "bootstrap.servers":
            assert parse(**with_value(name, value, DIRECTORY)).ignored == (f"kafka.{name}",)


def test_the_delivery_timeout_is_only_for_the_sink():
    given = with_value("delivery.timeout.ms", "7", BROKERS)
    assert parse_sink(**given).target.brokers.delivery_timeout_ms == 7
    assert parse_source(**given).ignored == ("kafka.delivery.timeout.ms",)


def test_a_compression_level_takes_effect_with_its_codec():
    for codec in ("gzip", "lz4", "zstd"):
        given = {"kafka.compression.type": codec, f"kafka.compression.{codec}.level": "7"}
        assert parse_sink(**DIRECTORY, **given).producer.compression_level == 7


def test_weaker_acknowledgements_are_ignored():
    for acks in ("0", "1"):
        assert parse_sink(**with_value("acks", acks, DIRECTORY)).ignored == ("kafka.acks",)
    assert parse_sink(**with_value("acks", "-1", DIRECTORY)).ignored == ()


def test_the_transaction_timeout_is_ignored_without_transactions():
    options = parse_sink(**DIRECTORY, delivery="at-least-once", **{"kafka.transaction.timeout.ms": "7"})
    assert options.ignored == ("kafka.transaction.timeout.ms",)


def test_options_of_sparks_connector_that_have_no_meaning_here_are_ignored():
    assert parse_source(**DIRECTORY, groupIdPrefix="p", **{"kafkaConsumer.pollTimeoutMs": "7"}).ignored == (
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
    )


def known_names(parse, given):
    """What a parser asks for besides Kafka's settings and the formats; `given` is enough for it."""
    with pytest.MonkeyPatch.context() as patch:
        readers = []
        made = OptionReader.__init__

        def noting(self, *arguments, **named):
            made(self, *arguments, **named)
            readers.append(self)

        patch.setattr(OptionReader, "__init__", noting)
        patch.setattr("spark_streamlog.options.ignored_options.OF_SOURCE", ())
        patch.setattr("spark_streamlog.options.ignored_options.OF_SINK", ())
        for kind in (QueryKind.BATCH, QueryKind.STREAM):
            parse(given, kind)
    names = {name for reader in readers for name in reader._known.values()}
    return {name for name in names if not name.startswith(("kafka.", "keyFormat", "valueFormat"))}


def test_each_side_ignores_all_options_of_the_other_side():
    source = known_names(parse_read_options, {"path": "/log", "subscribe": "t"})
    assert source - {"checkpointLocation"} == {*OF_SOURCE, "path", "paths"}
    sink = known_names(parse_write_options, {"path": "/log", "topic": "t"})
    assert sink - {"checkpointLocation"} == {*OF_SINK, "path", "paths"}


def test_one_set_of_options_works_for_source_and_sink():
    given = DIRECTORY | {
        "subscribe": "t", "startingOffsets": "earliest", "includeHeaders": "true",
        "topic": "t", "topic.partitions": "2", "topic.config.retention.ms": "-1", "delivery": "at-least-once",
    }  # fmt: skip
    of_sink = ("delivery", "topic", "topic.config.retention.ms", "topic.partitions")
    assert parse_read_options(given, QueryKind.STREAM).ignored == of_sink
    assert parse_write_options(given, QueryKind.STREAM).ignored == ("includeHeaders", "startingOffsets", "subscribe")


def test_the_source_needs_subscribe_and_the_sink_needs_topic():
    with pytest.raises(ConditionError, match="topic is for writing: set subscribe to the topics to read"):
        parse_read_options(DIRECTORY | {"topic": "t"}, QueryKind.STREAM)
    with pytest.raises(ConditionError, match="subscribe is for reading"):
        parse_write_options(DIRECTORY | {"subscribe": "t"}, QueryKind.STREAM)


def test_a_metadata_table_ignores_the_same_options_as_source_and_sink():
    options = parse_table_options({"path": "/log", "table": "topics", "kafka.check.crcs": "true"})
    assert options.ignored == ("kafka.check.crcs",)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("fetch.max.bytes", "many", "kafka.fetch.max.bytes must be a whole number"),
        ("check.crcs", "perhaps", "kafka.check.crcs must be true or false"),
        ("client.dns.look", "x", "kafka.client.dns.look is not an option of the streamlog source (did you mean"),
    ],
)
def test_a_value_of_the_wrong_type_and_an_unknown_name_are_still_refused(name, value, said):
    with pytest.raises(ConditionError) as caught:
        parse_source(**with_value(name, value, DIRECTORY))
    assert said in caught.value.message


def test_the_known_settings_are_those_of_kafkas_clients():
    librdkafkas = {"sasl.username", "sasl.password"}
    assert {*NUMBERS, *FLAGS, *TEXTS} == CLIENT_SETTINGS.keys() - {"bootstrap.servers"} | librdkafkas
    assert {kind for name, kind in CLIENT_SETTINGS.items() if name in NUMBERS} == {"INT", "LONG", "SHORT"}
    assert {kind for name, kind in CLIENT_SETTINGS.items() if name in FLAGS} == {"BOOLEAN"}
    assert not {"INT", "LONG", "SHORT", "BOOLEAN"} & {CLIENT_SETTINGS.get(name) for name in TEXTS}


def test_one_warning_names_all_ignored_options(caplog):
    warn_of_ignored.cache_clear()
    with caplog.at_level(logging.WARNING, logger="spark_streamlog"):
        for _ in range(3):
            warn_of_ignored("sink", ("kafka.acks", "kafka.linger.ms"))
        warn_of_ignored("sink", ())
    assert [record.getMessage() for record in caplog.records] == [
        "The streamlog sink ignores options that have no effect on it: kafka.acks, kafka.linger.ms"
    ]


@cache
def sources():
    return [
        (path.relative_to(ROOT).as_posix(), path.read_text())
        for package in ("broker_core", "spark_streamlog")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]


@cache
def attributes_read_by(text):
    nodes = ast.walk(ast.parse(text))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def is_read_outside(parser, name):
    return any(name in attributes_read_by(text) for path, text in sources() if path != parser and f".{name}" in text)


@pytest.mark.parametrize(
    ("kind", "parser"),
    [
        (ReadOptions, "spark_streamlog/options/read_options.py"),
        (WriteOptions, "spark_streamlog/options/write_options.py"),
        (ProducerSettings, "spark_streamlog/options/write_options.py"),
        (ClientSettings, "broker_core/model/client_settings.py"),
        (TlsSettings, "broker_core/model/client_settings.py"),
        (SaslSettings, "broker_core/model/client_settings.py"),
    ],
)
def test_every_option_field_is_read_by_some_code(kind, parser):
    unread = [field.name for field in dataclasses.fields(kind) if not is_read_outside(parser, field.name)]
    assert unread == []
