"""Makes Spark find `format("streamlog")` by itself.

PySpark imports every top-level module named `pyspark_*` and registers the `DefaultSource` it finds there.
"""

from spark_streamlog.data_source import StreamlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
