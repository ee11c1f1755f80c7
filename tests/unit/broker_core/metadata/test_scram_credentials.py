from broker_core.metadata.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from broker_core.metadata.scram_credentials import ScramCredentials
from broker_core.model.scram import ScramCredential, ScramMechanism


def made(name, mechanism=1, iterations=4096):
    return UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=b"s", stored_key=b"st", server_key=b"se", iterations=iterations
    )


def gone(name, mechanism=1):
    return RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)


def credentials_of(*records):
    credentials = ScramCredentials()
    for record in records:
        credentials.replay(record)
    return credentials


def test_a_credential_is_found_by_user_and_mechanism():
    credentials = credentials_of(made("ann", 2), made("ann", 1), made("bob"))
    assert credentials.users == ["ann", "bob"]
    assert credentials.get(ScramMechanism.SHA_512, "ann") == ScramCredential(
        salt=b"s", stored_key=b"st", server_key=b"se", iterations=4096
    )
    assert credentials.get(ScramMechanism.SHA_512, "bob") is None
    assert credentials.get(ScramMechanism.SHA_256, "carol") is None
    assert list(credentials.of_user("ann")) == [ScramMechanism.SHA_256, ScramMechanism.SHA_512]


def test_a_new_credential_replaces_the_old_one():
    credentials = credentials_of(made("ann"), made("ann", iterations=8192))
    assert credentials.get(ScramMechanism.SHA_256, "ann").iterations == 8192


def test_a_user_exists_until_the_last_credential_is_deleted():
    credentials = credentials_of(made("ann", 1), made("ann", 2), gone("ann", 1))
    assert credentials.users == ["ann"]
    credentials.replay(gone("ann", 2))
    assert credentials.users == []
    assert not credentials.of_user("ann")
    credentials.replay(gone("ann", 2))
    assert credentials.users == []


def test_a_credential_of_an_unknown_mechanism_is_ignored():
    assert credentials_of(made("ann", 3), gone("bob", 9)).users == []


def test_the_repr_of_a_record_has_no_secrets():
    shown = "UserScramCredentialRecord(name='ann', mechanism=1, iterations=4096, version=0, unknown_fields=())"
    assert repr(made("ann")) == shown
