import pytest
from support.spark.read_query import at

from spark_streamlog.planning.offset_lag import OffsetLag, offset_lag


@pytest.mark.parametrize(
    ("end", "latest", "expected"),
    [
        (at(t_0=3, t_1=5), at(t_0=3, t_1=5), (0, 0, 0.0, 0)),
        (at(t_0=3, t_1=5), at(t_0=13, t_1=6), (1, 10, 5.5, 11)),
        (at(t_0=3), at(t_0=3, t_1=9), (0, 9, 4.5, 9)),
        (at(t_0=3, u_0=1), at(t_0=4), (1, 1, 1.0, 1)),
        (at(t_0=9), at(t_0=4), (0, 0, 0.0, 0)),
    ],
)
def test_the_lag_covers_the_partitions_with_a_latest_offset(end, latest, expected):
    minimum, maximum, average, total = expected
    assert offset_lag(end, latest) == OffsetLag(minimum=minimum, maximum=maximum, average=average, total=total)


def test_without_partitions_there_is_no_lag():
    assert offset_lag({}, {}) is None


def test_the_metrics_have_the_names_of_sparks_kafka_source():
    assert offset_lag(at(t_0=0), at(t_0=3)).metrics() == {
        "minOffsetsBehindLatest": "3",
        "maxOffsetsBehindLatest": "3",
        "avgOffsetsBehindLatest": "3.0",
    }
