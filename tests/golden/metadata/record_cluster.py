"""A real Kafka cluster through everything that its metadata log can tell, and what it wrote.

    PYTHONPATH=tests:tests/golden/metadata python tests/golden/metadata/record_cluster.py

Three nodes with a dynamic quorum (two controllers join), topics, settings, rules, users, quotas, tokens, features,
elections, reassignments, a node killed and one unregistered; small segments and snapshots each few kilobytes. Writes
the folder `__cluster_metadata-0` of node 1 into cluster-metadata-kafka-4.3.1.tar.xz.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from kafka_metadata import FOLDER
from support.brokers import kafka_tools
from support.brokers.java_tool_host import BrokerTools, ToolHost
from support.brokers.reachable_broker import PASSWORD, USER
from support.brokers.real_quorum import RealQuorum

ARCHIVE = FOLDER / "cluster-metadata-kafka-4.3.1.tar.xz"
SETTINGS = (
    "metadata.log.max.record.bytes.between.snapshots=4000", "internal.metadata.log.segment.bytes=20000",
    "delegation.token.secret.key=golden-secret", "super.users=User:ANONYMOUS;User:" + USER,
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)  # fmt: skip


class ClusterLife:
    """Kafka's own tools against one cluster."""

    def __init__(self, cluster, host, folder):
        self.cluster, self.host, self.folder = cluster, host, folder
        self.run = BrokerTools(host, cluster.bootstrap_servers).run
        self.login = folder / "login.properties"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        self.login.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} required username="{USER}" password="{PASSWORD}";\n'
        )

    def configs(self, *arguments):
        self.run("ConfigCommand", "--alter", *arguments)

    def everything(self):
        self.voters()
        self.topics()
        self.settings()
        self.security()
        self.elections()
        self.reassignment()
        self.endings()

    def voters(self):
        for node_id in (2, 3):
            configuration = self.cluster.folder / str(node_id) / "server.properties"
            self.run("MetadataQuorumCommand", "--command-config", configuration, "add-controller")

    def topics(self):
        topic = "TopicCommand"
        self.run(topic, "--create", "--topic", "t3", "--partitions", "3", "--replication-factor", "3",
                 "--config", "min.insync.replicas=3", "--config", "retention.ms=77")  # fmt: skip
        self.run(topic, "--create", "--topic", "gone", "--partitions", "2", "--replication-factor", "1")
        self.run(topic, "--create", "--topic", "wide", "--replica-assignment", "1:2,2:3,3:1,1:3")
        self.run(topic, "--alter", "--topic", "wide", "--partitions", "6")
        self.run(topic, "--delete", "--topic", "gone")

    def settings(self):
        self.configs("--entity-type", "topics", "--entity-name", "t3", "--add-config", "cleanup.policy=compact")
        self.configs("--entity-type", "topics", "--entity-name", "t3", "--delete-config", "retention.ms")
        self.configs("--entity-type", "brokers", "--entity-name", "1", "--add-config", "log.cleaner.threads=2")
        self.configs("--entity-type", "brokers", "--entity-default", "--add-config", "message.max.bytes=1000000")
        self.configs(
            "--entity-type", "groups", "--entity-name", "g", "--add-config", "consumer.session.timeout.ms=50000"
        )
        self.configs("--entity-type", "client-metrics", "--entity-name", "m", "--add-config", "interval.ms=100000")
        self.configs("--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients", "--entity-default",
                     "--add-config", "producer_byte_rate=1048576,consumer_byte_rate=2097152")  # fmt: skip
        self.configs("--entity-type", "users", "--entity-default", "--add-config", "request_percentage=50")
        self.configs("--entity-type", "ips", "--entity-name", "10.0.0.1", "--add-config", "connection_creation_rate=5")
        self.configs("--entity-type", "users", "--entity-default", "--delete-config", "request_percentage")

    def security(self):
        for scram in ("SCRAM-SHA-256=[password=one]", "SCRAM-SHA-512=[iterations=8192,password=two]"):
            self.configs("--entity-type", "users", "--entity-name", "bob", "--add-config", scram)
        self.configs("--entity-type", "users", "--entity-name", "bob", "--delete-config", "SCRAM-SHA-256")
        rule = ["--allow-principal", "User:bob", "--operation", "Read", "--topic"]
        acls = "AclCommand"
        self.run(acls, "--add", *rule, "t3")
        self.run(acls, "--add", *rule, "pre", "--resource-pattern-type", "prefixed")
        self.run(acls, "--remove", "--force", *rule, "t3")
        tokens = BrokerTools(self.host, f"127.0.0.1:{self.cluster.ports[1]['SASL_PLAINTEXT']}").run
        command = ("DelegationTokenCommand", "--command-config", self.login)
        new = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        kept, ended = (tokens(*command, *new).out.strip().splitlines()[-1].split()[1] for _ in range(2))
        tokens(*command, "--renew", "--renew-time-period", "86400000", "--hmac", kept)
        tokens(*command, "--expire", "--expiry-time-period", "-1", "--hmac", ended)

    def elections(self):
        self.cluster.kill(3)
        time.sleep(12)  # longer than a broker's session; with min.insync.replicas=3 it becomes an eligible leader
        self.cluster.start(3)
        time.sleep(8)
        self.run("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")

    def reassignment(self):
        wanted = {"version": 1, "partitions": [
            {"topic": "t3", "partition": 0, "replicas": [1, 2]}, {"topic": "wide", "partition": 0, "replicas": [3, 2]},
        ]}  # fmt: skip
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps(wanted))
        self.run("ReassignPartitionsCommand", "--execute", "--reassignment-json-file", plan)
        time.sleep(4)

    def endings(self):
        self.run("FeatureCommand", "downgrade", "--feature", "share.version=0")
        self.configs("--entity-type", "topics", "--entity-name", "t3", "--add-config", "min.insync.replicas=1")
        self.cluster.stop(3)
        time.sleep(3)
        self.run("ClusterTool", "unregister", "--id", "3")
        time.sleep(2)


def main():
    assert (refusal := kafka_tools.why_unavailable()) is None, refusal
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with RealQuorum(folder / "nodes", is_dynamic=True, settings=SETTINGS) as cluster:
            cluster.start()
            host = ToolHost(folder / "tools.log")
            ClusterLife(cluster, host, folder).everything()
            host.close()
            cluster.stop(1, 2)
            with tarfile.open(ARCHIVE, "w:xz") as archive:
                archive.add(cluster.metadata_folder(1), "__cluster_metadata-0")
            print(sorted(path.name for path in cluster.metadata_folder(1).iterdir()), file=sys.stderr)


if __name__ == "__main__":
    main()
