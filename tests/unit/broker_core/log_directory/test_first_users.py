import base64
import hashlib
import hmac

import pytest
from support.builders.counting_entropy import CountingEntropy

from broker_core.log_directory.first_users import parse_first_user
from broker_core.model.exceptions import InvalidConfigError

SALT = b"salt of the user"
SALT_TEXT = base64.b64encode(SALT).decode()


def parsed(text):
    return parse_first_user(text, entropy=CountingEntropy())


def keys_of(hash_name, salted):
    """RFC 5802: StoredKey := H(HMAC(SaltedPassword, "Client Key")), ServerKey := HMAC(SaltedPassword, "Server Key")."""
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return hashlib.new(hash_name, client_key).digest(), hmac.digest(salted, b"Server Key", hash_name)


@pytest.mark.parametrize(("mechanism", "number", "hash_name"), [("256", 1, "sha256"), ("512", 2, "sha512")])
def test_a_password_is_stored_as_its_keys(mechanism, number, hash_name):
    found = parsed(f'SCRAM-SHA-{mechanism}=[name=alice,iterations=8192,salt="{SALT_TEXT}",password=al=ice]')
    assert (found.name, found.mechanism, found.iterations, found.salt) == ("alice", number, 8192, SALT)
    salted = hashlib.pbkdf2_hmac(hash_name, b"al=ice", SALT, 8192)
    assert (found.stored_key, found.server_key) == keys_of(hash_name, salted)


def test_a_salted_password_is_taken_as_it_is_and_a_salt_is_made_where_there_is_none():
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", SALT, 4096)
    text = base64.b64encode(salted).decode()
    found = parsed(f"SCRAM-SHA-512=[name=bob,salt={SALT_TEXT},saltedpassword={text}]")
    assert (found.stored_key, found.server_key) == keys_of("sha512", salted)
    assert found.iterations == 4096
    made = parsed("SCRAM-SHA-512=[name=bob,password=secret]")
    assert len(made.salt) == 32
    assert (made.stored_key, made.server_key) == keys_of(
        "sha512", hashlib.pbkdf2_hmac("sha512", b"secret", made.salt, 4096)
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alice", "must be of the form"),
        ("PLAIN=[name=a,password=hidden]", "the mechanism is SCRAM-SHA-256 or SCRAM-SHA-512, not 'PLAIN'"),
        ("SCRAM-SHA-256=[password=hidden]", "there is no name"),
        ("SCRAM-SHA-256=[name=a]", "neither password nor saltedpassword"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=aGlkZGVu]", "needs the salt"),
        ("SCRAM-SHA-256=[name=a,salt=%%,password=hidden]", "salt is not base64"),
        ("SCRAM-SHA-256=[name=a,iterations=4095,password=hidden]", "from 4096 to 16384, not '4095'"),
        ("SCRAM-SHA-256=[name=a,iterations=16385,password=hidden]", "from 4096 to 16384, not '16385'"),
        ("SCRAM-SHA-256=[name=a,iterations=x,password=hidden]", "not 'x'"),
        ("SCRAM-SHA-256=[name=a,user=b,password=hidden]", "'user' is none of"),
    ],
)
def test_what_is_wrong_is_named_and_no_password_is_shown(text, words):
    with pytest.raises(InvalidConfigError, match=words) as raised:
        parsed(text)
    assert "hidden" not in str(raised.value)
