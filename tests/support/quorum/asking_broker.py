"""A broker as controllers know it: its requests over a socket, and no logs behind them."""

from __future__ import annotations

import socket
import time
import uuid

from kio.schema.errors import ErrorCode
from support.controller.small_cluster import FEATURES

from broker_core.controller.requests.envelope import ENVELOPE
from broker_core.controller.requests.registry import CONTROLLER_APIS
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import ClientSide
from broker_core.protocol.message_builder import build

SECONDS = 30


def ask(port, message):
    """The answer, on a connection of its own."""
    side = ClientSide(client_id="broker", max_frame_bytes=10**8)
    side.send_request(message)
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(b"".join(bytes(part) for part in side.data_to_send()))
        while (response := side.next_response()) is None:
            data = connection.recv(65_536)
            assert data, "the controller closed the connection"
            side.receive_data(data)
        return response.message


class AskingBroker:
    """Asks the controllers one after the other until one is active."""

    def __init__(self, broker_id, ports, *, cluster_id):
        self.broker_id, self.ports, self.cluster_id = broker_id, list(ports), cluster_id
        self.incarnation_id, self.directory_id = uuid.uuid4(), uuid.uuid4()
        self.epoch = -1

    def answers(self, key, values, *, version=None):
        """By port, of those that can be reached."""
        version = CONTROLLER_APIS[key].versions[-1] if version is None else version
        found = {}
        for port in self.ports:
            try:
                found[port] = ask(port, build(message_types(key, version).request, values))
            except OSError:
                continue
        return found

    def active(self, key, values):
        """The answer of the active controller; waits until there is one."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for answer in self.answers(key, values).values():
                if answer.error_code is not ErrorCode.not_controller:
                    return answer
            time.sleep(0.1)
        raise AssertionError("no controller is active")

    @property
    def registration(self):
        return {
            "broker_id": self.broker_id,
            "cluster_id": self.cluster_id,
            "incarnation_id": self.incarnation_id,
            "listeners": [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9092, "security_protocol": 0}],
            "features": [
                {"name": each.name, "min_supported_version": 0, "max_supported_version": each.max_supported_version}
                for each in FEATURES
            ],
            "log_dirs": [self.directory_id],
        }

    def register(self):
        answer = self.active(62, self.registration)
        self.epoch = answer.broker_epoch
        return answer

    def beat(self, *, offset=2**40, **wishes):
        values = {
            "broker_id": self.broker_id, "broker_epoch": self.epoch, "current_metadata_offset": offset,
            "want_fence": False, "want_shut_down": False, **wishes,
        }  # fmt: skip
        return self.active(63, values)

    def forward(self, key, values):
        """A client's request, in an envelope."""
        version = CONTROLLER_APIS[key].versions[-1]
        client = ClientSide(client_id="client", max_frame_bytes=10**8)
        client.send_request(build(message_types(key, version).request, values))
        content = b"".join(bytes(part) for part in client.data_to_send())[4:]
        anonymous = b"\0\0\x05User\x0aANONYMOUS\0\0"
        envelope = {"request_data": content, "request_principal": anonymous, "client_host_address": b"\x7f\0\0\1"}
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for port in self.ports:
                try:
                    answer = ask(port, build(message_types(ENVELOPE, 0).request, envelope))
                except OSError:
                    continue
                if answer.error_code is ErrorCode.none:
                    data = bytes(answer.response_data)
                    client.receive_data(len(data).to_bytes(4, "big") + data)
                    return client.next_response().message
                assert answer.error_code is ErrorCode.not_controller, answer
            time.sleep(0.1)
        raise AssertionError("no controller is active")
