import socket

from broker_core.server.host_name import host_name


def test_the_name_leads_somewhere():
    assert socket.getaddrinfo(host_name(), None)


def test_a_name_that_leads_nowhere_is_not_told(monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "nowhere.invalid")
    assert host_name() == "localhost"
