"""What a real Kafka 4.3.1 answered to heartbeats and descriptions, recorded step by step, and what is answered here.

Its settings: group.consumer.assignment.interval.ms=0, else defaults. In Kafka topics have the scene's name before
theirs; the group is $GROUP here, and `@` in a regular expression stands for that name.
"""

import json
from pathlib import Path

import pytest
from support.nodes.consumer_group_runner import ConsumerGroupRunner

RECORDED = Path(__file__).parents[4] / "golden" / "consumer_groups" / "transcripts.json"
SCENES = json.loads(RECORDED.read_text().replace("@", "").replace(r"regular-expressions\\.", ""))
GROUP = "$GROUP"


@pytest.mark.parametrize("scene", SCENES)
def test_each_request_is_answered_as_kafka_answered_it(scene):
    runner = ConsumerGroupRunner()
    for number, step in enumerate(SCENES[scene]):
        where = f"step {number}: {step}"
        match step["do"]:
            case "heartbeat":
                assert heartbeat(runner, step["request"]) == told(step["answer"]), where
            case "describe":
                assert described(runner) == step["answer"], where
            case "create" | "grow":
                getattr(runner, step["do"])(step["topic"], step["count"])
            case "delete":
                runner.delete(step["topic"])
            case "wait":
                runner.wait(step["ms"])
        runner.wait(20)


def heartbeat(runner, request):
    reply = runner.heartbeat(
        request.get("group", GROUP),
        request["member"],
        request["epoch"],
        topics=request.get("topics"),
        topic_regex=request.get("regex"),
        owned=request["owned"],
        instance_id=request.get("instance"),
        rack_id=request.get("rack"),
        server_assignor=request.get("assignor"),
        rebalance_timeout_ms=request.get("timeout", -1),
    )
    return {
        "error": reply.error_code.name,
        "message": told_message(reply.error_message),
        "member": reply.member_id,
        "epoch": reply.member_epoch,
        "interval": reply.heartbeat_interval_ms,
        "assignment": None if reply.assignment is None else by_name(runner, reply.assignment),
    }


def described(runner):
    group = runner.groups.describe(GROUP)
    members = [
        {
            "member": member.member_id,
            "instance": member.instance_id,
            "rack": member.rack_id,
            "epoch": member.member_epoch,
            "topics": list(member.topic_names),
            "regex": member.topic_regex,
            "assignment": {each.topic_name: list(each.partitions) for each in member.assignment},
            "target": {each.topic_name: list(each.partitions) for each in member.target_assignment},
            "type": 0 if member.is_classic else 1,
        }
        for member in group.members
    ]
    return {
        "error": group.error_code.name,
        "message": group.error_message,
        "state": group.state,
        "epoch": group.group_epoch,
        "target_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "members": sorted(members, key=lambda member: member["member"]),
    }


def told(answer):
    return {**answer, "message": told_message(answer["message"])}


def told_message(message):
    """What a library says of a regular expression is its own."""
    return message and message.partition("regular expression: ")[0]


def by_name(runner, partitions):
    return dict(sorted(runner.by_name(partitions).items()))
