"""All tests here need Java and share one Spark session."""

from pathlib import Path

import pytest
from spark_session import log_dir, spark

__all__ = ["log_dir", "spark"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)
