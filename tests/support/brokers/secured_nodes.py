"""Settings of nodes whose listeners all want TLS and a login: `node` is their own user, `admin` a super user, too."""

from __future__ import annotations

from support.brokers.reachable_broker import PEMS

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
NODE, NODE_PASSWORD = "node", "between-nodes"
USERS = {NODE: NODE_PASSWORD, "admin": "admin-secret", "ann": "ann-secret", "bob": "bob-secret"}
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LISTENER = "SASL_SSL"


def plain_logins(username=NODE, password=NODE_PASSWORD):
    """All users may log in; this node does as `username`."""
    users = " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items())
    return f'{PLAIN_MODULE} required username="{username}" password="{password}" {users};'


def secured_settings(*, has_authorizer=True):
    """Of each node: SASL_SSL for clients, brokers and controllers."""
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,SASL_SSL:SASL_SSL",
        "inter.broker.listener.name": LISTENER,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_logins(),
        "listener.name.controller.plain.sasl.jaas.config": plain_logins(),
        # Kafka wants one for each mechanism.
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.controller.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(PEMS / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(PEMS / "authority.pem"),
    }
    if has_authorizer:
        settings |= {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": f"User:{NODE};User:admin"}
    return settings


def secured_client_settings(username="admin", password=None):
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": username,
        "sasl.password": USERS.get(username, "") if password is None else password,
        "ssl.truststore.location": str(PEMS / "authority.pem"),
    }
