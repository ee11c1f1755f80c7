"""Changes the voters of a dynamic quorum (AddRaftVoter, RemoveRaftVoter). A change is committed when it returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.broker_errors import broker_error
from broker_core.client.deadline import Deadline
from broker_core.client.quorum_leader import ask_leader
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.protocol.message_builder import build


def add_voter(
    settings: ClientSettings, node_id: int, directory_id: UUID, endpoints: Mapping[str, BrokerAddress]
) -> None:
    """`endpoints` by listener. The node follows the quorum, and is at the end of its log. Raises RemoteError."""
    from kio.schema.add_raft_voter.v0.request import AddRaftVoterRequest

    listeners = [{"name": name, "host": each.host, "port": each.port} for name, each in endpoints.items()]
    values = {"voter_id": node_id, "voter_directory_id": directory_id, "listeners": listeners}
    _change(settings, AddRaftVoterRequest, {**values, "timeout": settings.api_timeout_ms}, "AddRaftVoter")


def remove_voter(settings: ClientSettings, node_id: int, directory_id: UUID) -> None:
    """Raises RemoteError."""
    from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest

    values = {"voter_id": node_id, "voter_directory_id": directory_id}
    _change(settings, RemoveRaftVoterRequest, values, "RemoveRaftVoter")


def _change(settings: ClientSettings, kind: type[Any], values: Mapping[str, Any], name: str) -> None:
    request = build(kind, values)

    def ask(connection: BrokerConnection, deadline: Deadline) -> None:
        (answer,) = connection.ask([request], deadline)
        if answer.error_code is not ErrorCode.none:
            raise broker_error(answer.error_code, f"{connection.address}: {name}", answer.error_message)

    ask_leader(settings, ask)
