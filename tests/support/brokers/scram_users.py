"""Users who log in by SCRAM, given to a running broker as `kafka-configs --alter --add-config SCRAM-…` does it."""

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

ITERATIONS = 4096
SECONDS = 10


def add_scram_user(broker, user, password):
    """For both mechanisms, as `kafka-storage format --add-scram` gives it to a real one."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap()})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        credential = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, ITERATIONS), password.encode())
        admin.alter_user_scram_credentials([credential])[user].result(SECONDS)
