"""Converts between Spark's rows and the log's records: the Kafka-compatible schema, and Arrow batches both ways."""
