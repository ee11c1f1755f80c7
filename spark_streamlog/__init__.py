"""`format("streamlog")`: the partitioned log as a source and a sink of Spark, batch and streaming.

`import spark_streamlog` is not needed in a Spark program: PySpark finds the data source by itself.
"""

from broker_core.model.loading import without_archives, without_hypothesis

# Every Python process that Spark starts imports this module, and a query waits for the imports.
with without_hypothesis(), without_archives():
    import crc32c as _crc32c  # noqa: F401
    import kio.static.primitive as _kio_types  # noqa: F401
