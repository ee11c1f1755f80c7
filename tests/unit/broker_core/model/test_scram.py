import hashlib

import pytest
import scramp

from broker_core.model.scram import SCRAM_BY_LABEL, ScramCredential, ScramMechanism, is_proof

# What Kafka 4.3.1 wrote to its metadata log for an upsertion with this salted password.
SALTED_PASSWORD = b"x" * 32
STORED_KEY = bytes.fromhex("f4695af4c64263f1e68abd850edb59b206bded8ce10d6fdd8b8af9a1db8007fd")
SERVER_KEY = bytes.fromhex("ef1ec68ad1add5f3f8fd010997d9bf074025de4bbfb9a818d835d310a0f86469")


def test_keys_of_a_salted_password_match_kafka():
    made = ScramCredential.from_salted_password(
        ScramMechanism.SHA_256, SALTED_PASSWORD, salt=b"saltsaltsalt", iterations=4096
    )
    assert (made.stored_key, made.server_key) == (STORED_KEY, SERVER_KEY)
    assert (made.salt, made.iterations) == (b"saltsaltsalt", 4096)


@pytest.mark.parametrize("label", SCRAM_BY_LABEL)
def test_keys_match_another_library(label):
    mechanism = SCRAM_BY_LABEL[label]
    salt = b"0123456789ab"
    _, stored_key, server_key, _ = scramp.ScramMechanism(label).make_auth_info(
        "secret", iteration_count=5000, salt=salt
    )
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, b"secret", salt, 5000)
    made = ScramCredential.from_salted_password(mechanism, salted, salt=salt, iterations=5000)
    assert (made.stored_key, made.server_key) == (stored_key, server_key)
    assert len(made.stored_key) == mechanism.key_bytes


def test_the_repr_of_a_credential_has_no_secrets():
    shown = repr(ScramCredential(salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096))
    assert shown == "ScramCredential(iterations=4096)"


def test_mechanisms_have_kafkas_numbers():
    assert [(ScramMechanism(number).name, ScramMechanism(number).label) for number in range(4)] == [
        ("UNKNOWN", "UNKNOWN"),
        ("SHA_256", "SCRAM-SHA-256"),
        ("SHA_512", "SCRAM-SHA-512"),
        ("UNKNOWN", "UNKNOWN"),
    ]


@pytest.mark.parametrize("proof", [b"", b"x", b"x" * 31, b"x" * 32, b"x" * 33])
def test_an_invalid_proof_of_any_length_is_refused(proof):
    credential = ScramCredential(salt=b"", stored_key=STORED_KEY, server_key=SERVER_KEY, iterations=4096)
    assert not is_proof(ScramMechanism.SHA_256, credential, proof, b"said")
