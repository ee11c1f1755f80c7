"""The name of this machine, advertised to clients by listeners without an address."""

from __future__ import annotations

import socket


def host_name() -> str:
    """The full name if it can be resolved, otherwise `localhost`."""
    name = socket.getfqdn()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name
