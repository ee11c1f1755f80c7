"""A history of metadata records drawn by a seeded die: every type that an image knows, some contradicting it."""

from __future__ import annotations

import random
from uuid import UUID

from broker_core.metadata import metadata_records as m

BROKERS = (1, 2, 3, 4, 300)
LEVELS = (7, 9, 11, 14, 16, 19, 23, 30)
NAMES = tuple(f"topic.{n}" for n in range(6))


class DrawnHistory:
    """`draw()` gives the next records, which belong together. It knows what it drew, so most of them fit."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.topics: dict[str, UUID] = {}
        self.partitions: dict[UUID, dict[int, tuple[int, ...]]] = {}
        self.epochs: dict[int, int] = {}
        self.rules: list[UUID] = []
        self.directories = [UUID(int=self.dice.getrandbits(128)) for _ in range(4)]
        self.level = 30
        self.drawing = [
            (3, self.topic), (6, self.partition), (12, self.change), (1, self.remove_topic), (2, self.clear_elr),
            (4, self.register), (6, self.registration_change), (1, self.unregister), (2, self.fence),
            (2, self.controller),
            (5, self.config), (3, self.quota), (2, self.scram), (2, self.rule), (1, self.remove_rule), (2, self.token),
            (1, self.producer_ids), (2, self.feature), (1, self.nothing), (1, self.transaction),
        ]  # fmt: skip

    def draw(self):
        weights, draws = zip(*self.drawing, strict=True)
        (chosen,) = self.dice.choices(draws, weights)
        return chosen()

    def start(self):
        return [m.FeatureLevelRecord(name="metadata.version", feature_level=30),
                m.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)]  # fmt: skip

    def some(self, options, most=3):
        return tuple(self.dice.sample(options, self.dice.randint(0, min(most, len(options)))))

    def coin(self, chance=0.5):
        return self.dice.random() < chance

    def uuid(self):
        return UUID(int=self.dice.getrandbits(128))

    def topic(self):
        free = [name for name in NAMES if name not in self.topics]
        if not free:
            return self.partition()
        name, topic_id = self.dice.choice(free), self.uuid()
        self.topics[name], self.partitions[topic_id] = topic_id, {}
        return [m.TopicRecord(name=name, topic_id=topic_id)]

    def any_topic(self):
        if not self.topics or self.coin(0.03):
            return UUID(int=77)
        return self.topics[self.dice.choice(sorted(self.topics))]

    def placed(self):
        replicas = tuple(self.dice.sample(BROKERS, self.dice.randint(1, 3)))
        return replicas, tuple(self.dice.choice(self.directories) for _ in replicas)

    def partition(self):
        topic_id, number = self.any_topic(), self.dice.randint(0, 9)
        replicas, directories = self.placed()
        version = self.dice.choice((0, 1, 2))
        if topic_id in self.partitions:
            self.partitions[topic_id][number] = replicas
        elr = {} if version < 2 else {"eligible_leader_replicas": self.dice.choice((None, self.some(replicas))),
                                      "last_known_elr": self.dice.choice((None, self.some(replicas, 1)))}  # fmt: skip
        return [m.PartitionRecord(
            version=version, partition_id=number, topic_id=topic_id, replicas=replicas, isr=self.some(replicas),
            leader=self.dice.choice((-1, *replicas)), leader_epoch=self.dice.randint(0, 9),
            partition_epoch=self.dice.randint(0, 9), directories=directories if version else (),
            removing_replicas=self.some(replicas, 1) if self.coin(0.2) else (),
            adding_replicas=self.some(replicas, 1) if self.coin(0.2) else (),
            leader_recovery_state=int(self.coin(0.2)), **elr,
        )]  # fmt: skip

    def change(self):
        topic_id = self.any_topic()
        known = self.partitions.get(topic_id, {})
        number = self.dice.choice(sorted(known)) if known and self.coin(0.95) else 5_000
        replicas = known.get(number, (1,))
        given = {}
        if self.coin(0.15):
            replicas, given["directories"] = self.placed()
            given["replicas"] = replicas
            known[number] = replicas
        for name in ("isr", "removing_replicas", "adding_replicas", "eligible_leader_replicas", "last_known_elr"):
            if self.coin(0.3):
                given[name] = self.some(replicas)
        if self.coin(0.4):
            given["leader"] = self.dice.choice((-1, *replicas))
        if self.coin(0.1):
            given["leader_recovery_state"] = self.dice.choice((0, 1))
        return [m.PartitionChangeRecord(partition_id=number, topic_id=topic_id, **given)]

    def remove_topic(self):
        topic_id = self.any_topic()
        for name, known in list(self.topics.items()):
            if known == topic_id:
                del self.topics[name], self.partitions[topic_id]
        return [m.RemoveTopicRecord(topic_id=topic_id)]

    def clear_elr(self):
        return [m.ClearElrRecord(topic_name="" if self.coin(0.3) else self.dice.choice(NAMES))]

    def endpoints(self, kind):
        return tuple(kind(name=name, host="h", port=9092, security_protocol=self.dice.randint(0, 3))
                     for name in self.some(("A", "B", "C")))  # fmt: skip

    def features(self, kind):
        return tuple(kind(name=name, min_supported_version=0, max_supported_version=self.dice.randint(0, 30))
                     for name in self.some(("metadata.version", "x", "y")))  # fmt: skip

    def register(self):
        broker_id, epoch, version = (
            self.dice.choice(BROKERS),
            self.dice.getrandbits(40),
            self.dice.choice((0, 1, 2, 3, 4)),
        )
        self.epochs[broker_id] = epoch
        later = {"in_controlled_shutdown": self.coin(0.2)} if version else {}
        later |= {"log_dirs": self.some(self.directories)} if version > 2 else {}
        later |= {"cordoned_log_dirs": self.dice.choice((None, (), self.some(self.directories)))} if version > 3 else {}
        return [m.RegisterBrokerRecord(
            version=version, broker_id=broker_id, incarnation_id=self.uuid(), broker_epoch=epoch,
            end_points=self.endpoints(m.BrokerEndpoint), features=self.features(m.BrokerFeature),
            rack=self.dice.choice((None, "", "r1")), fenced=self.coin(), **later,
        )]  # fmt: skip

    def any_epoch(self, broker_id):
        return -7 if self.coin(0.05) else self.epochs.get(broker_id, 1)

    def registration_change(self):
        broker_id = self.dice.choice(BROKERS)
        return [m.BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=self.any_epoch(broker_id),
            fenced=self.dice.choice((-1, 0, 1)) if self.coin(0.97) else 2,
            in_controlled_shutdown=self.dice.choice((0, 1)), log_dirs=self.some(self.directories),
            cordoned_log_dirs=self.dice.choice((None, (), self.some(self.directories))),
        )]  # fmt: skip

    def unregister(self):
        broker_id = self.dice.choice(BROKERS)
        return [m.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=self.epochs.pop(broker_id, 1))]

    def fence(self):
        broker_id = self.dice.choice(BROKERS)
        kind = self.dice.choice((m.FenceBrokerRecord, m.UnfenceBrokerRecord))
        return [kind(id=broker_id, epoch=self.any_epoch(broker_id))]

    def controller(self):
        return [m.RegisterControllerRecord(
            controller_id=self.dice.choice(BROKERS), incarnation_id=self.uuid(), zk_migration_ready=self.coin(),
            end_points=self.endpoints(m.ControllerEndpoint), features=self.features(m.ControllerFeature),
        )]  # fmt: skip

    def config(self):
        return [m.ConfigRecord(
            resource_type=self.dice.choice((2, 2, 4, 16, 32)), resource_name=self.dice.choice((*NAMES, "", "1")),
            name=self.dice.choice("abc"), value=self.dice.choice((None, "", "1", "x")),
        )]  # fmt: skip

    def quota(self):
        entity = tuple(m.EntityData(entity_type=kind, entity_name=self.dice.choice((None, "ann", "")))
                       for kind in self.some(("user", "client-id", "ip")) or ("user",))  # fmt: skip
        return [m.ClientQuotaRecord(
            entity=entity, key=self.dice.choice(("a", "b")), value=self.dice.random(), remove=self.coin(0.4)
        )]  # fmt: skip

    def scram(self):
        name, mechanism = self.dice.choice(("ann", "bob")), self.dice.choice((1, 2))
        if self.coin(0.4):
            return [m.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)]
        return [m.UserScramCredentialRecord(
            name=name, mechanism=mechanism, salt=self.dice.randbytes(3), stored_key=self.dice.randbytes(4),
            server_key=self.dice.randbytes(4), iterations=4096,
        )]  # fmt: skip

    def rule(self):
        self.rules.append(self.uuid())
        return [m.AccessControlEntryRecord(
            id=self.rules[-1], resource_type=self.dice.choice((2, 3, 4, 5)), resource_name=self.dice.choice(NAMES),
            pattern_type=self.dice.choice((3, 4)), principal=self.dice.choice(("User:ann", "User:*")), host="*",
            operation=self.dice.choice((2, 3, 4, 8)), permission_type=self.dice.choice((2, 3)),
        )]  # fmt: skip

    def remove_rule(self):
        rule_id = self.rules.pop() if self.rules and self.coin(0.9) else UUID(int=5)
        return [m.RemoveAccessControlEntryRecord(id=rule_id)]

    def token(self):
        token_id = self.dice.choice(("one", "two", "three"))
        if self.coin(0.4):
            return [m.RemoveDelegationTokenRecord(token_id=token_id)]
        return [m.DelegationTokenRecord(
            owner="User:ann", requester="User:bob", renewers=self.some(("User:cat", "User:dan")), token_id=token_id,
            issue_timestamp=1, max_timestamp=self.dice.getrandbits(40), expiration_timestamp=9,
        )]  # fmt: skip

    def producer_ids(self):
        return [m.ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=self.dice.getrandbits(30))]

    def feature(self):
        elr = "eligible.leader.replicas.version"
        if self.coin(0.3):
            self.level = self.dice.choice(LEVELS)
            changed = m.FeatureLevelRecord(name="metadata.version", feature_level=self.level)
            # No controller goes below the level of a feature that is on.
            return [changed] if self.level >= 23 else [m.FeatureLevelRecord(name=elr, feature_level=0), changed]
        name = self.dice.choice(("x.version", "kraft.version", *((elr,) if self.level >= 23 else ())))
        return [m.FeatureLevelRecord(name=name, feature_level=self.dice.choice((0, 1, 2)))]

    def nothing(self):
        return [self.dice.choice((m.NoOpRecord(), m.ZkMigrationStateRecord(zk_migration_state=1)))]

    def transaction(self):
        inside = [
            record for _ in range(self.dice.randint(0, 4)) for record in self.dice.choice((self.config, self.quota))()
        ]
        ends = m.EndTransactionRecord() if self.coin(0.6) else m.AbortTransactionRecord(reason="drawn")
        return [m.BeginTransactionRecord(name="drawn"), *inside, ends]


def drawn_records(seed, count):
    history = DrawnHistory(seed)
    records = history.start()
    while len(records) < count:
        records += history.draw()
    return records
