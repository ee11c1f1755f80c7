"""What Kafka 4.3.1's StandardAuthorizer decides: rules, questions and its answers, and how to record them again.

`python tests/support/brokers/access_decisions.py` makes the recording: it runs that class itself by
tests/conformance/StandardAuthorizerAnswers.java over the worlds below, some written by hand and some drawn by a seeded
die from few names, so that prefixes, wildcards, hosts and denials meet.
"""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from support.brokers.kafka_tools import JARS

from broker_core.model.access_control import SUPPORTED_OPERATIONS, Operation, ResourceType

RECORDING = Path(__file__).parents[2] / "golden" / "access-kafka-4.3.1.json"
ORACLE = Path(__file__).parents[2] / "conformance" / "StandardAuthorizerAnswers.java"
BY_TYPE = "any name"
"""In the place of a name: whether there is any name at all that the operation is allowed on."""

BY_HAND = [
    # name, super users, allow.everyone.if.no.acl.found, rules, questions
    # A rule:     resource type, name, pattern, principal, host, operation, permission
    # A question: principal, host, operation, resource type, name
    ("no rules", "User:root", "false", [], ["User:a h1 READ TOPIC t", "User:root h1 READ TOPIC t"]),
    ("no rules, open", "", "true", [], ["User:a h1 READ TOPIC t", "User:a h1 WRITE TOPIC any name"]),
    ("literal", "", "false", ["TOPIC t LITERAL User:a * READ ALLOW"], [
        "User:a h1 READ TOPIC t", "User:a h1 DESCRIBE TOPIC t", "User:a h1 WRITE TOPIC t", "User:b h1 READ TOPIC t",
        "User:a h1 READ TOPIC tt", "User:a h1 READ TOPIC T", "User:a h1 READ GROUP t",
        "User:a h1 DESCRIBE_CONFIGS TOPIC t",
    ]),
    ("prefixed", "", "false", ["GROUP app- PREFIXED User:a * READ ALLOW"], [
        "User:a h1 READ GROUP app-1", "User:a h1 READ GROUP app-", "User:a h1 READ GROUP app",
        "User:a h1 READ GROUP xapp-",
        "User:a h1 READ GROUP any name",
    ]),
    ("a star is no prefix", "", "false", ["TOPIC * PREFIXED User:a * READ ALLOW"], [
        "User:a h1 READ TOPIC t", "User:a h1 READ TOPIC *t",
    ]),
    ("deny wins", "User:root", "false", [
        "TOPIC * LITERAL User:* * ALL ALLOW", "TOPIC secret PREFIXED User:a * ALL DENY",
        "TOPIC s LITERAL User:b * READ DENY",
    ], [
        "User:a h1 READ TOPIC secret-1", "User:b h1 READ TOPIC secret-1", "User:b h1 READ TOPIC s",
        "User:b h1 DESCRIBE TOPIC s", "User:b h1 WRITE TOPIC s", "User:root h1 READ TOPIC secret-1",
        "User:a h1 WRITE TOPIC any name",
    ]),
    ("implied", "", "false", [
        "TOPIC w LITERAL User:a * WRITE ALLOW", "TOPIC d LITERAL User:a * DELETE ALLOW",
        "TOPIC x LITERAL User:a * ALTER ALLOW",
        "TOPIC c LITERAL User:a * ALTER_CONFIGS ALLOW", "TOPIC k LITERAL User:a * CREATE ALLOW",
    ], [
        "User:a h1 DESCRIBE TOPIC w", "User:a h1 DESCRIBE TOPIC d", "User:a h1 DESCRIBE TOPIC x",
        "User:a h1 DESCRIBE TOPIC c",
        "User:a h1 DESCRIBE TOPIC k", "User:a h1 DESCRIBE_CONFIGS TOPIC c", "User:a h1 DESCRIBE_CONFIGS TOPIC x",
        "User:a h1 ALTER TOPIC c", "User:a h1 DESCRIBE TOPIC any name",
    ]),
    ("hosts", "", "false", [
        "TOPIC t LITERAL User:a 10.0.0.1 READ ALLOW", "TOPIC t LITERAL User:* 10.0.0.2 READ DENY",
    ], [
        "User:a 10.0.0.1 READ TOPIC t", "User:a 10.0.0.3 READ TOPIC t", "User:a 10.0.0.2 READ TOPIC t",
        "User:b 10.0.0.1 READ TOPIC t",
    ]),
    ("open unless there are rules", "", "true", ["TOPIC t PREFIXED User:a * WRITE ALLOW"], [
        "User:b h1 READ TOPIC t1", "User:b h1 READ TOPIC x", "User:a h1 DESCRIBE TOPIC t1", "User:a h1 READ TOPIC t1",
        "User:b h1 WRITE GROUP t1",
    ]),
    ("open unless there is a star", "", "true", ["TOPIC * LITERAL User:a * WRITE ALLOW"], [
        "User:b h1 READ TOPIC x", "User:b h1 READ GROUP x",
    ]),
    ("cluster", "", "false", ["CLUSTER kafka-cluster LITERAL User:a * IDEMPOTENT_WRITE ALLOW"], [
        "User:a h1 IDEMPOTENT_WRITE CLUSTER kafka-cluster", "User:a h1 DESCRIBE CLUSTER kafka-cluster",
    ]),
    ("any write is eaten up by a prefix", "", "false", [
        "TOPIC abc LITERAL User:a * WRITE ALLOW", "TOPIC ab PREFIXED User:* * WRITE DENY",
    ], ["User:a h1 WRITE TOPIC any name", "User:a h1 WRITE TOPIC abc"]),
    ("any write outlives a longer denial", "", "false", [
        "TOPIC ab PREFIXED User:a * WRITE ALLOW", "TOPIC abc PREFIXED User:a * WRITE DENY",
        "TOPIC ab LITERAL User:a * WRITE DENY",
    ], ["User:a h1 WRITE TOPIC any name", "User:a h1 WRITE TOPIC ab", "User:a h1 WRITE TOPIC abd"]),
]  # fmt: skip


