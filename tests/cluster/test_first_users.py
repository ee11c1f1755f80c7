"""A new cluster whose directories were formatted with --add-scram, as its nodes and clients see it."""

import pytest
from support.brokers.cluster_in_process import CLUSTER_ID, ClusterInProcess
from support.brokers.secured_nodes import LISTENER, SCRAM_MODULE, secured_client_settings, secured_settings

from broker_core.log_directory.first_users import parse_first_user
from broker_core.log_directory.format_plan import FirstVoters, parse_format_settings, plan_format
from broker_core.log_directory.storage_format import format_directories
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.exceptions import AuthenticationError
from broker_core.storage.os_file_system import OsFileSystem

LOGIN = f'{SCRAM_MODULE} required username="root" password="first";'
MECHANISM = "SCRAM-SHA-512"
OWN = {
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    "sasl.mechanism.controller.protocol": MECHANISM,
    "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": LOGIN,
    "listener.name.controller.scram-sha-512.sasl.jaas.config": LOGIN,
    "super.users": "User:root",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One node, which logs in at itself as the first user."""
    login = {"sasl.mechanism": MECHANISM, "sasl.username": "root", "sasl.password": "first"}
    client = {**secured_client_settings(), **login}
    given = {"settings": {**secured_settings(), **OWN}, "listener": LISTENER, "client_settings": client}
    cluster = ClusterInProcess(tmp_path_factory.mktemp("nodes"), 1, **given)
    entropy = SystemEntropy()
    plan = plan_format(
        parse_format_settings(cluster.settings(1)),
        cluster_id=CLUSTER_ID,
        first_voters=FirstVoters(),
        release=None,
        levels={},
        users=[parse_first_user(f"{MECHANISM}=[name=root,password=first]", entropy=entropy)],
        entropy=entropy,
    )
    format_directories(OsFileSystem(), plan, ignores_formatted=False, entropy=entropy, now_ms=0)
    with cluster:
        yield cluster


def test_nodes_and_clients_log_in_as_a_user_that_the_cluster_began_with(cluster):
    client = cluster.client()
    client.create_topic("t", partition_count=1)
    assert "t" in client.describe_topics()


def test_another_password_or_user_is_refused(cluster):
    for wrong in ({"sasl__password": "second"}, {"sasl__username": "toor"}):
        with pytest.raises(AuthenticationError):
            cluster.client(**wrong).describe_topics()
