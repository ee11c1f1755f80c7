"""What a real Kafka answers when a broker's settings are changed while it runs, and what it serves then.

`python tests/golden/broker_changes_recording.py` writes broker-changes-kafka-4.3.1.json again (Java, Kafka's jars by
Maven): the answer to each change, what is served at the places that a step names, and at last DescribeConfigs.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from differential.side import Closed, Play, Side
from kio.schema.errors import ErrorCode
from support.brokers.reachable_broker import LISTENERS, PEMS, ReachableBroker, free_ports
from support.brokers.real_kafka import RealKafka

from broker_core.protocol.api_table import ApiKey
from broker_core.server.tls_settings import certificate_of_file

FILE = Path(__file__).parent / "broker-changes-kafka-4.3.1.json"
OF_BROKER = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
SETTLE_SECONDS = 5
KEYSTORE = "listener.name.ssl.ssl.keystore.location"
TRUSTSTORE = "listener.name.ssl.ssl.truststore.location"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
THREADS = ("num.io.threads", "num.network.threads", "background.threads", "num.recovery.threads.per.data.dir")


@dataclass(frozen=True)
class BrokerChange:
    """`{…}` in a value stands for a place of the run, see `PlayedChanges.values`. `of` is empty for all brokers. Before
    it is asked, the certificates of `rewrites` are copied to the file that the SSL listener reads."""

    what: str
    settings: tuple
    of: str = "1"
    rewrites: str = ""
    shows: tuple = ()


def set_(what, *pairs, **more):
    return BrokerChange(what, tuple((name, SET, value) for name, value in pairs), **more)


def changes():
    yield from certificates()
    yield from listeners()
    yield from threads()
    yield from connections()


def certificates():
    tls = {"shows": ("SSL",)}
    yield set_("nothing new", (KEYSTORE, "{file}"), **tls)
    yield set_("the file has a renewed certificate", (KEYSTORE, "{file}"), rewrites="broker-renewed", **tls)
    yield set_("the file has more names", (KEYSTORE, "{file}"), rewrites="broker-more-names", **tls)
    yield set_("the file has less names", (KEYSTORE, "{file}"), rewrites="broker-fewer-names", **tls)
    yield set_("the file has another subject", (KEYSTORE, "{file}"), rewrites="elsewhere", **tls)
    for name in ("broker-renewed", "broker-fewer-names", "elsewhere", "broker-more-names", "no-such-file"):
        yield set_(f"the path of {name}", (KEYSTORE, f"{{pems}}/{name}.pem"), **tls)
    yield set_("another subject is allowed", ("listener.name.ssl.ssl.allow.dn.changes", "true"), **tls)
    yield set_("less names are allowed", ("listener.name.ssl.ssl.allow.san.changes", "true"), **tls)
    yield set_("another subject and less names", (KEYSTORE, "{pems}/elsewhere.pem"), **tls)
    yield set_("back", (KEYSTORE, "{pems}/broker.pem"), **tls)
    yield set_("of all listeners", ("ssl.keystore.location", "{pems}/broker.pem"))
    yield set_("of all brokers", (KEYSTORE, "{pems}/broker.pem"), of="")
    yield set_("authorities", (TRUSTSTORE, "{pems}/authority.pem"))
    yield set_("no such authorities", (TRUSTSTORE, "{pems}/no-such-file.pem"))
    yield set_("clients need one", ("listener.name.ssl.ssl.client.auth", "required"))
    yield set_("clients need what", ("listener.name.ssl.ssl.client.auth", "wrong"))
    yield set_("TLS 1.3", ("listener.name.ssl.ssl.enabled.protocols", "TLSv1.3"), **tls)
    for name in ("ssl.client.auth", "listener.name.ssl.ssl.client.auth"):
        yield set_(f"{name} of all brokers", (name, "none"), of="")
    for name in ("client.auth", "enabled.protocols", "truststore.location", "allow.dn.changes", "allow.san.changes"):
        yield BrokerChange(f"{name} is taken back", ((f"listener.name.ssl.ssl.{name}", DELETE, None),), **tls)


def listeners():
    extra, more = "EXTRA://127.0.0.1:{extra}", "MORE://127.0.0.1:{more}"
    both = {"shows": ("EXTRA", "MORE")}
    protocols = ("listener.security.protocol.map", f"{PROTOCOLS},EXTRA:PLAINTEXT")
    yield set_("one without a protocol", ("listeners", f"{{listeners}},{extra}"), **both)
    yield set_("its protocol", protocols, **both)
    yield set_("one more", ("listeners", f"{{listeners}},{extra}"), **both)
    yield set_(
        "one with certificates",
        ("listener.name.more.ssl.keystore.type", "PEM"),
        ("listener.name.more.ssl.keystore.location", "{pems}/broker-renewed.pem"),
        ("listener.security.protocol.map", f"{PROTOCOLS},EXTRA:PLAINTEXT,MORE:SSL"),
        ("listeners", f"{{listeners}},{extra},{more}"),
        **both,
    )
    yield set_("another protocol", ("listener.security.protocol.map", f"{PROTOCOLS},EXTRA:SSL,MORE:SSL"), **both)
    yield set_("a port twice", ("listeners", "{listeners},EXTRA://127.0.0.1:{more},MORE://127.0.0.1:{more}"), **both)
    yield set_("a protocol is missing", ("listener.security.protocol.map", f"{PROTOCOLS},EXTRA:PLAINTEXT"), **both)
    yield set_("one is removed", ("listeners", f"{{listeners}},{more}"), **both)
    yield set_("both are removed", ("listeners", "{listeners}"), **both)
    for name in LISTENERS:
        yield set_(f"without {name}, which is advertised", ("listeners", f"{{without {name}}}"))
    yield set_("no listener", ("listeners", ""))
    yield set_("no listener's address", ("listeners", "{listeners},EXTRA:/127"))
    yield set_("a port that is none", ("listeners", "{listeners},EXTRA://127.0.0.1:99999"))
    yield set_("of all brokers", ("listeners", "{listeners}"), of="")
    yield set_("protocols of all brokers", protocols, of="")
    yield set_("the advertised", ("advertised.listeners", "{listeners}"))
    for name in ("listeners", "listener.security.protocol.map", "listener.name.more.ssl.keystore.location"):
        yield BrokerChange(f"{name} is taken back", ((name, DELETE, None),), **both)


def threads():
    for name, current in zip(THREADS, (8, 3, 10, 2), strict=True):
        for of in ("", "1"):
            for count in (current * 2 + 1, current // 2 - 1 or 0, 0, "x", current * 2, current):
                yield set_(f"{count}, of {of or 'all'}", (name, str(count)), of=of)
            yield BrokerChange("taken back", ((name, DELETE, None),), of=of)


def connections():
    for name in ("max.connections", "max.connections.per.ip", "listener.name.ssl.max.connections"):
        for of in ("", "1"):
            for count in ("1000", "-1", "x"):
                yield set_(f"{count}, of {of or 'all'}", (name, count), of=of)
            yield BrokerChange("taken back", ((name, DELETE, None),), of=of)
    for name, value in (
        ("num.partitions", "3"),
        ("socket.request.max.bytes", "1000000"),
        ("connections.max.idle.ms", "1000"),
        ("log.dirs", "/tmp"),
        ("super.users", "User:a"),
        ("ssl.principal.mapping.rules", "DEFAULT"),
        ("sasl.server.max.receive.size", "1000"),
        ("ssl.allow.dn.changes", "true"),
    ):
        yield set_(f"{name} is static", (name, value))


class PlayedChanges:
    """Plays the changes on a broker whose SSL listener reads `folder`/broker.pem."""

    def __init__(self, broker: ReachableBroker, file: Path) -> None:
        self._file = file
        self._side = Side("", ("127.0.0.1", broker.ports["PLAINTEXT"]))
        self.ports = dict(broker.ports) | dict(zip(("EXTRA", "MORE"), free_ports(2), strict=True))
        listed = {name: f"{name}://127.0.0.1:{port}" for name, port in broker.ports.items()}
        self.values = {"file": str(file), "pems": str(PEMS), "listeners": ",".join(listed.values())}
        self.values |= {"extra": str(self.ports["EXTRA"]), "more": str(self.ports["MORE"])}
        self.values |= {
            f"without {name}": ",".join(one for other, one in listed.items() if other != name) for name in listed
        }
        self._certificates = {certificate_of_file(str(pem)): pem.stem for pem in PEMS.glob("*.pem")}

    def play(self, change: BrokerChange, expected=None):
        """`expected`: what is waited for, as long as it takes."""
        if change.rewrites:
            shutil.copy(PEMS / f"{change.rewrites}.pem", self._file)
        configs = [
            {"name": name, "config_operation": op, "value": value and self._with_values(value)}
            for name, op, value in change.settings
        ]
        (answer,) = self._ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[{"resource_type": OF_BROKER, "resource_name": change.of, "configs": configs}],
            validate_only=False,
        ).responses
        message = answer.error_message and answer.error_message.replace(str(PEMS), "{pems}")
        found = {"error": answer.error_code.name, "message": message}
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            shown = {name: self._served_at(name) for name in change.shows}
            if shown == expected or (expected is None and time.monotonic() > deadline - SETTLE_SECONDS + 1):
                return found | {"shown": shown}
            if time.monotonic() > deadline:
                return found | {"shown": shown}
            time.sleep(0.02)

    def flags(self):
        """(type, read-only, sensitive) of all settings."""
        (answer,) = self._ask(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[{"resource_type": OF_BROKER, "resource_name": "1", "configuration_keys": None}],
            include_synonyms=False,
            include_documentation=False,
        ).results
        assert answer.error_code is ErrorCode.none, answer
        return {one.name: [one.config_type, one.read_only, one.is_sensitive] for one in answer.configs}

    def _with_values(self, text):
        for name, value in self.values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def _ask(self, api, version, **fields):
        with closing(Play(self._side, "changes")) as play:
            return play.quietly(api, version, **fields)

    def _served_at(self, name):
        try:
            if name == "EXTRA":
                with closing(Play(Side("", ("127.0.0.1", self.ports[name])), "there")) as play:
                    play.quietly(ApiKey.METADATA, 9, topics=[], allow_auto_topic_creation=False)
                return "Kafka's protocol"
            return self._certificate_at(name)
        except (OSError, Closed):
            return "nobody"

    def _certificate_at(self, name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", self.ports[name]), timeout=10) as plain,
            context.wrap_socket(plain) as connection,
        ):
            return self._certificates[connection.getpeercert(binary_form=True)]


def file_of_ssl(folder: Path) -> tuple[Path, list[str]]:
    """A copy of the broker's certificates, and the settings with which its SSL listener reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    file = Path(shutil.copy(PEMS / "broker.pem", folder / "ssl.pem"))
    return file, [f"{KEYSTORE}={file}", "listener.name.ssl.ssl.keystore.type=PEM"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, settings = file_of_ssl(Path(folder))
        broker = RealKafka(Path(folder) / "node", settings)
        try:
            run = PlayedChanges(broker, file)
            answers = [run.play(change) for change in changes()]
            flags = run.flags()
        finally:
            broker.stop()
    FILE.write_text(json.dumps({"answers": answers, "flags": flags}, indent=1).replace(folder, "{folder}") + "\n")


if __name__ == "__main__":
    main()
