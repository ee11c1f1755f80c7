from broker_core.metadata.credential_lookup import UserCredentials
from broker_core.metadata.metadata_records import UserScramCredentialRecord
from broker_core.metadata.scram_credentials import ScramCredentials
from broker_core.model.scram import ScramMechanism


class Zeros:
    def random_bytes(self, count):
        return bytes(count)


def test_credentials_are_separate_per_mechanism():
    scram = ScramCredentials()
    scram.replay(
        UserScramCredentialRecord(
            name="ann", mechanism=1, salt=b"s", stored_key=b"st", server_key=b"se", iterations=4096
        )
    )
    users = UserCredentials(lambda: scram, plain_passwords={"bob": "secret"}, entropy=Zeros())
    assert users.scram_credential(ScramMechanism.SHA_256, "ann") is scram.get(ScramMechanism.SHA_256, "ann")
    assert users.scram_credential(ScramMechanism.SHA_256, "bob") is None
    assert users.plain_password("bob") == "secret"
    assert users.plain_password("ann") is None
    assert users.decoy_key == bytes(32)
