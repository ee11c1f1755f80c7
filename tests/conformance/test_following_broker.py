"""A broker of ours that follows beside real Kafka brokers: in their in-sync sets, byte for byte; `pytest -m kafka`."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.brokers import kafka_tools
from support.brokers.real_quorum import RealQuorum
from support.quorum.our_replica import OurReplica, log_of, wait_until

OURS = 98
ENOUGH = {"min.insync.replicas": "2"}
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def needs_kafka():
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)


class RealCluster:
    """What a client sees of the real brokers."""

    def __init__(self, real):
        self.real = real
        self.written = 0

    def admin(self):
        return AdminClient({"bootstrap.servers": self.real.bootstrap_servers, "log_level": 0})

    def insist(self, ask, *, over):
        """Kafka's brokers name any broker as the controller, also ours, where nobody listens: then it is asked anew."""
        error = None
        for _ in range(12):
            admin = self.admin()
            try:
                ask(admin).result(8)
            except (TimeoutError, KafkaException) as refused:
                error = refused
                if isinstance(refused, KafkaException) and refused.args[0].code() == over:
                    return
            else:
                return
        pytest.fail(f"the brokers did not do it: {error}")

    def create(self, topic, replicas, **configs):
        made = NewTopic(topic, num_partitions=len(replicas), replica_assignment=replicas, config=configs)
        self.insist(lambda admin: admin.create_topics([made])[topic], over=KafkaError.TOPIC_ALREADY_EXISTS)

    def delete(self, topic):
        self.insist(lambda admin: admin.delete_topics([topic])[topic], over=KafkaError.UNKNOWN_TOPIC_OR_PART)

    def partitions(self, topic):
        found = self.admin().list_topics(topic, timeout=30).topics[topic].partitions
        return [partition for _, partition in sorted(found.items())]

    def in_sync(self, topic):
        return [set(partition.isrs) for partition in self.partitions(topic)]

    def leaders(self, topic):
        return [partition.leader for partition in self.partitions(topic)]

    def produce(self, topic, count, *, compression="none"):
        """Acknowledged by all in-sync replicas."""
        producer = Producer(
            {
                "bootstrap.servers": self.real.bootstrap_servers, "acks": "all", "log_level": 0, "linger.ms": 2,
                "compression.type": compression, "message.timeout.ms": 120_000, "enable.idempotence": True,
            }
        )  # fmt: skip
        errors = []
        for _ in range(count):
            self.written += 1
            producer.produce(
                topic, b"%d" % self.written, on_delivery=lambda error, _: errors.append(error) if error else None
            )
        assert producer.flush(120) == 0
        assert errors == []

    def log(self, node_id, topic, partition):
        return log_of(self.real.folder / str(node_id) / "data" / f"{topic}-{partition}")


def require_equal_logs(cluster, ours, node_id, topic, partitions):
    for partition in partitions:
        wait_until(
            lambda p=partition: ours.batches(topic, p) == cluster.log(node_id, topic, p) != b"",
            seconds=30,
            story=lambda p=partition: f"{topic}-{p} differs from broker {node_id}'s\n{ours.log_end()}",
        )


def test_it_is_in_sync_and_equal_and_again_after_it_was_killed(tmp_path):
    with (
        RealQuorum(tmp_path / "real", node_count=1) as real,
        OurReplica(tmp_path / "ours", controllers=real.bootstrap_controllers, node_id=OURS) as ours,
    ):
        real.start()
        cluster = RealCluster(real)
        ours.start()
        cluster.create("flights", [[1, OURS]] * 3, **ENOUGH)
        cluster.produce("flights", 2000)
        cluster.produce("flights", 2000, compression="lz4")
        assert cluster.in_sync("flights") == [{1, OURS}] * 3
        require_equal_logs(cluster, ours, 1, "flights", range(3))

        ours.kill()
        cluster.create("meanwhile", [[1, OURS]], **{"min.insync.replicas": "1"})
        cluster.produce("meanwhile", 500)
        ours.start()
        cluster.produce("flights", 500)
        wait_until(lambda: cluster.in_sync("flights") == [{1, OURS}] * 3, story=ours.log_end)
        wait_until(lambda: cluster.in_sync("meanwhile") == [{1, OURS}], story=ours.log_end)
        require_equal_logs(cluster, ours, 1, "flights", range(3))
        require_equal_logs(cluster, ours, 1, "meanwhile", range(1))

        cluster.delete("meanwhile")
        wait_until(lambda: not list((tmp_path / "ours" / "data").glob("meanwhile*")), story=ours.log_end)
        assert ours.stop() == 0
        wait_until(lambda: cluster.in_sync("flights") == [{1}] * 3, story=ours.log_end)


def test_it_follows_the_next_leader_when_one_is_killed(tmp_path):
    with (
        RealQuorum(tmp_path / "real", node_count=3) as real,
        OurReplica(tmp_path / "ours", controllers=real.bootstrap_controllers, node_id=OURS) as ours,
    ):
        real.start()
        cluster = RealCluster(real)
        ours.start()
        cluster.create("flights", [[1, 2, OURS], [2, 1, OURS]], **ENOUGH)
        cluster.produce("flights", 2000)
        real.kill(1)
        cluster.produce("flights", 2000)
        assert cluster.leaders("flights") == [2, 2]
        wait_until(lambda: cluster.in_sync("flights") == [{2, OURS}] * 2, story=ours.log_end)
        require_equal_logs(cluster, ours, 2, "flights", range(2))

        real.start(1)
        cluster.produce("flights", 2000)
        wait_until(lambda: cluster.in_sync("flights") == [{1, 2, OURS}] * 2, story=ours.log_end)
        require_equal_logs(cluster, ours, 1, "flights", range(2))


def test_elected_to_lead_it_gives_the_leadership_back_and_says_so(tmp_path):
    with (
        RealQuorum(tmp_path / "real", node_count=1) as real,
        OurReplica(tmp_path / "ours", controllers=real.bootstrap_controllers, node_id=OURS) as ours,
    ):
        real.start()
        cluster = RealCluster(real)
        ours.start()
        cluster.create("flights", [[OURS, 1]])
        assert ours.ended() == 1
        assert "it was elected to lead flights-0, and it only follows" in ours.log_end()
        wait_until(lambda: cluster.leaders("flights") == [1])
        cluster.produce("flights", 100)
