"""`format("streamlog")`: the partitioned log as a source and a sink of Spark, batch and streaming.

`import spark_streamlog` is not needed in a Spark program: PySpark finds the data source by itself.
"""
