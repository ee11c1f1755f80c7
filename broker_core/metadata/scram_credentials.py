"""The users' SCRAM credentials as stored in the metadata log: only replay changes them, every login reads them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker_core.metadata.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from broker_core.model.scram import ScramCredential, ScramMechanism


class ScramCredentials:
    """By user and mechanism. Mechanisms of a newer version are no credentials here."""

    def __init__(self) -> None:
        self._by_user: dict[str, dict[ScramMechanism, ScramCredential]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScramCredentials) and self._by_user == other._by_user

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def users(self) -> list[str]:
        """The users with any credential, sorted."""
        return sorted(self._by_user)

    def of_user(self, username: str) -> Mapping[ScramMechanism, ScramCredential]:
        """By mechanism, in the order of their numbers; empty for an unknown user."""
        found = self._by_user.get(username, {})
        return MappingProxyType({mechanism: found[mechanism] for mechanism in sorted(found)})

    def get(self, mechanism: ScramMechanism, username: str) -> ScramCredential | None:
        return self._by_user.get(username, {}).get(mechanism)

    def copy(self) -> ScramCredentials:
        other = ScramCredentials()
        other._by_user = {user: found.copy() for user, found in self._by_user.items()}
        return other

    def replay(self, record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> None:
        mechanism = ScramMechanism(record.mechanism)
        if mechanism == ScramMechanism.UNKNOWN:
            return
        if isinstance(record, UserScramCredentialRecord):
            credential = ScramCredential(
                salt=record.salt,
                stored_key=record.stored_key,
                server_key=record.server_key,
                iterations=record.iterations,
            )
            self._by_user.setdefault(record.name, {})[mechanism] = credential
            return
        of_user = self._by_user.get(record.name, {})
        of_user.pop(mechanism, None)
        if not of_user:
            self._by_user.pop(record.name, None)
