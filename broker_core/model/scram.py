"""SCRAM credentials (RFC 5802): what a server stores of a password, and the proofs of both sides.

    salted password   PBKDF2 of the password with salt and iterations; only the client has it, it gives both keys
    client key        HMAC(salted password, "Client Key")
    stored key        hash(client key): the server verifies the client with it
    server key        HMAC(salted password, "Server Key"): the client verifies the server with it

A stolen credential allows impersonating the server, not the client; the password can only be guessed from it.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final


class ScramMechanism(enum.IntEnum):
    """By Kafka's numbers. An unknown number is UNKNOWN."""

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
    """A server's credential of one user for one mechanism. Its repr shows no secrets."""

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
    """Whether the proof was made with the client key. Takes constant time."""
    signature = keyed_hash(mechanism, credential.stored_key, auth_message)
    if len(proof) != len(signature):
        return False
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    return hmac.compare_digest(hashlib.new(mechanism.hash_name, client_key).digest(), credential.stored_key)
