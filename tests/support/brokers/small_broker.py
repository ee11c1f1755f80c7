"""A server with a node that does next to nothing, and clients that speak bytes.

The node answers ApiVersions as the real one does. Heartbeat requests are parked until `node.answer_next()`; Metadata is
answered with a cluster id of `answer_bytes` characters. What came is in `node.asked`.
"""

from __future__ import annotations

import socket
import struct
import threading
import time

from kio.schema.errors import ErrorCode

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.handlers import api_versions
from broker_core.handlers.call import Call
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.connection import ClientSide
from broker_core.protocol.message_builder import build
from broker_core.server.broker_server import BrokerServer
from broker_core.server.broker_thread import BrokerThread

PATIENCE_SECONDS = 20


class SmallNode:
    """`ServedNode`. Methods of tests are called from their own thread."""

    controller = None

    def __init__(self, config, ports):
        self.config = config
        self.ports = ports
        self.parked = []
        self.asked = []
        self.forgotten = []
        self.answer_bytes = 10
        self.is_full = False
        self.error_at_start = None
        self.is_stopped = False
        self.is_closed_cleanly = True
        self.is_abandoned = False

    def start(self, on_ready, on_error):
        self.ports.jobs.submit(lambda: None, lambda _: on_ready(), on_error)

    def stop(self, on_done):
        self.is_stopped = True
        self.ports.jobs.submit(lambda: None, lambda _: on_done(), lambda _: on_done())

    def abandon(self):
        self.is_abandoned = True

    def on_settings(self, callback):
        self.tell_settings = callback

    def forget_client(self, connection_id):
        self.forgotten.append(connection_id)

    def throttle_ms_of(self, address, now_ms):
        return 0

    def next_timer_ms(self):
        return None

    def on_time(self, now_ms):
        raise AssertionError("nothing was set")


def dispatch(node, request, peer, send, now_ms):
    call = Call(node=node, request=request, peer=peer, send=send, now_ms=now_ms)
    node.asked.append(call)
    match request.api_key:
        case ApiKey.API_VERSIONS if request.message is None:
            api_versions.refuse_version(call)
        case ApiKey.API_VERSIONS:
            api_versions.handle(call)
        case ApiKey.HEARTBEAT:
            node.parked.append(call)
        case ApiKey.METADATA:
            call.respond(cluster_id="x" * node.answer_bytes, controller_id=1)
        case ApiKey.FIND_COORDINATOR:
            raise RuntimeError("a mistake of ours")
        case _:
            call.respond(error_code=ErrorCode.none)


class SmallBroker:
    """A context: `port` of the first listener, `node`, and a loop that `call` runs things on."""

    def __init__(self, *, new_node=SmallNode, **settings):
        self._new_node = new_node
        given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/nowhere"}
        given |= {name.replace("__", "."): str(value) for name, value in settings.items()}
        self._config = parse_broker_config(given)

    def __enter__(self):
        def new_server(config):
            self.server = BrokerServer(config, new_node=self._new_node, dispatch_request=dispatch)
            self.node = self.server.node
            return self.server

        self.thread = BrokerThread(self._config, new_server=new_server)
        self.ports = {one.name: one.port for one in self.thread.config.listeners}
        self.port = self.thread.config.listeners[0].port
        return self

    def __exit__(self, *_):
        self.thread.stop()

    def call(self, function):
        """Runs it on the broker's loop and gives what it returns."""
        done = threading.Event()
        found = []

        def run():
            found.append(function())
            done.set()

        self.server._loop.call_soon_threadsafe(run)
        assert done.wait(PATIENCE_SECONDS)
        return found[0]

    def answer(self, place=0):
        """One of the parked requests."""
        self.call(lambda: self.node.parked.pop(place).respond(error_code=ErrorCode.none))

    def connect(self, listener=None):
        return RawClient(self.ports[listener] if listener else self.port)


class RawClient:
    """A socket, and Kafka's protocol beside it: `ask` encodes, `receive` waits for one answer."""

    def __init__(self, port, wrapped=None):
        self.socket = wrapped or socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self.protocol = ClientSide(client_id="test", max_frame_bytes=2**30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def encode(self, api_key, version, **fields):
        """The bytes of one request; its answer is expected from now on."""
        self.protocol.send_request(build(message_types(api_key, version).request, fields))
        return b"".join(bytes(part) for part in self.protocol.data_to_send())

    def send(self, api_key, version, **fields):
        self.socket.sendall(self.encode(api_key, version, **fields))

    def receive(self):
        while (response := self.protocol.next_response()) is None:
            data = self.socket.recv(2**16)
            assert data, "the broker hung up"
            self.protocol.receive_data(data)
        return response.message

    def ask(self, api_key, version, **fields):
        self.send(api_key, version, **fields)
        return self.receive()

    def is_hung_up_on(self):
        """Waits for the end of the connection; what still comes before it is thrown away."""
        try:
            while self.socket.recv(2**16):
                pass
        except ConnectionError:
            pass
        return True


def versions(client):
    return client.ask(ApiKey.API_VERSIONS, 0)


def until(condition, *, seconds=PATIENCE_SECONDS):
    """Waits, in short steps, for what happens on another thread."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def frame(content):
    return struct.pack(">i", len(content)) + content
