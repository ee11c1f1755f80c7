"""What a bench is: its card, whom it measures, at which sizes, and what one run of it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.stage import Stage


class Contender(StrEnum):
    EMBEDDED = "embedded"
    BROKER = "broker"
    BROKER_OS = "broker flush.policy=os"
    OBJECTS = "objects"
    OBJECTS_30_MS = "objects + 30 ms"
    OBJECTS_100_MS = "objects + 100 ms"
    KAFKA = "kafka"

    @property
    def is_broker(self) -> bool:
        return self in (Contender.BROKER, Contender.BROKER_OS, Contender.KAFKA)

    @property
    def added_delay_ms(self) -> int | None:
        """What is added to each request to object storage; None for what does not lie there."""
        return _ADDED_DELAYS_MS.get(self)


_ADDED_DELAYS_MS = {Contender.OBJECTS: 0, Contender.OBJECTS_30_MS: 30, Contender.OBJECTS_100_MS: 100}


class Better(Enum):
    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that a run gives.

    `targets` bound ours / peer, by contender; `bound` bounds the number itself. At least as large where higher is
    better, at most as large where lower is.
    """

    name: str
    unit: str
    better: Better
    targets: Mapping[Contender, float] = field(default_factory=dict)
    bound: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOutcome:
    """Of one run: its numbers by the names of figures, and in words what was checked of its result."""

    values: Mapping[str, float]
    verified: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much work. The full scale is what targets are judged at."""

    rounds: int
    warm_up_rounds: int
    spark_rows: int
    micro_batch_seconds: int
    settle_batches: int
    """Micro-batches that are not timed: the first ones compile plans and start workers."""
    tool_records: int
    large_tool_records: int
    consumed_records: int
    """Java's consumer; librdkafka takes half as many, and of 1 KB a tenth."""
    round_trips: int
    recovered_bytes: int
    kernel_records: int
    growth_records: tuple[int, ...]
    growth_partitions: tuple[int, ...]
    growth_partition_records: int
    partition_share_records: int
    growth_value_bytes: tuple[int, ...]
    growth_bytes: int
    growth_connections: tuple[int, ...]
    connection_seconds: float

    def times(self, factor: float) -> Scale:
        """The same with other amounts of rows, records and bytes; what grows keeps its steps but for the last ones."""
        counts = {
            name: max(1000, int(getattr(self, name) * factor))
            for name in (
                "spark_rows", "tool_records", "large_tool_records", "consumed_records", "recovered_bytes",
                "kernel_records", "growth_bytes", "growth_partition_records",
                "partition_share_records",
            )
        }  # fmt: skip
        steps = tuple(count for count in self.growth_records if count <= self.growth_records[-1] * factor)
        return replace(self, **counts, growth_records=steps or self.growth_records[:1])

    def with_rounds(self, rounds: int) -> Scale:
        return replace(self, rounds=rounds)


FULL = Scale(
    rounds=3, warm_up_rounds=1, spark_rows=10_000_000, micro_batch_seconds=20, settle_batches=10,
    tool_records=2_000_000, large_tool_records=400_000, consumed_records=8_000_000, round_trips=3_000,
    recovered_bytes=600_000_000, kernel_records=2_000_000,
    growth_records=(1_000_000, 10_000_000, 100_000_000), growth_partitions=(1, 10, 100, 1_000),
    growth_partition_records=2_000_000, partition_share_records=2_000,
    growth_value_bytes=(10, 100, 1_000, 10_000, 100_000), growth_bytes=1_000_000_000,
    growth_connections=(1, 4, 16, 64), connection_seconds=3,
)  # fmt: skip
QUICK = Scale(
    rounds=1, warm_up_rounds=0, spark_rows=20_000, micro_batch_seconds=3, settle_batches=1,
    tool_records=20_000, large_tool_records=5_000,
    consumed_records=20_000, round_trips=200, recovered_bytes=5_000_000, kernel_records=50_000,
    growth_records=(10_000, 100_000), growth_partitions=(1, 10), growth_partition_records=10_000,
    partition_share_records=1_000, growth_value_bytes=(10, 1_000), growth_bytes=2_000_000, growth_connections=(1, 4),
    connection_seconds=0.3,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A small module's contribution to the table; `name` is what --only takes.

    `run` does one case at one contender and checks what came of it; only what it puts under `stage.measured()` counts
    in CPU time and memory. `needs` names what may be missing on a machine: "spark", "java-tools", "versitygw".
    """

    name: str
    what: str
    how: str
    verified: str
    figures: tuple[Figure, ...]
    contenders: tuple[Contender, ...]
    cases: Callable[[Scale], tuple[str, ...]]
    run: Callable[[Stage, Contender, str], BenchOutcome]
    needs: frozenset[str] = frozenset()
    is_warmed_up: bool = True
    """False where each run starts its own processes, or where what takes long is the median of three rounds anyway."""
    flat_within: float | None = None
    """Where cases are steps of a growth and figures are costs: a step's cost by that of any earlier one, at most."""
    is_by_name_only: bool = False
    """Not part of a run without --only: the full one is to take an hour."""
    full_seconds: int = 0
    """About so long it takes in a full run against Kafka on two cores."""

    def figure(self, name: str) -> Figure:
        return next(figure for figure in self.figures if figure.name == name)
