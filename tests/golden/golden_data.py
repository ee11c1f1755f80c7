"""The log directory of a real Kafka, unpacked, and what its consumer saw: see README.md beside this file."""

import base64
import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

ARCHIVE = Path(__file__).parent / "kafka-4.3.1.tar.gz"


@dataclass(frozen=True)
class GoldenRecord:
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None


def unpack(folder: Path) -> Path:
    """Gives the folder that holds `log/` and the consumer's files."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "kafka-4.3.1"


def consumer_saw(golden: Path, isolation: str) -> dict[tuple[str, int], list[GoldenRecord]]:
    """Records per partition; `isolation` is read_committed or read_uncommitted."""
    seen: dict[tuple[str, int], list[GoldenRecord]] = {partition: [] for partition in bounds(golden, isolation)}
    for line in (golden / f"{isolation}.jsonl").read_text().splitlines():
        r = json.loads(line)
        headers = None if r["headers"] is None else tuple((name, decoded(value)) for name, value in r["headers"])
        seen[(r["topic"], r["partition"])].append(
            GoldenRecord(
                r["offset"], r["timestamp"], r["timestampType"], decoded(r["key"]), decoded(r["value"]), headers
            )
        )
    return seen


def bounds(golden: Path, isolation: str) -> dict[tuple[str, int], tuple[int, int]]:
    table = json.loads((golden / f"{isolation}.bounds.json").read_text())
    return {(t, int(p)): (b[0], b[1]) for t, partitions in table.items() for p, b in partitions.items()}


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    """Digest and modification time of every file, to see that nothing was changed."""
    return {
        str(p.relative_to(folder)): (
            hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "folder",
            p.stat().st_mtime_ns,
        )
        for p in sorted(folder.rglob("*"))
    }


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
