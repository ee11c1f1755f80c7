"""Which locations are paths of this machine, and which they are."""

import pytest

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.log_location import local_directory, scheme_of


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/data/log", "/data/log"),
        ("log", "log"),
        ("./s3:/bucket", "./s3:/bucket"),
        ("file:/data/log", "/data/log"),
        ("file:///data/my%20log", "/data/my log"),
        ("FILE:///data/log", "/data/log"),
        ("file://localhost/data/log", "/data/log"),
        ("file:///data/caf%C3%A9", "/data/café"),
        ("/data/50%25 off", "/data/50%25 off"),  # a plain path is no URL
        ("/data/a#b?c", "/data/a#b?c"),
        ("/data/s3://x", "/data/s3://x"),
        ("C:/data", "C:/data"),
        ("", ""),
    ],
)
def test_a_local_path_is_returned_unchanged(location, path):
    assert local_directory(location) == path


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("s3://bucket/log", "is not a local directory"),
        ("s3:/bucket/log", "is not a local directory"),  # what pathlib makes of two slashes
        ("S3A://bucket/log", "is not a local directory"),
        ("hdfs://host/data", "is not a local directory (the URL of a log begins with file:///, or with s3:// or"),
        ("dbfs:/data", "dbfs:"),
        ("abfss://container@account.dfs.core.windows.net/log", "abfss:"),
        ("gs://bucket/log", "gs:"),
        ("https://host/log", "https:"),
        ("local:9092", "write ./local:9092 for a local folder of that name"),
        ("file://host/log", "file:///host/log"),
        ("file:log", "not an absolute path"),
        ("file:", "not an absolute path"),
        ("file:///data/a#b", "# as %23"),
        ("file:///data/a?b=c", "? as %3F"),
        ("file:///data/%00", "zero byte"),
        ("file://[x/log", "is not a URL"),
        ("/data\0/log", "zero byte"),
    ],
)
def test_a_location_that_is_not_a_local_path_is_refused_by_name(location, said):
    with pytest.raises(InvalidConfigError) as refused:
        local_directory(location)
    assert said in refused.value.message
    assert location.split("\0")[0] in refused.value.message


@pytest.mark.parametrize(("location", "scheme"), [("s3A://x", "s3a"), ("C:/x", ""), ("/s3:/x", ""), ("a/b:c", "")])
def test_a_scheme_has_at_least_two_letters_and_a_colon(location, scheme):
    assert scheme_of(location) == scheme
