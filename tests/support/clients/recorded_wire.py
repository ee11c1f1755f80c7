"""What a real Kafka 4.3.1 answered: recorded requests and answers, frames with their size, by name."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

RECORDING = Path(__file__).parents[2] / "golden" / "wire-kafka-4.3.1.json"


@dataclass(frozen=True, kw_only=True)
class Exchange:
    name: str
    api_key: int
    version: int
    request: bytes
    response: bytes


@cache
def recorded_exchanges():
    """By name, in the order in which they happened."""
    document = json.loads(RECORDING.read_text())
    assert document["kafka"] == "4.3.1"
    return {
        entry["name"]: Exchange(
            name=entry["name"],
            api_key=entry["api_key"],
            version=entry["version"],
            request=base64.b64decode(entry["request"]),
            response=base64.b64decode(entry["response"]),
        )
        for entry in document["exchanges"]
    }
