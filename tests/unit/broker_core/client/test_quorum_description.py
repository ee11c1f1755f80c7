import socket

import pytest

from broker_core.client.quorum_description import describe_quorum
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import BrokerUnavailableError


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_each_controller_is_asked_once_and_the_error_of_the_last_is_the_answer(caplog):
    first, last = f"127.0.0.1:{closed_port()}", f"127.0.0.1:{closed_port()}"
    with pytest.raises(BrokerUnavailableError, match=f"{last} cannot be reached: Connection refused"):
        describe_quorum(parse_client_settings({"bootstrap.servers": f"{first},{last}"}))
    assert caplog.messages == [
        f"{first} cannot be reached: Connection refused (from bootstrap.servers). The broker may not be available;"
        f" trying {last} next."
    ]
