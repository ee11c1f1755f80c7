import random

import pytest

from broker_core.server.answer_sender import HIGH_WATER_BYTES, AnswerSender

BIG = 100_000


class FullSocket(BlockingIOError):
    pass


class ScriptedSocket:
    """Takes as many bytes as it has room for; remembers what came, and how it was given."""

    def __init__(self, room_bytes=10**9):
        self.room_bytes = room_bytes
        self.came = bytearray()
        self.calls = []
        self.error = None
        self.breaks_when_full = False

    def send(self, data):
        return self._take("send", [data])

    def sendmsg(self, buffers):
        return self._take("sendmsg", list(buffers))

    def _take(self, call, buffers):
        self.calls.append((call, buffers))
        if self.error is not None:
            raise self.error
        if not self.room_bytes:
            raise BrokenPipeError if self.breaks_when_full else FullSocket
        taken = b"".join(buffers)[: self.room_bytes]
        self.came += taken
        self.room_bytes -= len(taken)
        return len(taken)


class ScriptedTransport:
    """As asyncio's: what its socket does not take it holds, and says so to `sender`."""

    def __init__(self, socket):
        self.socket = socket
        self.held = bytearray()
        self.most_held = 0
        self.written = []
        self.sender = None
        self.is_lost = False
        self.broken_count = 0

    def is_closing(self):
        return self.is_lost

    def on_broken(self):
        self.broken_count += 1

    def write(self, data):
        self.written.append(bytes(data))
        self.held += data
        self._push()
        self.most_held = max(self.most_held, len(self.held))
        if len(self.held) > HIGH_WATER_BYTES:
            self.sender.pause()

    def get_write_buffer_size(self):
        return len(self.held)

    def on_room(self, room_bytes):
        self.socket.room_bytes += room_bytes
        held = len(self.held)
        self._push()
        if held > HIGH_WATER_BYTES and not self.held:
            self.sender.resume()
            self.sender.continue_sending()

    def _push(self):
        taken = bytes(self.held[: self.socket.room_bytes])
        self.socket.came += taken
        self.socket.room_bytes -= len(taken)
        del self.held[: len(taken)]


def a_sender(*, room_bytes=10**9, is_direct=True):
    socket = ScriptedSocket(room_bytes)
    transport = ScriptedTransport(socket)
    transport.sender = AnswerSender(transport, socket if is_direct else None, transport.on_broken)
    return transport.sender, transport, socket


def send(sender, *parts):
    sender.send(parts, sum(map(len, parts)))


def test_small_parts_are_sent_together():
    sender, transport, socket = a_sender()
    send(sender, b"ab", bytearray(b"c"), memoryview(b"de"))
    assert socket.calls == [("send", [b"abcde"])]
    assert (transport.written, sender.held_bytes, sender.is_empty) == ([], 0, True)


def test_large_parts_are_sent_in_one_call_without_a_copy():
    sender, _, socket = a_sender()
    records = bytearray(BIG)
    send(sender, b"head", memoryview(records), b"tail")
    [(call, buffers)] = socket.calls
    assert call == "sendmsg"
    assert [bytes(buffers[0]), bytes(buffers[2])] == [b"head", b"tail"]
    assert buffers[1].obj is records
    assert sender.held_bytes == 0


def test_unsent_bytes_wait_and_the_transport_buffers_little():
    sender, transport, socket = a_sender(room_bytes=30_000)
    answer = random.Random(1).randbytes(BIG)
    send(sender, answer)
    assert sender.held_bytes == BIG - 30_000
    assert 0 < transport.most_held <= 4096
    while not sender.is_empty or transport.held:
        transport.on_room(7_000)
    assert (bytes(socket.came), sender.held_bytes, transport.most_held) == (answer, 0, 4096)


def test_a_small_response_queues_after_unsent_bytes():
    sender, transport, socket = a_sender(room_bytes=3)
    send(sender, b"first")
    send(sender, b"second")
    assert (bytes(socket.came), sender.held_bytes) == (b"fir", 8)
    transport.on_room(100)
    assert (bytes(socket.came), sender.held_bytes) == (b"firstsecond", 0)


def test_nothing_overtakes_a_byte_that_the_transport_buffers_silently():
    sender, transport, socket = a_sender(room_bytes=4)
    send(sender, b"first")
    assert transport.get_write_buffer_size() == HIGH_WATER_BYTES
    socket.room_bytes = 100
    send(sender, b"second")
    assert bytes(socket.came) == b"firstsecond"


@pytest.mark.parametrize("size_bytes", [6, BIG])
def test_a_broken_socket_releases_unsent_bytes_without_a_retry(size_bytes):
    sender, transport, socket = a_sender()
    socket.error = BrokenPipeError()
    send(sender, bytes(size_bytes))
    assert (transport.broken_count, sender.held_bytes, sender.is_empty) == (1, 0, True)
    send(sender, b"another")
    send(sender, bytes(BIG))
    assert (transport.broken_count, len(socket.calls), transport.written) == (1, 1, [])


def test_a_socket_that_breaks_during_a_response_is_detected_before_the_transport_reports_it():
    sender, transport, socket = a_sender(room_bytes=30_000)
    socket.breaks_when_full = True
    send(sender, bytes(BIG))
    assert (transport.broken_count, sender.held_bytes, transport.written) == (1, 0, [])


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "through the transport"])
def test_a_closing_transport_gets_no_bytes(is_direct):
    sender, transport, _ = a_sender(room_bytes=30_000, is_direct=is_direct)
    send(sender, bytes(3 * BIG))
    written = len(transport.written)
    transport.is_lost = True
    sender.resume()
    sender.continue_sending()
    assert (transport.broken_count, sender.held_bytes - len(transport.held), len(transport.written)) == (1, 0, written)


def test_sending_after_a_resume_waits_if_the_transport_filled_up_again():
    sender, transport, _ = a_sender(room_bytes=0, is_direct=False)
    sender.pause()
    sender.resume()
    send(sender, bytes(3 * BIG))
    sender.pause()
    written = len(transport.written)
    sender.continue_sending()
    assert (len(transport.written), sender.is_empty) == (written, False)


def test_many_parts_are_sent_with_any_iov_limit():
    sender, _, socket = a_sender()
    parts = [bytes([number % 256]) * 1000 for number in range(3000)]
    send(sender, *parts)
    assert max(len(buffers) for _, buffers in socket.calls) <= 1024
    assert bytes(socket.came) == b"".join(parts)


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "through the transport"])
@pytest.mark.parametrize("seed", range(20))
def test_partial_sends_keep_all_bytes_in_order(is_direct, seed):
    dice = random.Random(seed)
    sender, transport, socket = a_sender(room_bytes=dice.randrange(200_000), is_direct=is_direct)
    expected = bytearray()
    for _ in range(30):
        parts = [dice.randbytes(dice.choice([1, 10, 5_000, 300_000])) for _ in range(dice.randrange(1, 5))]
        expected += b"".join(parts)
        send(sender, *parts)
        assert len(socket.came) + sender.held_bytes == len(expected)
        transport.on_room(dice.choice([0, 1, 100, 5_000, 1_000_000]))
    while len(socket.came) < len(expected):
        transport.on_room(dice.randrange(1, 500_000))
    assert (socket.came, sender.held_bytes, sender.is_empty) == (expected, 0, True)


def test_without_a_socket_the_transport_gets_one_piece_at_a_time():
    sender, transport, _ = a_sender(room_bytes=0, is_direct=False)
    send(sender, bytes(1_000_000))
    assert sender.held_bytes == 1_000_000
    assert transport.most_held == 256 * 1024
