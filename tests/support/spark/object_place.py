"""A log on object storage as tests of Spark use it."""

from __future__ import annotations

from broker_core.object_cluster.open_objects import open_objects


class ObjectPlace:
    """A log's URL and the options that reach it."""

    def __init__(self, spark, url, options=None):
        self.spark = spark
        self.url = url
        self.options = dict(options or {})

    def write(self, frame, **options):
        self._with(frame.write.format("streamlog").mode("append"), options).save(self.url)

    def read(self, topic="t", **options):
        return self._with(self.spark.read.format("streamlog").option("subscribe", topic), options).load(self.url)

    def values(self, topic="t", **options):
        """In the order of partitions and offsets."""
        rows = self.read(topic, **options).orderBy("topic", "partition", "offset").collect()
        return [bytes(row.value).decode() for row in rows]

    def copy(self, checkpoint, *, read=None, write=None):
        """A whole AvailableNow stream from `t` to `copy`, or as `read` and `write` say; how many batches it took."""
        source = self._with(
            self.spark.readStream.format("streamlog"), {"subscribe": "t", "startingOffsets": "earliest"} | (read or {})
        )
        frame = source.load(self.url).select("key", "value")
        sink = self._with(frame.writeStream.format("streamlog"), write or {"topic": "copy"})
        query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(self.url)
        query.awaitTermination()
        return sum(progress.numInputRows > 0 for progress in query.recentProgress)

    def open(self):
        return open_objects(self.url, self.options)

    def _with(self, builder, options):
        for name, value in (self.options | {name.replace("__", "."): value for name, value in options.items()}).items():
            builder = builder.option(name, value)
        return builder
