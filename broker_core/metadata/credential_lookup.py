"""The users of a broker, for logins: SCRAM credentials from the metadata log, PLAIN passwords from the configuration.

As in Kafka the two are separate: a user of one mechanism is not a user of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker_core.metadata.scram_credentials import ScramCredentials
from broker_core.model.scram import ScramCredential, ScramMechanism
from broker_core.ports import Entropy

_DECOY_KEY_BYTES = 32


class UserCredentials:
    """`scram` returns the current credentials; `plain_passwords` are by user. A `CredentialLookup`."""

    def __init__(
        self, scram: Callable[[], ScramCredentials], *, plain_passwords: Mapping[str, str], entropy: Entropy
    ) -> None:
        self._scram = scram
        self._plain_passwords = dict(plain_passwords)
        self._decoy_key = entropy.random_bytes(_DECOY_KEY_BYTES)

    @property
    def decoy_key(self) -> bytes:
        return self._decoy_key

    def plain_password(self, username: str) -> str | None:
        return self._plain_passwords.get(username)

    def scram_credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential | None:
        return self._scram().get(mechanism, username)
