import resource

import pytest

from broker_core.log_directory.open_file_limit import open_partition_count


@pytest.mark.parametrize(
    ("soft", "expected"),
    [(256, 100), (1_024, 100), (4_000, 200), (20_000, 1_000), (1_048_576, 2_000), (resource.RLIM_INFINITY, 2_000)],
)
def test_a_process_keeps_partitions_open_for_half_of_its_descriptors(monkeypatch, soft, expected):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    assert open_partition_count() == expected
