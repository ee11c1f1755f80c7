"""Users of SCRAM that a new cluster begins with, as the option --add-scram of `storage format` names them.

    SCRAM-SHA-512=[name=alice,password=secret]
    SCRAM-SHA-256=[name=alice,iterations=8192,salt="c2FsdA==",saltedpassword="…"]       both in base64

Rules are those of Kafka's kafka-storage. A message never repeats a password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Final

from broker_core.metadata.metadata_records import UserScramCredentialRecord
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.limits import MAX_STORED_SCRAM_ITERATION_COUNT, MIN_SCRAM_ITERATION_COUNT
from broker_core.model.scram import SCRAM_BY_LABEL, ScramCredential, ScramMechanism
from broker_core.ports import Entropy

_FORM: Final = re.compile(r"\s*(?P<mechanism>[^=\s]*)=\[(?P<fields>.*)\]\s*", re.DOTALL)
_FIELDS: Final = frozenset({"name", "iterations", "salt", "password", "saltedpassword"})
_SALT_BYTES: Final = 32
_DIGITS: Final = re.compile(r"\d{1,9}")


def parse_first_user(text: str, *, entropy: Entropy) -> UserScramCredentialRecord:
    """Raises InvalidConfigError."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise InvalidConfigError("it must be of the form SCRAM-SHA-512=[name=alice,password=…]")
    mechanism = SCRAM_BY_LABEL.get(found["mechanism"])
    if mechanism is None:
        raise InvalidConfigError(f"the mechanism is {' or '.join(SCRAM_BY_LABEL)}, not {found['mechanism']!r}")
    fields = _fields_of(found["fields"])
    if not fields.get("name"):
        raise InvalidConfigError("there is no name")
    iterations = _iterations_of(fields)
    salt = _decoded(fields, "salt") if "salt" in fields else entropy.random_bytes(_SALT_BYTES)
    salted = _salted_password(mechanism, fields, salt, iterations)
    credential = ScramCredential.from_salted_password(mechanism, salted, salt=salt, iterations=iterations)
    return UserScramCredentialRecord(
        name=fields["name"],
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=iterations,
    )


def _fields_of(text: str) -> dict[str, str]:
    fields = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in _FIELDS:
            raise InvalidConfigError(f"{name[:40]!r} is none of {', '.join(sorted(_FIELDS))}, each with =value")
        is_quoted = len(value) > 1 and value.startswith('"') and value.endswith('"')
        fields[name] = value[1:-1] if is_quoted else value
    return fields


def _iterations_of(fields: dict[str, str]) -> int:
    text = fields.get("iterations", str(MIN_SCRAM_ITERATION_COUNT))
    is_number = _DIGITS.fullmatch(text) is not None
    if not is_number or not MIN_SCRAM_ITERATION_COUNT <= int(text) <= MAX_STORED_SCRAM_ITERATION_COUNT:
        raise InvalidConfigError(
            f"iterations is from {MIN_SCRAM_ITERATION_COUNT} to {MAX_STORED_SCRAM_ITERATION_COUNT}, not {text!r}"
        )
    return int(text)


def _salted_password(mechanism: ScramMechanism, fields: dict[str, str], salt: bytes, iterations: int) -> bytes:
    if "password" in fields:
        return hashlib.pbkdf2_hmac(mechanism.hash_name, fields["password"].encode(), salt, iterations)
    if "saltedpassword" not in fields:
        raise InvalidConfigError("there is neither password nor saltedpassword")
    if "salt" not in fields:
        raise InvalidConfigError("saltedpassword needs the salt")
    return _decoded(fields, "saltedpassword")


def _decoded(fields: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields[name], validate=True)
    except binascii.Error as error:
        raise InvalidConfigError(f"{name} is not base64") from error
