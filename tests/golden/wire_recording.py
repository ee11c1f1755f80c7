"""The requests of wire-kafka-4.3.1.json, asked of a real Kafka once more.

`python tests/golden/wire_recording.py` sends each as it was recorded, in order, to a new broker on the recorded port,
and writes the file again with the answers that come. To record another request, add it to the file by hand first, with
an empty answer.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from differential.side import LATER, PAUSE_SECONDS, READY_SECONDS, Wire, error_codes
from support.brokers import real_kafka
from support.brokers.reachable_broker import ReachableBroker
from support.clients.recorded_wire import RECORDING, Exchange, recorded_exchanges
from typing_extensions import Buffer

from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_reader import decode

KAFKA = "4.3.1"
PORT = 29092
"""The broker names it in its answers, and tests read it there."""


def asked_again(broker: ReachableBroker, exchanges: Sequence[Exchange]) -> list[Exchange]:
    """The same exchanges with this broker's answers. It must be new: the first requests make a topic."""
    wire = Wire(("127.0.0.1", broker.ports["PLAINTEXT"]))
    answered = [replace(one, response=_answer(wire, one)) for one in exchanges]
    wire.close()
    return answered


def _answer(wire: Wire, exchange: Exchange) -> bytes:
    """With its size; asked for until the broker does not say any more that it is not ready yet."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        wire.send_raw(exchange.request)
        frame = wire.receive_raw()
        is_late = error_codes(message_of(exchange, frame)) & LATER
        if not is_late:
            return len(frame).to_bytes(4, "big") + frame
        assert time.monotonic() < deadline, f"{exchange.name}: {is_late} for {READY_SECONDS} s"
        time.sleep(PAUSE_SECONDS)


def message_of(exchange: Exchange, frame: Buffer) -> Any:
    types = message_types(exchange.api_key, exchange.version)
    view = memoryview(frame)
    _, position = decode(types.response_header, view)
    return decode(types.response, view, position)[0]


def record() -> None:
    free_ports = real_kafka.free_ports
    real_kafka.free_ports = lambda count: [PORT, *free_ports(count - 1)]
    with tempfile.TemporaryDirectory() as folder:
        running = real_kafka.RealKafka(Path(folder) / "node")
        try:
            exchanges = asked_again(running, list(recorded_exchanges().values()))
        finally:
            running.kill()
    kept = [
        {
            "name": one.name,
            "api_key": one.api_key,
            "version": one.version,
            "request": base64.b64encode(one.request).decode(),
            "response": base64.b64encode(one.response).decode(),
        }
        for one in exchanges
    ]
    RECORDING.write_text(json.dumps({"kafka": KAFKA, "exchanges": kept}, indent=1) + "\n")


if __name__ == "__main__":
    record()
