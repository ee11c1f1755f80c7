"""Drives one streaming query of the source in tests of Spark: start, take all there is, stop, start again.

The rows go to a parquet folder, which keeps what each batch wrote exactly once also across restarts.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import pyarrow.parquet as pq


def forget_last_commit(checkpoint: Path) -> None:
    """Leaves a checkpoint as a crash does between the sink's commit and Spark's: the last batch will be repeated."""
    commits = checkpoint / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


class StreamDriver:
    """`options` are those of the source, besides the topic `t` and a start at earliest, which are the defaults."""

    def __init__(self, spark, log_dir, folder: Path, options=None, *, columns=("CAST(value AS STRING) AS value",)):
        self.spark = spark
        self.log_dir = log_dir
        self.checkpoint = folder / "checkpoint"
        self.output = folder / "output"
        self.options = {"startingOffsets": "earliest"} | (options or {})
        if not {"subscribe", "subscribePattern", "assign"} & self.options.keys():
            self.options["subscribe"] = "t"
        self.columns = columns
        self.query = None

    def frame(self):
        return self.spark.readStream.format("streamlog").options(**self.options).load(self.log_dir)

    def start(self, **trigger):
        writer = self.frame().selectExpr(*self.columns).writeStream.format("parquet")
        if trigger:
            writer = writer.trigger(**trigger)
        self.query = writer.option("checkpointLocation", str(self.checkpoint)).start(str(self.output))
        return self

    def process_all(self):
        self.query.processAllAvailable()
        return self.values()

    def run_available_now(self):
        """A whole run with Trigger.AvailableNow; the rows of all runs so far."""
        self.start(availableNow=True)
        self.await_end()
        return self.values()

    def await_end(self, timeout_seconds=120):
        """Returns when the query ended; raises what it failed with."""
        assert self.query.awaitTermination(timeout_seconds), "the query did not end"

    def values(self):
        values = [value for path in self._written_files() for value in pq.read_table(path)["value"].to_pylist()]
        return sorted(values, key=lambda value: (value is None, value))

    def _written_files(self):
        """The files of whole micro-batches, by the log of Spark's file sink. No query: that would cost as much as one
        of ours."""
        log = sorted((self.output / "_spark_metadata").glob("[0-9]*"), key=lambda path: int(path.stem))
        compacted = [number for number, path in enumerate(log) if path.suffix == ".compact"]
        lines = [line for path in log[compacted[-1] if compacted else 0 :] for line in path.read_text().splitlines()]
        return [url2pathname(urlparse(json.loads(line)["path"]).path) for line in lines if line.startswith("{")]

    def stop(self):
        if self.query is not None:
            self.query.stop()

    def logged_offsets(self, batch_id):
        """What Spark stored as the end of a batch: one document per source."""
        lines = (self.checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
        return [json.loads(line) for line in lines[2:]]

    def forget_commit_of(self, batch_id):
        """Leaves the checkpoint as a crash does between the sink's commit and Spark's."""
        for name in (str(batch_id), f".{batch_id}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)
