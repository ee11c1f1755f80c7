"""Every setting of Kafka 4.3.1's consumer and producer with its type: recorded, and how to ask again.

`PYTHONPATH=tests python tests/support/brokers/client_settings.py` makes the recording: it runs ClientSettings.java,
which asks Kafka's own classes (Java, and Kafka's jars by Maven).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from support.brokers.kafka_tools import JARS

RECORDING = Path(__file__).parents[2] / "golden" / "client-settings-kafka-4.3.1.json"
PROGRAM = Path(__file__).with_name("ClientSettings.java")


def recorded_client_settings() -> dict[str, dict[str, str]]:
    """Name to type, of the consumer and of the producer."""
    recorded: dict[str, dict[str, str]] = json.loads(RECORDING.read_text())
    return recorded


def ask_kafka() -> dict[str, dict[str, str]]:
    answer = subprocess.run(
        ["java", "-cp", f"{JARS}/*", str(PROGRAM)], capture_output=True, text=True, check=True, timeout=120
    )
    settings: dict[str, dict[str, str]] = {}
    for line in answer.stdout.splitlines():
        side, name, kind = line.split("\t")
        settings.setdefault(side, {})[name] = kind
    return settings


if __name__ == "__main__":
    RECORDING.write_text(json.dumps(ask_kafka(), indent=0, sort_keys=True) + "\n")
