"""Which locations are paths of this machine, and which they are."""

import pytest

from spark_streamlog.options.local_path import local_path, scheme_of


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/data/log", "/data/log"),
        ("log", "log"),
        ("file:/data/log", "/data/log"),
        ("file:///data/my%20log", "/data/my log"),
        ("/data/50%25 off", "/data/50%25 off"),  # a plain path is no URI
        ("C:/data", "C:/data"),
        ("", ""),
    ],
)
def test_a_path_of_this_machine_is_given_plain(location, path):
    assert local_path(location) == path


@pytest.mark.parametrize("location", ["hdfs://host/data", "s3a://bucket/data", "dbfs:/data"])
def test_what_lies_elsewhere_has_no_path_here(location):
    assert local_path(location) is None
    assert scheme_of(location) == location.partition(":")[0]
