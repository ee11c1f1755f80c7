"""Histories of metadata records with the image that Kafka's own classes have after each of them.

    PYTHONPATH=tests:tests/golden/metadata python tests/golden/metadata/image_history.py

writes image-histories-kafka-4.3.1.json.xz: by name a list of [offset, record, answer], the record in hex. The answer
tells which records came and went in the image's snapshot, "+hex -hex", or "refused …": see KafkaMetadata.java.
"""

from __future__ import annotations

import json
import lzma
import tarfile
from dataclasses import replace

from drawn_history import drawn_records
from kafka_metadata import FOLDER, asked

from broker_core.metadata import metadata_records as m
from broker_core.metadata.image_snapshot import snapshot_records
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_record_codec import decode_metadata_record, encode_metadata_record
from broker_core.model.exceptions import InconsistentMetadataError
from broker_core.record.batch_reader import iter_headers, records_of

RECORDING = FOLDER / "image-histories-kafka-4.3.1.json.xz"
LOGS = ("cluster-metadata-kafka-4.3.1", "static-quorum-kafka-4.3.1")
DRAWN = {f"drawn {seed}": (seed, 700) for seed in (1, 2)}


def files_of(archive):
    """Name and content of each file of a recorded `__cluster_metadata-0`."""
    with tarfile.open(FOLDER / f"{archive}.tar.xz") as opened:
        return {member.name.split("/")[-1]: opened.extractfile(member).read() for member in opened if member.isfile()}


def logged_records(archive):
    """(offset, content) of each metadata record in the segments, in order."""
    segments = [content for name, content in sorted(files_of(archive).items()) if name.endswith(".log")]
    return [
        (record.offset, record.value)
        for segment in segments
        for position, header in iter_headers(segment)
        if not header.is_control
        for record in records_of(segment, position)
    ]


def drawn_contents(seed, count):
    return list(enumerate(encode_metadata_record(record) for record in drawn_records(seed, count)))


def answered(contents):
    """[offset, hex, Kafka's answer] of each record of one history."""
    answers = asked(["new", *(f"replay {offset} {content.hex()}" for offset, content in contents)])
    return [[offset, content.hex(), answer] for (offset, content), answer in zip(contents, answers, strict=True)]


def read_histories():
    return json.loads(lzma.decompress(RECORDING.read_bytes()))


class KafkasImage:
    """The records of Kafka's snapshot after each answer, in a form in which the order of lists that are maps is one."""

    def __init__(self):
        self.records = set()

    def apply(self, answer):
        for change in answer.split():
            record = normal(decode_metadata_record(bytes.fromhex(change[1:])))
            if change[0] == "+":
                self.records.add(record)
            else:
                self.records.discard(record)


def normal(record):
    """Endpoints, features and a quota's entity are hash maps in Kafka's image."""
    if isinstance(record, m.RegisterBrokerRecord | m.RegisterControllerRecord):
        by_name = {
            name: tuple(sorted(getattr(record, name), key=lambda part: part.name))
            for name in ("end_points", "features")
        }
        return replace(record, **by_name)
    if isinstance(record, m.ClientQuotaRecord):
        return replace(record, entity=tuple(sorted(record.entity, key=lambda part: part.entity_type)))
    return record


def first_difference(history):
    """Where our image is another than Kafka's, as (offset, only Kafka's, only ours, refusals); None if nowhere."""
    image, theirs = MetadataImage(), KafkasImage()
    for offset, content, answer in history:
        refusal = None
        try:
            image.replay(decode_metadata_record(bytes.fromhex(content)))
        except InconsistentMetadataError as error:
            refusal = error.message
        if not answer.startswith("refused"):
            theirs.apply(answer)
        ours = {normal(record) for record in snapshot_records(image)}
        if ours != theirs.records or (refusal is not None) != answer.startswith("refused"):
            return (
                offset,
                theirs.records - ours,
                ours - theirs.records,
                (answer if "refused" in answer else "", refusal),
            )
    return None


def main():
    histories = {name: answered(logged_records(name)) for name in LOGS}
    histories |= {name: answered(drawn_contents(*drawing)) for name, drawing in DRAWN.items()}
    RECORDING.write_bytes(lzma.compress(json.dumps(histories).encode(), preset=9))


if __name__ == "__main__":
    main()
