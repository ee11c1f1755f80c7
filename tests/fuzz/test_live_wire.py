"""The same over sockets: whatever is sent to a running broker, it goes on, small as it was, and a good client beside it
never notices."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import time
from pathlib import Path

import pytest
from fuzz.good_client import GoodClient
from fuzz.wire_requests import HOSTILE, Dice, draw_request, frame_of, mutated, with_size
from support.brokers.served_broker import ServedBroker

from broker_core.protocol.api_table import ApiKey, message_types, versions_with_schemas
from broker_core.protocol.message_builder import build
from broker_core.protocol.served_versions import SERVED_VERSIONS

EVERY = [
    (key, version)
    for key, served in SERVED_VERSIONS.items()
    for version in served
    if version in versions_with_schemas(key)
]
GROWTH_BYTES = 96 * 2**20
"""Of the process: Python keeps some of what it had; one frame of the largest size would be more."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    running = ServedBroker(tmp_path_factory.mktemp("broker") / "node")
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def nobody_notices(broker):
    """A good client before, meanwhile and after; no traceback in the log; the process is not much larger."""
    client = GoodClient(broker.bootstrap(), broker.name("good"))
    while client.round_count < 3:
        assert not client.errors, client.errors
        time.sleep(0.01)
    before = resident_bytes(broker)
    yield
    rounds = client.round_count
    deadline = time.monotonic() + 20
    while client.round_count == rounds and not client.errors:
        assert time.monotonic() < deadline, "the good client waits"
        time.sleep(0.05)
    client.stop()
    assert not client.errors, client.errors
    assert "Traceback" not in log_of(broker)
    assert resident_bytes(broker) - before < GROWTH_BYTES


def log_of(broker):
    return (broker.folder / "broker.log").read_text(errors="replace")


def resident_bytes(broker):
    for line in Path(f"/proc/{broker.process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no process")


def connect(broker, listener="PLAINTEXT"):
    # A backlog that is full for a moment makes the system wait some seconds until it asks again.
    connection = socket.create_connection(("127.0.0.1", broker.ports[listener]), timeout=60)
    connection.setblocking(False)
    return connection


def send(connection, data):
    """As much of it as goes; a broker may have closed already."""
    with contextlib.suppress(OSError):
        connection.send(data)


def is_closed(connection, seconds=10):
    """Whatever was answered is passed over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        select.select([connection], [], [], 0.2)
        try:
            if connection.recv(2**16) == b"":
                return True
        except BlockingIOError:
            continue
        except OSError:
            return True
    return False


def for_seconds(short):
    return pytest.mark.parametrize("seconds", [short, pytest.param(120 * short, marks=pytest.mark.long)])


@for_seconds(1)
def test_many_clients_that_send_garbage_do_no_harm(broker, seconds):
    dice = Dice(random.Random(1))
    deadline = time.monotonic() + seconds
    open_ones = []
    while time.monotonic() < deadline:
        connection = connect(broker)
        for _ in range(dice.random.randrange(1, 4)):
            frame = frame_of(draw_request(dice, *dice.random.choice(EVERY)))
            match dice.random.randrange(5):
                case 0:
                    send(connection, dice.random.randbytes(dice.random.randrange(1, 200)))
                case 1:
                    send(connection, with_size(mutated(dice, frame, first=8)))
                case 2:
                    send(connection, with_size(frame)[: dice.random.randrange(len(frame) + 4)])
                case 3:
                    send(connection, dice.random.choice(HOSTILE) + frame)
                case _:
                    send(connection, with_size(frame))
        time.sleep(0.002)
        open_ones.append(connection)
        if len(open_ones) > 50:
            open_ones.pop(dice.random.randrange(50)).close()
    for connection in open_ones:
        connection.close()


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * 2**20 + 1, 2**31 - 1])
def test_an_invalid_size_closes_the_connection_and_is_logged(broker, size):
    before = log_of(broker).count("closed:")
    connection = connect(broker)
    send(connection, struct.pack(">i", size))
    assert is_closed(connection)
    assert log_of(broker).count("closed:") == before + 1


def test_announced_frames_that_never_arrive_use_no_memory(broker):
    """Fifty times the largest frame would be five gigabytes."""
    before = resident_bytes(broker)
    connections = [connect(broker) for _ in range(50)]
    for connection in connections:
        send(connection, struct.pack(">i", 100 * 2**20) + b"\0\x03\0\x09")
    time.sleep(1)
    assert resident_bytes(broker) - before < GROWTH_BYTES
    for connection in connections:
        connection.close()


def test_a_client_that_never_reads_responses_is_closed(broker):
    connection = connect(broker)
    frame = with_size(frame_of(build(message_types(ApiKey.API_VERSIONS, 3).request, {"client_software_name": "x"})))
    deadline, sent = time.monotonic() + 2, 0
    while time.monotonic() < deadline:
        _, writable, _ = select.select([], [connection], [], 0.1)
        if writable:
            with contextlib.suppress(BlockingIOError):
                sent += connection.send(frame * 100)
    assert sent < 64 * 2**20
    connection.close()


def sasl(api_key, version, **fields):
    return with_size(frame_of(build(message_types(api_key, version).request, fields)))


@for_seconds(1)
def test_malformed_logins_are_refused(broker, seconds):
    dice = Dice(random.Random(2))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        connection = connect(broker, dice.random.choice(("SASL_PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")))
        for _ in range(dice.random.randrange(1, 5)):
            token = dice.random.choice((
                b"", b"\0ann\0wrong", b"n,,n=ann,r=nonce", b"n,,n=ann", b"c=biws,r=x,p=eA==", b"y,,n=ann,r=\xff",
                b"n,a=b,n=ann,r=n", dice.random.randbytes(40), b"n" * 70_000,
            ))  # fmt: skip
            match dice.random.randrange(5):
                case 0 | 1:
                    send(
                        connection,
                        sasl(ApiKey.SASL_HANDSHAKE, dice.random.randrange(2), mechanism=dice.random.choice(MECHANISMS)),
                    )
                case 2 | 3:
                    send(connection, sasl(ApiKey.SASL_AUTHENTICATE, dice.random.randrange(3), auth_bytes=token))
                case _:
                    send(
                        connection,
                        with_size(
                            dice.random.choice((token, frame_of(draw_request(dice, *dice.random.choice(EVERY)))))
                        ),
                    )
        connection.close()


def test_frames_before_the_login_are_limited(broker):
    connection = connect(broker, "SASL_PLAINTEXT")
    send(connection, struct.pack(">i", 512 * 1024 + 1))
    assert is_closed(connection)


def test_garbage_during_a_login_closes_the_connection(broker):
    """Its answer cannot be made: the schemas do not know it."""
    for frame in (b"\x6e\x2c\0\0\0\0\0\1\xff\xff", b"\0\x24\0\x63\0\0\0\1\xff\xff"):
        connection = connect(broker, "SASL_PLAINTEXT")
        send(connection, sasl(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN") + with_size(frame))
        assert is_closed(connection)


def test_requests_before_the_login_are_refused(broker):
    for key in (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.CREATE_TOPICS):
        connection = connect(broker, "SASL_PLAINTEXT")
        send(connection, with_size(frame_of(draw_request(Dice(random.Random(3)), key, SERVED_VERSIONS[key][-1]))))
        assert is_closed(connection)
