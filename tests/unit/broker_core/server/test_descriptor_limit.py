import subprocess
import sys

import pytest

from broker_core.server.descriptor_limit import DescriptorShares, descriptor_limit


@pytest.mark.parametrize("limit", [256, 1_024, 4_096, 65_536, 1_048_576])
def test_partitions_and_connections_leave_descriptors_free(limit):
    shares = DescriptorShares.of(limit)
    assert shares.open_partition_count * 12 + shares.connection_count + 48 <= limit
    assert shares.open_partition_count >= 10
    assert shares.connection_count >= 80


def test_with_a_high_descriptor_limit_a_thousand_partitions_stay_open():
    assert DescriptorShares.of(65_536).open_partition_count == 1_000


def test_with_a_low_descriptor_limit_both_get_a_minimum():
    assert DescriptorShares.of(10) == DescriptorShares(open_partition_count=4, connection_count=16)


def test_a_broker_raises_its_descriptor_limit_to_the_hard_limit():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300));"
        "from broker_core.server.descriptor_limit import *; raise_descriptor_limit(); print(descriptor_limit())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "300\n"
    assert descriptor_limit() > 0
