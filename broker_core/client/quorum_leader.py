"""Asks the leader of a metadata quorum, through brokers or the controllers themselves.

A broker passes the request on to the active controller. Of controllers only the active one answers; another one is
asked who leads (DescribeCluster), and then that one is.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.broker_errors import broker_error
from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.deadline import Backoff, Deadline
from broker_core.client.unreachable_warning import trying_next
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import RemoteError
from broker_core.protocol.message_builder import build

Answer = TypeVar("Answer")

_CONTROLLERS: Final = 2
"""The endpoint type that a controller answers DescribeCluster for."""
_NOT_LEADING: Final = (ErrorCode.not_leader_or_follower, ErrorCode.not_controller)


def ask_leader(settings: ClientSettings, ask: Callable[[BrokerConnection, Deadline], Answer]) -> Answer:
    """Asks the bootstrap servers in turn, and the leader that a controller names; again while nobody leads, as in an
    election. Raises the last one's RemoteError if none can tell."""

    def asked(pool: ConnectionPool, connection: BrokerConnection, deadline: Deadline) -> Answer:
        try:
            return ask(connection, deadline)
        except RemoteError as error:
            leader = _maybe_leader_named_by(connection, deadline) if error.error_code in _NOT_LEADING else None
            if leader is None:
                raise
        return ask(pool.connection(leader, deadline, then=None), deadline)

    deadline = _deadline(settings)
    backoff = Backoff(first_ms=settings.retry_backoff_ms, longest_ms=settings.retry_backoff_max_ms)
    while True:
        try:
            return _first_answer(settings, asked, deadline)
        except RemoteError as error:
            if error.error_code not in _NOT_LEADING or not deadline.pause(backoff.next_seconds()):
                raise


def cluster_id_of(settings: ClientSettings) -> str:
    """The id of the cluster that the controllers belong to. Raises as `ask_leader`."""
    return _first_answer(
        settings,
        lambda _, connection, deadline: str(_controllers(connection, deadline).cluster_id),
        _deadline(settings),
    )


def _deadline(settings: ClientSettings) -> Deadline:
    return Deadline(settings.api_timeout_ms, setting="default.api.timeout.ms")


def _controllers(connection: BrokerConnection, deadline: Deadline) -> Any:
    """The answer of a controller to DescribeCluster."""
    from kio.schema.describe_cluster.v1.request import DescribeClusterRequest

    request = build(DescribeClusterRequest, {"endpoint_type": _CONTROLLERS})
    (answer,) = connection.ask([request], deadline)
    if answer.error_code is not ErrorCode.none:
        raise broker_error(answer.error_code, f"{connection.address}: DescribeCluster", answer.error_message)
    return answer


def _maybe_leader_named_by(connection: BrokerConnection, deadline: Deadline) -> BrokerAddress | None:
    """None: it knows none, or is a broker, which does not tell."""
    try:
        found = _controllers(connection, deadline)
    except RemoteError as error:
        if error.error_code is ErrorCode.mismatched_endpoint_type:
            return None
        raise
    for each in found.brokers:
        if each.broker_id == found.controller_id:
            return BrokerAddress(host=each.host, port=each.port)
    return None


def _first_answer(
    settings: ClientSettings, ask: Callable[[ConnectionPool, BrokerConnection, Deadline], Answer], deadline: Deadline
) -> Answer:
    pool = ConnectionPool(settings)
    last_error: RemoteError | None = None
    try:
        for address, following in zip_longest(settings.bootstrap_servers, settings.bootstrap_servers[1:]):
            then = None if following is None else trying_next(following)
            try:
                return ask(pool, pool.connection(address, deadline, then=then), deadline)
            except RemoteError as error:
                last_error = error
    finally:
        pool.close()
    assert last_error is not None, "there is a bootstrap server"
    raise last_error
