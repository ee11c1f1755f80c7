"""One of the two brokers that get the same requests: connections, requests by field names, transcripts.

A scenario is a function over a `Play`: it asks, and what it asked and was answered is noted in plain values.
Nothing in it looks at who answers, so that the transcripts of two brokers can be held against each other, now or later.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from copy import deepcopy
from dataclasses import dataclass

from differential.plain_values import Names, plain
from kio.schema.errors import ErrorCode

from broker_core.model.exceptions import MalformedMessageError
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.connection import ClientSide
from broker_core.protocol.message_builder import build

MAX_FRAME_BYTES = 2**26
ANSWER_SECONDS = 20
READY_SECONDS = 30
PAUSE_SECONDS = 0.3
WARM_UP_NAMES = 24
"""Enough for each partition of an internal topic to have one."""
CLIENT_ID = "differential"
LATER = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.concurrent_transactions,
    ErrorCode.leader_not_available,
    ErrorCode.not_leader_or_follower,
}
CLOSED, SILENT = "the connection was closed", "no answer came"


class Closed(Exception):
    """The broker closed the connection."""


class Wire:
    """One connection: requests and answers in order."""

    def __init__(self, address):
        self._socket = socket.create_connection(address, timeout=ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = ClientSide(client_id=CLIENT_ID, max_frame_bytes=MAX_FRAME_BYTES)

    def send(self, message, *, is_answered=True):
        self._connection.send_request(message, is_answered=is_answered)
        try:
            self._socket.sendall(b"".join(self._connection.data_to_send()))
        except OSError:
            raise Closed from None

    def receive(self):
        """The next answer. Raises Closed, TimeoutError."""
        while (response := self._connection.next_response()) is None:
            self._connection.receive_data(self._bytes(2**16))
        return response.message

    def send_raw(self, data):
        try:
            self._socket.sendall(data)
        except OSError:
            raise Closed from None

    def receive_raw(self):
        """The next frame without its size."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def close(self):
        self._socket.close()

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            data += self._bytes(count - len(data))
        return data

    def _bytes(self, count):
        try:
            data = self._socket.recv(count)
        except TimeoutError:
            raise
        except OSError:
            raise Closed from None
        if not data:
            raise Closed
        return data


class Side:
    """A broker at its address. `settle_seconds` is how long changes of metadata may take to become visible.

    With `round`, all names get this beginning, which no transcript shows: a scenario can be played more than once.
    """

    def __init__(self, name, address, *, settle_seconds=0.0, round=""):
        self.name = name
        self.address = address
        self.settle_seconds = settle_seconds
        self.round = round

    def warm_up(self):
        """Creates the internal topics and waits for their coordinators."""
        play = Play(self, f"{self.round}warm-up")
        names = [play.name(str(number)) for number in range(WARM_UP_NAMES)]
        for kind in (0, 1):
            play.until(
                lambda kind=kind: (
                    not error_codes(play.quietly(ApiKey.FIND_COORDINATOR, 4, key_type=kind, coordinator_keys=names))
                    & LATER
                )
            )
        for name in names:
            play.quietly(ApiKey.OFFSET_FETCH, 7, group_id=name, topics=None, require_stable=False)
            play.quietly(
                ApiKey.INIT_PRODUCER_ID,
                4,
                transactional_id=name,
                transaction_timeout=1000,
                producer_id=-1,
                producer_epoch=-1,
            )
        play.close()

    def play(self, scenario):
        """The transcript of a scenario: a list of notes in plain values."""
        play = Play(self, self.round + scenario.slug)
        try:
            scenario.act(play)
        except (
            AttributeError,
            IndexError,
            TypeError,
            Closed,
            OSError,
            MalformedMessageError,
            NotReady,
        ) as error:
            # A consequence of an unexpected answer: the comparison stops at that answer, or here.
            play.transcript.append(Note(label="the scenario could not go on", answer=f"{error!r}"))
        finally:
            play.close()
        return play.transcript


class NotReady(Exception):
    """A broker was not ready for a scenario."""


@dataclass(frozen=True)
class Note:
    """A request, and the answer in plain values."""

    label: str
    answer: object


@dataclass(frozen=True)
class Topic:
    name: str
    id: object


