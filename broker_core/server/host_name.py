"""The name of this machine, for clients on others, where a listener has no address of its own."""

from __future__ import annotations

import socket


def host_name() -> str:
    """The full name if it leads somewhere, otherwise `localhost`: a name that nobody can resolve helps nobody."""
    name = socket.getfqdn()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name
