"""The benchmarks of Spark use the session of the other Spark tests."""

from spark_session import spark

__all__ = ["spark"]
