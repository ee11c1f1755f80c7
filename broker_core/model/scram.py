"""SCRAM credentials (RFC 5802): what is kept of a password, and how the two sides prove that they know it.

    salted password   PBKDF2 of the password with salt and iterations; the client's alone, it makes both keys
    client key        HMAC(salted password, "Client Key")
    stored key        hash(client key): what the server knows the client by
    server key        HMAC(salted password, "Server Key"): what the client knows the server by

Whoever steals a credential can play the server, and learns the password only by guessing; he cannot play the client.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final


class ScramMechanism(enum.IntEnum):
    """By Kafka's numbers. A number that it does not know is UNKNOWN."""

    UNKNOWN = 0
    SHA_256 = 1
    SHA_512 = 2

    @classmethod
    def _missing_(cls, value: object) -> ScramMechanism | None:
        return cls.UNKNOWN if isinstance(value, int) else None

    @property
    def label(self) -> str:
        """The name of the SASL mechanism."""
        return {ScramMechanism.SHA_256: "SCRAM-SHA-256", ScramMechanism.SHA_512: "SCRAM-SHA-512"}.get(self, "UNKNOWN")

    @property
    def hash_name(self) -> str:
        return "sha512" if self == ScramMechanism.SHA_512 else "sha256"

    @property
    def key_bytes(self) -> int:
        return hashlib.new(self.hash_name).digest_size


SCRAM_BY_LABEL: Final = {one.label: one for one in (ScramMechanism.SHA_256, ScramMechanism.SHA_512)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What a server keeps of one user's password for one mechanism. Its text form shows no secrets."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def from_salted_password(
        cls, mechanism: ScramMechanism, salted_password: bytes, *, salt: bytes, iterations: int
    ) -> ScramCredential:
        client_key = keyed_hash(mechanism, salted_password, b"Client Key")
        return cls(
            salt=salt,
            stored_key=hashlib.new(mechanism.hash_name, client_key).digest(),
            server_key=keyed_hash(mechanism, salted_password, b"Server Key"),
            iterations=iterations,
        )


def keyed_hash(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    """HMAC with the mechanism's hash."""
    return hmac.digest(key, message, mechanism.hash_name)


def is_proof(mechanism: ScramMechanism, credential: ScramCredential, proof: bytes, auth_message: bytes) -> bool:
    """Whether whoever sent the proof knows the client key. Takes as long for a wrong proof as for a right one."""
    signature = keyed_hash(mechanism, credential.stored_key, auth_message)
    if len(proof) != len(signature):
        return False
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    return hmac.compare_digest(hashlib.new(mechanism.hash_name, client_key).digest(), credential.stored_key)
