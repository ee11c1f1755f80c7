"""Acknowledgements that Spark does not have to wait for."""

import socket

import pytest

from spark_streamlog.worker.worker_socket import disable_socket_delays

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux can be asked for it")


@pytest.fixture
def connection():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as one:
        other, _ = listener.accept()
        with other:
            yield one


def option(one, name):
    return one.getsockopt(socket.IPPROTO_TCP, name)


def test_connections_acknowledge_immediately_and_send_without_delay(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    assert (option(connection, socket.TCP_QUICKACK), option(connection, socket.TCP_NODELAY)) == (0, 0)
    disable_socket_delays()
    assert (option(connection, socket.TCP_QUICKACK), option(connection, socket.TCP_NODELAY)) == (1, 1)


def test_the_connection_still_works(connection):
    disable_socket_delays()
    connection.sendall(b"still there")
    assert connection.fileno() >= 0


def test_sockets_that_are_not_connected_or_not_tcp_are_ignored(tmp_path):
    with socket.socket() as unconnected, socket.socketpair()[0], socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        disable_socket_delays()
        assert option(unconnected, socket.TCP_NODELAY) == 0
        assert datagrams.fileno() >= 0
