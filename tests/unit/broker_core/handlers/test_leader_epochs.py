import pytest
from kio.schema.errors import ErrorCode

from broker_core.handlers.leader_epochs import refused_epoch


@pytest.mark.parametrize(
    ("believed", "expected"),
    [(-1, None), (3, None), (2, ErrorCode.fenced_leader_epoch), (4, ErrorCode.unknown_leader_epoch)],
)
def test_an_older_epoch_is_fenced_and_a_newer_one_unknown(believed, expected):
    assert refused_epoch(believed, 3) == expected
