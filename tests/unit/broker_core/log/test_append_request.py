import pytest
from support.builders.builders import a_batch

from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import InvalidRecordError
from broker_core.model.identifiers import CompressionType


@pytest.mark.parametrize("base_offset", [5, -1])
def test_a_clients_batch_must_have_base_offset_0_unless_it_is_ignored(base_offset):
    batch = a_batch(1, base_offset=base_offset)
    with pytest.raises(
        InvalidRecordError, match=rf"t-0: the base offset of a produced batch must be 0, not {base_offset}$"
    ):
        AppendRequest(batches=batch).require_no_claimed_offset("t-0")
    AppendRequest(batches=batch, ignores_claimed_offset=True).require_no_claimed_offset("t-0")
    AppendRequest(batches=batch, origin=AppendOrigin.COORDINATOR).require_no_claimed_offset("t-0")
    AppendRequest(batches=a_batch(1)).require_no_claimed_offset("t-0")


def test_an_uncompressed_append_is_plain():
    assert AppendRequest(batches=a_batch(2)).is_plain
    assert not AppendRequest(batches=a_batch(2, compression=CompressionType.LZ4)).is_plain
    assert not AppendRequest(batches=bytearray(b"no batch")).is_plain
