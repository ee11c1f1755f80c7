"""Many connections with one Fetch each under way: how many answers a second a broker gives, and how long they take.

One thread and one selector, so that the client costs little beside the broker. Requests are Fetch version 4, by hand,
of a small piece from the beginning of a partition; every answer must hold the same record bytes as the first one, and
that the topic's first values in their order.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import struct
import sys
import time
from dataclasses import dataclass, field

from bench.row_values import DIGITS, value_of

FETCH_VERSION = 4
SECONDS = 60


@dataclass(slots=True)
class Connection:
    socket: socket.socket
    asked_at: float = 0.0
    answer: bytearray = field(default_factory=bytearray)


def request(topic: str, piece_bytes: int) -> bytes:
    name = topic.encode()
    header = struct.pack(">hhih", 1, FETCH_VERSION, 7, -1)
    # replica -1, wait 0 ms, at least 1 byte, at most, read uncommitted; one topic; one partition from offset 0
    body = struct.pack(">iiiibi", -1, 0, 1, piece_bytes, 0, 1)
    body += struct.pack(">h", len(name)) + name + struct.pack(">iiqi", 1, 0, 0, piece_bytes)
    return struct.pack(">i", len(header) + len(body)) + header + body


def records_of(answer: bytes, topic: str) -> bytes:
    """The record bytes of the only partition. Asserts that there is no error."""
    # correlation id, throttle time, topic count, name, partition count, then: number, error, three offsets' worth
    position = 4 + 4 + 4 + 2 + len(topic.encode()) + 4
    number, error = struct.unpack_from(">ih", answer, position)
    assert (number, error) == (0, 0), f"partition {number}, error {error}"
    position += 4 + 2 + 8 + 8
    (aborted,) = struct.unpack_from(">i", answer, position)
    position += 4 + 16 * max(aborted, 0)
    (size,) = struct.unpack_from(">i", answer, position)
    return answer[position + 4 : position + 4 + size]


def count_of_values(records: bytes, value_bytes: int) -> int:
    """Of the numbered values that stand in uncompressed batches. Asserts that they are 0, 1, 2, …"""
    numbers = re.findall(rb"(1\d{%d})x{%d}" % (DIGITS - 1, value_bytes - DIGITS), records)
    assert numbers == [value_of(number, DIGITS) for number in range(len(numbers))], "values out of their order"
    # What surrounds a value takes less room than the value, and the last batch may be cut.
    assert len(numbers) > len(records) // value_bytes // 2, f"{len(numbers)} values in {len(records)} bytes"
    return len(numbers)


def main(
    host: str, port: int, topic: str, connection_count: int, piece_bytes: int, seconds: float, value_bytes: int
) -> dict[str, float]:
    asked = request(topic, piece_bytes)
    selector = selectors.DefaultSelector()
    for _ in range(connection_count):
        opened = socket.create_connection((host, port), SECONDS)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(opened, selectors.EVENT_READ, Connection(socket=opened))
    times: list[float] = []
    first = b""
    begin = time.perf_counter()
    for key in selector.get_map().values():
        ask(key.data, asked)
    while (now := time.perf_counter()) - begin < seconds:
        ready = selector.select(SECONDS)
        assert ready, f"no answer within {SECONDS} s"
        for key, _ in ready:
            answer = receive(key.data)
            if answer is None:
                continue
            times.append(time.perf_counter() - key.data.asked_at)
            records = records_of(answer, topic)
            first = first or records
            assert records and records == first, "an answer with other records than the first one"
            ask(key.data, asked)
    lasted = now - begin
    times.sort()
    middle, late = times[len(times) // 2], times[int(len(times) * 0.99)]
    return {
        "rate": len(times) / lasted,
        "p50_ms": middle * 1000,
        "p99_ms": late * 1000,
        "piece_bytes": len(first),
        "values": count_of_values(first, value_bytes),
    }


def ask(connection: Connection, asked: bytes) -> None:
    connection.answer.clear()
    connection.asked_at = time.perf_counter()
    connection.socket.sendall(asked)


def receive(connection: Connection) -> bytes | None:
    """A whole answer behind its size, or None while it is not all there."""
    piece = connection.socket.recv(1 << 18)
    assert piece, "the broker closed a connection"
    connection.answer += piece
    if len(connection.answer) < 4:
        return None
    (size,) = struct.unpack_from(">i", connection.answer)
    return bytes(connection.answer[4:]) if len(connection.answer) == 4 + size else None


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
