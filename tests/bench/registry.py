"""Every bench, in the order in which they run: the memory of brokers that have worked comes last."""

from __future__ import annotations

from collections.abc import Sequence

from bench import (
    broker_memory,
    broker_recovery,
    broker_start,
    confluent_consume,
    confluent_produce,
    confluent_round_trip,
    growth_connections,
    growth_partitions,
    growth_records,
    growth_values,
    java_consume,
    java_produce,
    java_round_trip,
    objects_requests,
    objects_spark,
    record_kernel,
    spark_copy,
    spark_micro_batch,
    spark_read,
    spark_stream,
    spark_write,
)
from bench.card import Bench

BENCHES: tuple[Bench, ...] = (
    record_kernel.BENCH,
    broker_start.BENCH,
    broker_memory.IDLE,
    java_produce.ACKS_1,
    java_produce.ACKS_ALL,
    java_consume.BENCH,
    java_round_trip.BENCH,
    confluent_produce.BENCH,
    confluent_consume.BENCH,
    confluent_round_trip.BENCH,
    growth_connections.BENCH,
    broker_recovery.BENCH,
    spark_read.BENCH,
    spark_stream.BENCH,
    spark_stream.COMPILED,
    spark_write.BENCH,
    spark_copy.BENCH,
    spark_micro_batch.BENCH,
    objects_spark.READ,
    objects_spark.STREAM,
    objects_spark.WRITE,
    objects_spark.COPY,
    objects_spark.MICRO_BATCH,
    objects_requests.BENCH,
    growth_records.BENCH,
    growth_partitions.SAME_RECORDS,
    growth_partitions.SAME_SHARES,
    growth_values.BENCH,
    broker_memory.AFTER_THE_RUNS,
)


def select(names: Sequence[str]) -> tuple[Bench, ...]:
    """Without names those of a full run; a name may be the beginning of several. Raises ValueError for one that is
    none's."""
    unknown = [name for name in names if not any(bench.name.startswith(name) for bench in BENCHES)]
    if unknown:
        known = ", ".join(bench.name for bench in BENCHES)
        raise ValueError(f"no bench is named {', '.join(unknown)}; there are {known}")
    if not names:
        return tuple(bench for bench in BENCHES if not bench.is_by_name_only)
    return tuple(bench for bench in BENCHES if any(bench.name.startswith(name) for name in names))
