"""The output of Kafka's DumpLogSegments, split by file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.brokers import kafka_tools

DATA_ENDINGS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@dataclass(frozen=True)
class Dumped:
    """What the tool printed about each file."""

    sections: dict[Path, str]

    def records(self, folder: Path) -> list[str]:
        """The line of every record in a partition's folder."""
        return [line for path in sorted(folder.glob("*.log")) for line in _record_lines(self.sections[path])]

    def codecs(self, folder: Path) -> Counter[str]:
        text = "".join(self.sections[path] for path in folder.glob("*.log"))
        return Counter(re.findall(r"compresscodec: (\w+)", text))


def _record_lines(section: str) -> list[str]:
    return re.findall(r"^\| offset: .*$", section, re.MULTILINE)


def data_files(folder: Path) -> list[Path]:
    """All that a log directory holds of data, indexes and snapshots, without the metadata log."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.name.endswith(DATA_ENDINGS) and path.parent.name != "__cluster_metadata-0"
    )


def dump(files: Sequence[Path], decoder: str) -> Dumped:
    text = kafka_tools.dump_log_segments(*files, decoder=decoder)
    parts = re.split(r"^Dumping (.*)$", text, flags=re.MULTILINE)
    sections = {Path(name): body for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    assert set(sections) == set(files)
    return Dumped(sections)
