"""Spark on a log on object storage, beside its own connector with Kafka: the benches of the other places, once more.

The server is versitygw on the same machine, so a request takes about a millisecond. The same with 30 and 100 ms added
to each request, as to a store that is further away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bench import spark_copy, spark_micro_batch, spark_read, spark_stream, spark_write
from bench.card import Bench, Contender

CONTENDERS = (Contender.OBJECTS, Contender.OBJECTS_30_MS, Contender.OBJECTS_100_MS, Contender.KAFKA)


def on_objects(bench: Bench, targets: Mapping[str, float], full_seconds: int) -> Bench:
    """`targets`: ours / peer without a delay, by figure."""
    return replace(
        bench,
        name=bench.name.replace("spark-", "objects-"),
        what=f"on object storage: {bench.what}",
        how=f"{bench.how}; a log on versitygw, on the same machine, and with a delay added to each request",
        figures=tuple(
            replace(figure, targets={Contender.OBJECTS: targets[figure.name]} if figure.name in targets else {})
            for figure in bench.figures
        ),
        contenders=CONTENDERS,
        needs=bench.needs | {"versitygw"},
        is_by_name_only=True,
        full_seconds=full_seconds,
    )


READ = on_objects(spark_read.BENCH, {"rows/s": 2.0}, 200)
STREAM = on_objects(spark_stream.BENCH, {"rows/s": 2.0}, 200)
WRITE = on_objects(spark_write.BENCH, {"rows/s": 1.5}, 260)
COPY = on_objects(spark_copy.BENCH, {"rows/s": 1.5}, 380)
MICRO_BATCH = on_objects(spark_micro_batch.BENCH, {"p50": 1.5}, 300)