class Play:
    """One scenario on one side."""

    def __init__(self, side, slug):
        self.side = side
        self.slug = slug
        self.shown_slug = slug.removeprefix(side.round)
        self.transcript = []
        self.names = Names(hidden=side.round)
        self._wire = None
        self._others = []
        self._labels = itertools.count(1)

    # -- asking --

    def ask(self, api, version, *, note="", waits_out=False, listing=None, **fields):
        """Sends a request, notes the answer and returns it (None without an answer).

        `waits_out`: errors that pass by themselves are waited out. `listing(plain answer)` may leave out what others
        made.
        """
        label = f"{api.label} v{version}{' ' + note if note else ''}"
        return self._note(label, lambda: self._exchange(api, version, waits_out, fields), listing)

    def quietly(self, api, version, **fields):
        """The same without a note; retries while the error is retriable."""
        return self._exchange(api, version, True, fields)

    def raw(self, frame, label):
        """Sends bytes after their size, and notes the bytes of the answer."""

        def exchange():
            self._connect().send_raw(struct.pack(">i", len(frame)) + frame)
            return self._connect().receive_raw()

        return self._note(label, exchange, None)

    def listen(self, label):
        """Notes what arrives without a request."""
        return self._note(label, self._connect().receive, None)

    def begin(self, api, version, **fields):
        """Sends a request on its own connection; `answer()` later receives and notes the answer."""
        pending = Pending(self, api, version, self._message(api, version, fields))
        self._others.append(pending.wire)
        return pending

    def reconnect(self):
        if self._wire is not None:
            self._wire.close()
        self._wire = None

    def note_answer(self, label, receive):
        return self._note(label, receive, None)

    # -- common preparations --

    def name(self, suffix):
        return f"{self.slug}-{suffix}"

    def topic(self, suffix="t", partitions=1, **configs):
        """A new topic, ready to be written to. `__` in a setting's name stands for a dot."""
        name = self.name(suffix)
        settings = [{"name": key.replace("__", "."), "value": str(value)} for key, value in configs.items()]
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
        answer = self.quietly(ApiKey.CREATE_TOPICS, 7, topics=[wanted], timeout=10_000)
        if answer.topics[0].error_code != ErrorCode.none:
            raise NotReady(f"create {name}: {answer.topics[0].error_code.name} {answer.topics[0].error_message}")
        self.until_there(name, partitions)
        self.names.of("id", answer.topics[0].topic_id)
        return Topic(name=name, id=answer.topics[0].topic_id)

    def until_there(self, name, partitions=1):
        """Waits until each partition of a topic accepts requests."""
        asked = [{"partition_index": p, "timestamp": -1, "current_leader_epoch": -1} for p in range(partitions)]
        topics = [{"name": name, "partitions": asked}]
        self.until(
            lambda: all(
                partition.error_code == ErrorCode.none
                for partition in self.quietly(ApiKey.LIST_OFFSETS, 1, replica_id=-1, topics=topics).topics[0].partitions
            )
        )

    def until_ended(self, transactional_id):
        """Markers are written after the answer to EndTxn."""
        asked = {"transactional_ids": [transactional_id]}
        self.until(
            lambda: (
                not any(
                    state.transaction_state.startswith("Prepare")
                    for state in self.quietly(ApiKey.DESCRIBE_TRANSACTIONS, 0, **asked).transaction_states
                )
            )
        )

    def settle(self):
        """After a change of metadata: a broker may apply it a little later than its client learns of it."""
        time.sleep(self.side.settle_seconds)

    def pause(self):
        """Waits until a request on another connection is surely parked."""
        time.sleep(PAUSE_SECONDS)

    def close(self):
        for wire in (self._wire, *self._others):
            if wire is not None:
                wire.close()

    # -- how --

    def connect(self):
        return Wire(self.side.address)

    def _connect(self):
        if self._wire is None:
            self._wire = self.connect()
        return self._wire

    def _message(self, api, version, fields):
        return build(message_types(api, version).request, fields)

    def _exchange(self, api, version, waits_out, fields):
        message = self._message(api, version, fields)
        deadline = time.monotonic() + READY_SECONDS
        while True:
            is_answered = not (api == ApiKey.PRODUCE and fields.get("acks") == 0)
            self._connect().send(message, is_answered=is_answered)
            if not is_answered:
                return None
            answer = self._connect().receive()
            if not waits_out or not error_codes(answer) & LATER or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    def _note(self, label, exchange, listing):
        numbered = f"{next(self._labels)}. {label.replace(self.side.round, '') if self.side.round else label}"
        try:
            answer = exchange()
        except Closed:
            self.reconnect()
            answer = noted = CLOSED
        except TimeoutError:
            self.reconnect()
            answer = noted = SILENT
        else:
            # Entries of a list that other scenarios created are not named.
            noted = plain(answer, self.names) if listing is None else listing(plain(answer, deepcopy(self.names)))
        self.transcript.append(Note(label=numbered, answer=noted))
        return answer

    def until(self, condition):
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise NotReady(f"{self.side.name} is not ready after {READY_SECONDS} s")
            time.sleep(0.02)


class Pending:
    """A request whose answer is received later."""

    def __init__(self, play, api, version, message):
        self.wire = play.connect()
        self._play = play
        self._label = f"{api.label} v{version}"
        self.wire.send(message)

    def answer(self, note=""):
        return self._play.note_answer(f"{self._label} {note}".rstrip(), self.wire.receive)


def error_codes(message):
    """Every error code in an answer, at whatever depth."""
    found = set()
    waiting = [message]
    while waiting:
        value = waiting.pop()
        if isinstance(value, ErrorCode):
            found.add(value)
        elif isinstance(value, tuple):
            waiting.extend(value)
        elif hasattr(value, "__dataclass_fields__"):
            waiting.extend(getattr(value, name) for name in value.__dataclass_fields__)
    return found
