import socket

from broker_core.server.host_name import host_name


def test_the_host_name_resolves():
    assert socket.getaddrinfo(host_name(), None)


def test_an_unresolvable_host_name_is_not_advertised(monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "nowhere.invalid")
    assert host_name() == "localhost"
