"""A node and connections to it without sockets, threads or time: bytes in, answers or the end of the connection out."""

from __future__ import annotations

import itertools

from support.nodes.whole_node import a_node, make_topic, pass_time

from broker_core.handlers.call import ConnectionEnd, Peer
from broker_core.handlers.dispatch import dispatch
from broker_core.model.exceptions import MalformedMessageError
from broker_core.protocol.connection import ServerSide, response_frame

MAX_FRAME_BYTES = 2**20


class WireNode:
    """With topics `t` (2 partitions) and `t2`, and `good`, which nothing that is drawn ever names."""

    def __init__(self, path):
        self.node = a_node(path)
        self.topic_ids = [make_topic(self.node, name, 2) for name in ("t", "t2")]
        make_topic(self.node, "good", retention_ms=-1)  # hours pass in each test
        self._ids = itertools.count(2)

    def connect(self):
        return WireConnection(self.node, next(self._ids))

    def pass_time(self, milliseconds):
        pass_time(self.node, milliseconds)


class WireConnection:
    """`answers` in the order in which they came; `end` says why it was closed, once it is."""

    def __init__(self, node, number):
        self._node = node
        self._connection = ServerSide(max_frame_bytes=MAX_FRAME_BYTES)
        self._peer = Peer(
            client_host="127.0.0.1",
            client_port=number,
            listener="PLAINTEXT",
            principal="User:ANONYMOUS",
            connection_id=number,
        )
        self.answers = []
        self.asked_count = 0
        self.end = None

    def send(self, data):
        """Whatever a handler does not expect comes out of here. Jobs are done before it returns."""
        try:
            self._connection.receive_data(data)
            while self.end is None and (request := self._connection.next_request()) is not None:
                self.asked_count += 1
                dispatch(
                    self._node,
                    request,
                    self._peer,
                    lambda answer, request=request: self._take(request, answer),
                    self._node.clock.now_ms(),
                )
        except MalformedMessageError as error:
            self.end = error.message
        self._node.jobs.run_all()

    def _take(self, request, answer):
        if isinstance(answer, ConnectionEnd):
            self.end = answer.reason
        elif answer is None:
            self.answers.append(b"")
        else:
            self.answers.append(b"".join(bytes(part) for part in response_frame(request, answer)[0]))
