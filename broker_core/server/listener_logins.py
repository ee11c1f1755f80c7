"""The logins of one listener: its mechanisms and PLAIN users, and the SCRAM users of the metadata log."""

from __future__ import annotations

from collections.abc import Callable

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.listener_security import ListenerLogin
from broker_core.metadata.credential_lookup import UserCredentials
from broker_core.metadata.scram_credentials import ScramCredentials
from broker_core.ports import Entropy
from broker_core.protocol.login_state import LoginState
from broker_core.server.client_login import ClientLogin


def new_logins(
    login: ListenerLogin, config: BrokerConfig, scram: Callable[[], ScramCredentials], entropy: Entropy
) -> Callable[[], ClientLogin]:
    """Returns a function that creates the login of a new connection. `scram`: the current ones."""
    users = UserCredentials(scram, plain_passwords=login.plain_users, entropy=entropy)

    def new_login() -> ClientLogin:
        state = LoginState(
            mechanisms=login.mechanisms,
            credentials=users,
            entropy=entropy,
            max_reauth_ms=config.connections_max_reauth_ms,
        )
        return ClientLogin(
            state,
            max_frame_bytes=config.sasl_server_max_receive_size,
            refusal_delay_ms=config.connection_failed_authentication_delay_ms,
        )

    return new_login
