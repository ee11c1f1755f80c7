"""On what a run was made: figures of different machines, or of a busy one, are not to be compared."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from support.brokers.kafka_tools import KAFKA_VERSION

from broker_core.record.columns import KERNEL_NAME

_SYNCS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchMachine:
    """`sync_ms` is the median time of an fdatasync behind 4 KiB, where the logs are put."""

    date: str
    processor: str
    core_count: int
    memory_gib: float
    kernel: str
    python: str
    java: str
    versions: dict[str, str]
    record_kernel: str
    sync_ms: float
    load_before: float

    def is_same_as(self, other: BenchMachine) -> bool:
        """With the same versions of what both of their runs used."""
        common = self.versions.keys() & other.versions.keys()
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("processor", "core_count", "memory_gib", "kernel", "python", "java", "record_kernel")
        ) and all(self.versions[name] == other.versions[name] for name in common)

    def joined_with(self, other: BenchMachine) -> BenchMachine:
        """Of runs one after the other: the first date to the last, and the worse of what changes."""
        first, last = sorted((self.date.partition(" to ")[0], other.date.rpartition(" to ")[2]))
        return replace(
            self,
            date=f"{first} to {last}",
            versions=self.versions | other.versions,
            sync_ms=max(self.sync_ms, other.sync_ms),
            load_before=max(self.load_before, other.load_before),
        )

    def in_words(self) -> str:
        parts = [
            f"{self.date}, {self.processor}, {self.core_count} cores, {self.memory_gib:.0f} GiB",
            f"fdatasync {self.sync_ms:.2f} ms, load before {self.load_before:.1f}",
            f"{self.kernel}, Python {self.python}, {self.java}",
            ", ".join(f"{name} {number}" for name, number in self.versions.items()) + f", kernel {self.record_kernel}",
        ]
        return "; ".join(parts)


def look_at_machine(folder: Path, pyspark: str | None) -> BenchMachine:
    """`folder` is where the logs will be; `pyspark` the version that Spark runs use, None without any."""
    return BenchMachine(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        processor=_processor(),
        core_count=os.cpu_count() or 1,
        memory_gib=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30,
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        java=_java(),
        versions=({"PySpark": pyspark} if pyspark else {})
        | {"Kafka": KAFKA_VERSION}
        | {name: _version(name) for name in ("pyarrow", "confluent-kafka")},
        record_kernel=KERNEL_NAME,
        sync_ms=_sync_ms(folder),
        load_before=os.getloadavg()[0],
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _java() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except OSError:
        return "no Java"
    return said.splitlines()[0] if said else "no Java"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


def _sync_ms(folder: Path) -> float:
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            file.write(b"x" * 4096)
            file.flush()
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)
