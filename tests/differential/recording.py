"""Recorded answers of a real Kafka 4.3.1, so that a part of the comparison runs without one.

`python tests/differential/recording.py` plays the scenarios on a real one and writes the file again; with slugs behind
it, those alone, and keeps what is there of the others.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from differential.side import Note
from differential.sides import SETTINGS, SETTLE_SECONDS, all_scenarios, side_of
from support.brokers.real_kafka import RealKafka

RECORDING = Path(__file__).parent.parent / "golden" / "answers-kafka-4.3.1.json.xz"
KAFKA = "4.3.1"


def write_recording(transcripts):
    """`transcripts`: notes by scenario."""
    kept = {slug: [[note.label, note.answer] for note in transcripts[slug]] for slug in sorted(transcripts)}
    text = json.dumps({"kafka": KAFKA, "scenarios": kept}, indent=0, sort_keys=True)
    RECORDING.write_bytes(lzma.compress(text.encode(), preset=9))


def record(slugs=()):
    """Records a real Kafka's answers to all recorded scenarios, or to these."""
    wanted = {slug: one for slug, one in all_scenarios().items() if one.is_recorded and (not slugs or slug in slugs)}
    kept = {slug: notes for slug, notes in read_recording().items() if slugs and slug in all_scenarios()}
    with tempfile.TemporaryDirectory() as folder:
        running = RealKafka(Path(folder) / "node", SETTINGS)
        try:
            side = side_of("Kafka", running, SETTLE_SECONDS)
            write_recording(kept | {slug: side.play(one) for slug, one in wanted.items()})
        finally:
            running.kill()


def read_recording():
    document = json.loads(lzma.decompress(RECORDING.read_bytes()))
    assert document["kafka"] == KAFKA
    return {
        slug: [Note(label=label, answer=answer) for label, answer in notes]
        for slug, notes in document["scenarios"].items()
    }


if __name__ == "__main__":
    record(sys.argv[1:])
