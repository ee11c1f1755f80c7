"""The scenes of consumer_groups/transcripts.json, played at a real Kafka once more, and the records that it wrote.

`python tests/golden/consumer_group_recording.py` takes the steps as they are recorded, writes the file again with the
answers that come, and consumer_groups/records.json with the keys and values that lie in `__consumer_offsets` then, in
hexadecimal. To record another step, add it to the file by hand first, without an answer.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from differential.side import LATER, PAUSE_SECONDS, READY_SECONDS, Wire, error_codes
from support.brokers.reachable_broker import ReachableBroker
from support.brokers.real_kafka import RealKafka

from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.message_builder import build
from broker_core.record.batch_reader import iter_headers, records_of

FOLDER = Path(__file__).parent / "consumer_groups"
TRANSCRIPTS, RECORDS = FOLDER / "transcripts.json", FOLDER / "records.json"
SETTINGS = (
    "group.consumer.assignment.interval.ms=0",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=1",
    "group.consumer.min.session.timeout.ms=1000",
)
GROUP, BEGINNING = "$GROUP", "@"
STEP_SECONDS = 0.6
"""Between steps: a real Kafka assigns in another thread."""
TOPIC_SECONDS = 2.0
"""After topics changed: they reach the coordinator by the metadata log."""


class SceneAtKafka:
    """One scene, with topics and a group of its own."""

    def __init__(self, broker: ReachableBroker, scene: str) -> None:
        self._beginning = scene.replace("_", "-") + "."
        self._in_regexes = self._beginning.replace(".", r"\.")
        self._group = f"{self._beginning}group"
        self._wire = Wire(("127.0.0.1", broker.ports["PLAINTEXT"]))
        self._ids: dict[str, Any] = {}
        self._ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[self._group])

    def play(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The steps with the answers of this broker."""
        played = []
        for step in steps:
            match step["do"]:
                case "heartbeat":
                    played.append({**step, "answer": self._heartbeat(step["request"])})
                case "describe":
                    played.append({**step, "answer": self._described()})
                case _:
                    self._change(step)
                    played.append(step)
                    time.sleep(0 if step["do"] == "wait" else TOPIC_SECONDS)
            time.sleep(STEP_SECONDS)
        self._wire.close()
        return played

    def _ask(self, api_key: ApiKey, version: int, **given: Any) -> Any:
        """Asked again while the broker is not ready yet."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            self._wire.send(build(message_types(api_key, version).request, given))
            answer = self._wire.receive()
            if not error_codes(answer) & LATER:
                return answer
            assert time.monotonic() < deadline, f"not ready for {READY_SECONDS} s: {answer}"
            time.sleep(PAUSE_SECONDS)

    def _change(self, step: dict[str, Any]) -> None:
        if step["do"] == "wait":
            time.sleep(step["ms"] / 1000)
            return
        name = self._beginning + step["topic"]
        match step["do"]:
            case "create":
                topic = {"name": name, "num_partitions": step["count"], "replication_factor": 1}
                answer = self._ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=10_000)
                self._ids[step["topic"]] = answer.topics[0].topic_id
            case "grow":
                topic = {"name": name, "count": step["count"], "assignments": None}
                answer = self._ask(ApiKey.CREATE_PARTITIONS, 3, topics=[topic], timeout=10_000)
            case "delete":
                answer = self._ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": name}], timeout=10_000)
            case other:
                raise AssertionError(f"{other} is not a step")
        assert {code.name for code in error_codes(answer)} == {"none"}, answer

    def _heartbeat(self, request: dict[str, Any]) -> dict[str, Any]:
        topics, owned, regex = request.get("topics"), request["owned"], request.get("regex")
        answer = self._ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=request.get("group", GROUP).replace(GROUP, self._group),
            member_id=request["member"],
            member_epoch=request["epoch"],
            instance_id=request.get("instance"),
            rack_id=request.get("rack"),
            rebalance_timeout=request.get("timeout", -1),
            subscribed_topic_names=None if topics is None else [self._beginning + topic for topic in topics],
            subscribed_topic_regex=regex and regex.replace(BEGINNING, self._in_regexes),
            server_assignor=request.get("assignor"),
            topic_partitions=None
            if owned is None
            else [{"topic_id": self._ids[topic], "partitions": numbers} for topic, numbers in owned.items()],
        )
        return {
            "error": answer.error_code.name,
            "message": self._text(answer.error_message),
            "member": answer.member_id,
            "epoch": answer.member_epoch,
            "interval": answer.heartbeat_interval // timedelta(milliseconds=1),
            "assignment": None if answer.assignment is None else self._by_name(answer.assignment.topic_partitions),
        }

    def _described(self) -> dict[str, Any]:
        (group,) = self._ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[self._group]).groups
        members = [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "rack": member.rack_id,
                "epoch": member.member_epoch,
                "topics": [topic.removeprefix(self._beginning) for topic in sorted(member.subscribed_topic_names)],
                "regex": (member.subscribed_topic_regex or "").replace(self._in_regexes, BEGINNING),
                "assignment": self._by_name(member.assignment.topic_partitions),
                "target": self._by_name(member.target_assignment.topic_partitions),
                "type": member.member_type,
            }
            for member in group.members
        ]
        return {
            "error": group.error_code.name,
            "message": self._text(group.error_message),
            "state": group.group_state,
            "epoch": group.group_epoch,
            "target_epoch": group.assignment_epoch,
            "assignor": group.assignor_name,
            "members": sorted(members, key=lambda member: member["member"]),
        }

    def _by_name(self, partitions: Any) -> dict[str, list[int]]:
        names = {topic_id: name for name, topic_id in self._ids.items()}
        found = {names[each.topic_id]: sorted(each.partitions) for each in partitions if each.topic_id in names}
        return dict(sorted(found.items()))

    def _text(self, text: str | None) -> str | None:
        return text and text.replace(self._group, GROUP)


def play_all(broker: ReachableBroker) -> dict[str, list[dict[str, Any]]]:
    recorded = json.loads(TRANSCRIPTS.read_text())
    return {scene: SceneAtKafka(broker, scene).play(steps) for scene, steps in recorded.items()}


def stored_records(folder: Path) -> list[list[str | None]]:
    """Keys and values of `__consumer_offsets`."""
    found: list[list[str | None]] = []
    for path in sorted(folder.rglob("__consumer_offsets-*/*.log")):
        content = path.read_bytes()
        for position, header in iter_headers(content):
            if not header.is_control:
                found += [
                    [(record.key or b"").hex(), None if record.value is None else record.value.hex()]
                    for record in records_of(content, position)
                ]
    return found


def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        running = RealKafka(Path(folder) / "node", SETTINGS)
        try:
            transcripts = play_all(running)
            running.stop()
            TRANSCRIPTS.write_text(json.dumps(transcripts, indent=1, sort_keys=True) + "\n")
            RECORDS.write_text(json.dumps(stored_records(Path(folder)), indent=0) + "\n")
        finally:
            running.kill()


if __name__ == "__main__":
    record()
