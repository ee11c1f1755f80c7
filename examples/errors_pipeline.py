"""A pipeline for spark-submit: failed requests out of the topic of all requests, exactly once, its settings in a file.

    streamlog produce access --path streamlog-errors/log < requests.jsonl
    spark-submit --properties-file conf/errors_pipeline.conf examples/errors_pipeline.py
    streamlog consume errors --path streamlog-errors/log

A request is a line such as {"path": "/cart", "status": 503, "ms": 12}; other values are dropped. With
`spark.pipeline.trigger` set to `10 seconds` the pipeline runs until it is stopped.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_streamlog.java_check import require_java

REQUEST_SCHEMA = "path string, status int, ms long"
SETTINGS = ("path", "checkpoint", "from", "to", "status", "maxOffsetsPerTrigger", "trigger")


def settings_of(spark: SparkSession) -> dict[str, str]:
    """The `spark.pipeline.*` of the properties file. Names all missing ones at once."""
    found = {name: spark.conf.get(f"spark.pipeline.{name}", None) for name in SETTINGS}
    missing = [f"spark.pipeline.{name}" for name, value in found.items() if value is None]
    if missing:
        sys.exit(f"Missing: {', '.join(missing)}. Submit with: --properties-file conf/errors_pipeline.conf")
    return {name: value for name, value in found.items() if value is not None}


def failed_requests(spark: SparkSession, settings: dict[str, str]) -> DataFrame:
    requests = (
        spark.readStream.format("streamlog")
        .option("subscribe", settings["from"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings["maxOffsetsPerTrigger"])
        .load(settings["path"])
        .withColumn("request", F.from_json(F.col("value").cast("string"), REQUEST_SCHEMA))
    )
    failed = requests.where(F.col("request.status") >= int(settings["status"]))
    return failed.select(F.col("request.path").alias("key"), "value", "timestamp")


def main() -> None:
    require_java()
    spark = SparkSession.builder.getOrCreate()
    settings = settings_of(spark)
    trigger = settings["trigger"]
    query = (
        failed_requests(spark, settings)
        .writeStream.format("streamlog")
        .option("topic", settings["to"])
        .option("checkpointLocation", settings["checkpoint"])
        .trigger(**({"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}))
        .start(settings["path"])
    )
    query.awaitTermination()
    read = sum(batch["numInputRows"] for batch in query.recentProgress)
    print(f"{read} requests read; those with status {settings['status']} or above are in the topic {settings['to']}")
    spark.stop()


if __name__ == "__main__":
    main()