@dataclass(kw_only=True)
class AccessWorld:
    """Rules, and questions about them; `allowed` are the answers in the questions' order, once Kafka has given them."""

    name: str
    super_users: str
    open: str
    rules: list[list[str]]
    questions: list[list[str]]
    allowed: list[bool] = field(default_factory=list)


def recorded_worlds():
    document = json.loads(RECORDING.read_text())
    assert document["kafka"] == "4.3.1"
    return [AccessWorld(**world) for world in document["worlds"]]


def kafkas_answers(worlds):
    """For each world, what Kafka's own class decides. Needs Java and Kafka's jars."""
    lines = [line for world in worlds for line in _lines_for(world)]
    result = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", str(ORACLE)],
        input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]
    answers = iter(line == "ALLOWED" for line in result.stdout.split())
    return [[next(answers) for _ in world.questions] for world in worlds]


def _lines_for(world):
    yield f"world\t{world.super_users}\t{world.open}"
    yield from ("\t".join(["rule", *rule]) for rule in world.rules)
    yield "ready"
    for question in world.questions:
        yield "\t".join(["ask-type", *question[:4]] if question[4] == BY_TYPE else ["ask", *question])


def _split(line, count):
    return line.replace("h1", "127.0.0.1").split(" ", count - 1)


def _worlds_by_hand():
    for name, super_users, is_open, rules, questions in BY_HAND:
        yield AccessWorld(
            name=name, super_users=super_users, open=is_open, rules=[_split(rule, 7) for rule in rules],
            questions=[_split(question, 5) for question in questions],
        )  # fmt: skip


def _drawn_worlds(count):
    die = random.Random(431)
    names = ["a", "ab", "abc", "abd", "b", "*", "ba", "hardcode"]
    users, hosts = ["User:a", "User:b", "User:*", "Group:a"], ["10.0.0.1", "10.0.0.2", "*"]
    for number in range(count):
        kind = die.choice([ResourceType.TOPIC, ResourceType.GROUP])
        operations = [one.name for one in sorted(SUPPORTED_OPERATIONS[kind])]
        rules = [
            [die.choice([kind.name, kind.name, "TOPIC"]), die.choice(names), die.choice(["LITERAL", "PREFIXED"]),
             die.choice(users), die.choice(hosts), die.choice([*operations[:4], Operation.ALL.name]),
             die.choice(["ALLOW", "ALLOW", "DENY"])]
            for _ in range(die.randint(1, 14))
        ]  # fmt: skip
        questions = [
            [die.choice(["User:a", "User:b", "User:c"]), die.choice(hosts[:2]), die.choice(operations), kind.name,
             die.choice([*names, "abcd", "c", BY_TYPE])]
            for _ in range(24)
        ]  # fmt: skip
        yield AccessWorld(
            name=f"drawn {number}", super_users=die.choice(["", "User:c"]), open=die.choice(["true", "false"]),
            rules=rules, questions=questions,
        )  # fmt: skip


if __name__ == "__main__":
    worlds = [*_worlds_by_hand(), *_drawn_worlds(40)]
    for world, answers in zip(worlds, kafkas_answers(worlds), strict=True):
        world.allowed = answers
    lines = ",\n".join(json.dumps(vars(world)) for world in worlds)
    RECORDING.write_text(f'{{"kafka": "4.3.1", "worlds": [\n{lines}\n]}}\n')
